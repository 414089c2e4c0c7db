#include "abi_tables.h"

#include <stdlib.h>
#include <string.h>

#include "abi_lookup.h"
#include "host.h"

static CUuuid id_of(const char *hex) {
  CUuuid id;
  for (int i = 0; i < 16; i++) {
    char byte[3] = {hex[2 * i], hex[2 * i + 1], 0};
    id.bytes[i] = (char)strtoul(byte, NULL, 16);
  }
  return id;
}

static void *const *table(const char *hex) {
  CUuuid id = id_of(hex);
  return abi_export_table(&id);
}

static void sized_tables_say_their_size(void **state) {
  (void)state;
  static const struct {
    const char *id;
    uintptr_t slots;
  } sized[] = {{"6bd5fb6c5bf4e74a8987d93912fd9df9", 13}, {"a094798c2e742e7493f20800200c0a66", 7},
               {"42d85a8123f6cb478298f6e78a3aecdc", 4},  {"21318c60971432488ca641ff7324c8f2", 95},
               {"6e163fbeb958444d835ce182aff1991e", 8},  {"263e88607cd2614392f6bbd5006dfa7e", 4},
               {"d4082055bde6704b8d34ba123c66e1f2", 3},  {"1734dc26800d47458726c0f1e7dd8bca", 32}};
  for (size_t i = 0; i < sizeof sized / sizeof *sized; i++) {
    void *const *slots = table(sized[i].id);
    assert_non_null(slots);
    assert_int_equal((uintptr_t)slots[0], sized[i].slots * sizeof(void *));
    for (uintptr_t slot = 1; slot < sized[i].slots; slot++) assert_non_null(slots[slot]);
  }
}

