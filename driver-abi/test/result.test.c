#include "abi_result.h"

#include <string.h>

#include "host.h"

static void every_result_has_a_name_and_a_sentence(void **state) {
  (void)state;
  assert_true(abi_result_count > 90);
  for (unsigned i = 0; i < abi_result_count; i++) {
    assert_string_equal(abi_result_name(abi_results[i].value), abi_results[i].name);
    const char *sentence = abi_result_sentence(abi_results[i].value);
    if (!sentence) fail_msg("no sentence for %s", abi_results[i].name);
    for (unsigned j = 0; j < i; j++)
      if (strcmp(sentence, abi_result_sentence(abi_results[j].value)) == 0)
        fail_msg("%s and %s have the same sentence", abi_results[i].name, abi_results[j].name);
  }
}

static void unknown_values_have_neither(void **state) {
  (void)state;
  assert_null(abi_result_name(12345));
  assert_null(abi_result_sentence(12345));
  assert_null(abi_result_name(-1));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_result_has_a_name_and_a_sentence),
                                     cmocka_unit_test(unknown_values_have_neither)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
