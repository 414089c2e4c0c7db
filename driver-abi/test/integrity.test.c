#include "abi_integrity.h"

#include <md2.h>
#include <stdio.h>

#include "host.h"

static void hex(const uint8_t *bytes, size_t size, char *text) {
  for (size_t i = 0; i < size; i++, text += 2) snprintf(text, 3, "%02x", bytes[i]);
}

static void md2_is_the_one_of_rfc_1319(void **state) {
  (void)state;
  uint8_t digest[16];
  char text[33];
  MD2_CTX md2;
  MD2Init(&md2);
  MD2Update(&md2, (const unsigned char *)"abc", 3);
  MD2Final(digest, &md2);
  hex(digest, sizeof digest, text);
  assert_string_equal(text, "da853b0d3f88d99b30283a69e6ded6bb");
}

static void identity_of_one(int ordinal, struct abi_device_identity *identity) {
  assert_int_equal(ordinal, 0);
  for (int i = 0; i < 16; i++) identity->uuid.bytes[i] = (char)i;
  identity->pci_domain = 0;
  identity->pci_bus = 2;
  identity->pci_device = 0;
}

static struct abi_integrity_question known_question(void) {
  return (struct abi_integrity_question){.driver_version = 13000,
                                         .version = 13002,
                                         .pid = 1234,
                                         .thread = 0x11223344,
                                         .cudart_table = 0x7f0000001000,
                                         .integrity_table = 0x7f0000002000,
                                         .function = 0x7f0000003000,
                                         .unix_seconds = 1700000000,
                                         .device_count = 1,
                                         .device_identity = identity_of_one};
}

static void known_question_has_known_answer(void **state) {
  (void)state;
  struct abi_integrity_question question = known_question();
  uint64_t answer[2];
  abi_integrity_answer(&question, answer);
  char text[33];
  hex((const uint8_t *)answer, sizeof answer, text);
  assert_string_equal(text, "ce0595c00764784007e37a06738ec3ef");
}

static void every_input_counts(void **state) {
  (void)state;
  struct abi_integrity_question question = known_question();
  uint64_t first[2], other[2];
  abi_integrity_answer(&question, first);
  question.pid++;
  abi_integrity_answer(&question, other);
  assert_memory_not_equal(first, other, sizeof first);
  question = known_question();
  question.device_count = 0;
  abi_integrity_answer(&question, other);
  assert_memory_not_equal(first, other, sizeof first);
}

static void first_two_versions_are_constant(void **state) {
  (void)state;
  struct abi_integrity_question question = known_question();
  uint64_t answer[2];
  question.version = 13000;
  abi_integrity_answer(&question, answer);
  assert_true(answer[0] == 0x3341181C03CB675C && answer[1] == 0x8ED383AA1F4CD1E8);
  question.version = 13001;
  abi_integrity_answer(&question, answer);
  assert_true(answer[0] == 0x1841181C03CB675C && answer[1] == 0x8ED383AA1F4CD1E8);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(md2_is_the_one_of_rfc_1319),
      cmocka_unit_test(known_question_has_known_answer),
      cmocka_unit_test(every_input_counts),
      cmocka_unit_test(first_two_versions_are_constant),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