static void unknown_tables_are_refused_and_named(void **state) {
  (void)state;
  const void *found = &found;
  CUuuid id = id_of("f8cff95121468b4eb9e2fb469e7c0dd9");
  assert_int_equal(abi_get_export_table(&found, &id), CUDA_ERROR_NOT_FOUND);
  assert_null(found);
  assert_non_null(strstr(test_logged, "f8cff95121468b4eb9e2fb469e7c0dd9"));
  assert_int_equal(test_log_level, ABI_LOG_INFO);
  // Of this one nobody knows whether its library looks.
  id = id_of("00112233445566778899aabbccddeeff");
  assert_int_equal(abi_get_export_table(&found, &id), CUDA_ERROR_NOT_FOUND);
  assert_non_null(strstr(test_logged, "00112233445566778899aabbccddeeff"));
  assert_int_equal(test_log_level, ABI_LOG_WARN);
  assert_int_equal(abi_get_export_table(NULL, &id), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(abi_get_export_table(&found, NULL), CUDA_ERROR_INVALID_VALUE);
}

static void primary_context_comes_from_the_host(void **state) {
  (void)state;
  CUresult (*get)(CUcontext *, CUdevice) = table("6bd5fb6c5bf4e74a8987d93912fd9df9")[2];
  CUcontext context = NULL;
  assert_int_equal(get(&context, 1), CUDA_SUCCESS);
  assert_ptr_equal(context, (void *)0x1001);
  assert_int_equal(get(&context, 2), CUDA_ERROR_INVALID_DEVICE);
}

static void unused_slots_refuse_and_say_so_once(void **state) {
  (void)state;
  int (*slot)(void) = table("6bd5fb6c5bf4e74a8987d93912fd9df9")[8];
  int before = test_log_count;
  assert_int_equal(slot(), CUDA_ERROR_NOT_SUPPORTED);
  assert_string_equal(test_logged,
                      "private table CUDART: slot 8 was called and is not implemented");
  assert_int_equal(slot(), CUDA_ERROR_NOT_SUPPORTED);
  assert_int_equal(test_log_count, before + 1);
}

static void runtimes_before_12_load_modules_through_a_slot(void **state) {
  (void)state;
  void *const *slots = table("6bd5fb6c5bf4e74a8987d93912fd9df9");
  CUresult (*load)(CUmodule *, const void *, void *, void *, size_t) = slots[6];
  CUresult (*forget)(const void *) = slots[7];
  CUmodule module = NULL;
  // This library has no such call; its stub says which one it was.
  assert_int_equal(load(&module, "wrapper", NULL, NULL, 0), CUDA_ERROR_NOT_SUPPORTED);
  assert_string_equal(abi_entries[test_unsupported].name, "cuModuleLoadData");
  assert_int_equal(forget("wrapper"), CUDA_SUCCESS);
}

static void tools_are_off(void **state) {
  (void)state;
  static const int slots[] = {2, 6};
  for (int i = 0; i < 2; i++) {
    void (*get)(void **, size_t *) = table("a094798c2e742e7493f20800200c0a66")[slots[i]];
    void *buffer = NULL;
    size_t length = 0;
    get(&buffer, &length);
    assert_true(length > 0);
    for (size_t byte = 0; byte < length * 8; byte++)
      assert_int_equal(((unsigned char *)buffer)[byte], 0);
  }
}

static void libraries_find_the_current_context(void **state) {
  (void)state;
  CUresult (*get)(CUcontext *) = table("42d85a8123f6cb478298f6e78a3aecdc")[2];
  CUcontext context = NULL;
  assert_int_equal(get(NULL), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(get(&context), CUDA_ERROR_INVALID_CONTEXT);
  test_current = (CUcontext)0x77;
  assert_int_equal(get(&context), CUDA_SUCCESS);
  assert_ptr_equal(context, (void *)0x77);
  test_current = NULL;
}

static void libraries_are_told_that_groups_of_multiprocessors_are_not_known(void **state) {
  (void)state;
  CUresult (*groups)(void **, void **) = table("1734dc26800d47458726c0f1e7dd8bca")[4];
  void *first = NULL, *second = NULL;
  const int before = test_log_count;
  assert_int_equal(groups(&first, &second), CUDA_ERROR_NOT_SUPPORTED);
  assert_null(first);
  assert_int_equal(test_log_count, before);
}

static void storage_table_works(void **state) {
  (void)state;
  void *const *slots = table("c693336e1121df11a8c368f355d89593");
  CUresult (*put)(CUcontext, void *, void *, void *) = slots[0];
  CUresult (*delete)(CUcontext, void *) = slots[1];
  CUresult (*get)(void **, CUcontext, void *) = slots[2];
  assert_null(slots[3]);
  test_current = (CUcontext)0x77;
  void *value = NULL;
  assert_int_equal(get(&value, NULL, &value), CUDA_ERROR_INVALID_HANDLE);
  assert_int_equal(put(NULL, &value, (void *)3, NULL), CUDA_SUCCESS);
  assert_int_equal(get(&value, NULL, &value), CUDA_SUCCESS);
  assert_ptr_equal(value, (void *)3);
  assert_int_equal(delete (NULL, &value), CUDA_SUCCESS);
  test_current = NULL;
}

static void checks_pass(void **state) {
  (void)state;
  void *const *slots = table("263e88607cd2614392f6bbd5006dfa7e");
  CUresult (*check)(CUcontext, uint32_t *, void **) = slots[2];
  uint32_t (*general)(void) = slots[3];
  uint32_t result = 7;
  void *unused = &result;
  assert_int_equal(check(NULL, &result, &unused), CUDA_SUCCESS);
  assert_int_equal(result, 0);
  assert_ptr_equal(unused, &result);
  assert_int_equal(general(), 0);
}

static void integrity_depends_on_the_question(void **state) {
  (void)state;
  CUresult (*ask)(uint32_t, uint64_t, uint64_t *) = table("d4082055bde6704b8d34ba123c66e1f2")[1];
  uint64_t now[2], again[2], later[2];
  assert_int_equal(ask(13002, 1700000000, now), CUDA_SUCCESS);
  assert_int_equal(ask(13002, 1700000000, again), CUDA_SUCCESS);
  assert_int_equal(ask(13002, 1700000001, later), CUDA_SUCCESS);
  assert_memory_equal(now, again, sizeof now);
  assert_memory_not_equal(now, later, sizeof now);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sized_tables_say_their_size),
      cmocka_unit_test(unknown_tables_are_refused_and_named),
      cmocka_unit_test(primary_context_comes_from_the_host),
      cmocka_unit_test(unused_slots_refuse_and_say_so_once),
      cmocka_unit_test(runtimes_before_12_load_modules_through_a_slot),
      cmocka_unit_test(tools_are_off),
      cmocka_unit_test(libraries_find_the_current_context),
      cmocka_unit_test(libraries_are_told_that_groups_of_multiprocessors_are_not_known),
      cmocka_unit_test(storage_table_works),
      cmocka_unit_test(checks_pass),
      cmocka_unit_test(integrity_depends_on_the_question),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
