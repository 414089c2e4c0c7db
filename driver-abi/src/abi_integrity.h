// The answer to cudart's integrity check: HMAC-MD2 with a fixed key over who we say we are.
#ifndef ABI_INTEGRITY_H
#define ABI_INTEGRITY_H

#include <stddef.h>
#include <stdint.h>

#include "abi_tables.h"

struct abi_integrity_question {
  uint32_t driver_version;
  uint32_t version;  // of cudart, plus 0, 1 or 2
  uint32_t pid;
  uint32_t thread;  // the low half of pthread_self()
  uint64_t cudart_table;
  uint64_t integrity_table;
  uint64_t function;  // the slot of the integrity table that is being called
  uint64_t unix_seconds;
  int device_count;
  void (*device_identity)(int ordinal, struct abi_device_identity *identity);
};

void abi_integrity_answer(const struct abi_integrity_question *question, uint64_t answer[2]);

#endif
