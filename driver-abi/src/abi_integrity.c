#include "abi_integrity.h"

#include <md2.h>
#include <string.h>

enum { BLOCK = 16 };  // of MD2

static const uint8_t key[BLOCK] = {0x14, 0x6A, 0xDD, 0xAE, 0x53, 0xA9, 0xA7, 0x52,
                                   0xAA, 0x08, 0x41, 0x36, 0x0B, 0xF5, 0x5A, 0x9F};

struct hmac {
  MD2_CTX inner, outer;
};

// RFC 2104 over RFC 1319. The key is as long as a block, so it is used as it is.
static void hmac_begin(struct hmac *hmac) {
  uint8_t inner[BLOCK], outer[BLOCK];
  for (size_t i = 0; i < BLOCK; i++) {
    inner[i] = key[i] ^ 0x36;
    outer[i] = key[i] ^ 0x5C;
  }
  MD2Init(&hmac->inner);
  MD2Update(&hmac->inner, inner, BLOCK);
  MD2Init(&hmac->outer);
  MD2Update(&hmac->outer, outer, BLOCK);
}

static void hmac_add(struct hmac *hmac, const void *bytes, size_t size) {
  MD2Update(&hmac->inner, bytes, (unsigned)size);
}

static void hmac_end(struct hmac *hmac, uint8_t digest[16]) {
  uint8_t inner[16];
  MD2Final(inner, &hmac->inner);
  MD2Update(&hmac->outer, inner, sizeof inner);
  MD2Final(digest, &hmac->outer);
}

void abi_integrity_answer(const struct abi_integrity_question *question, uint64_t answer[2]) {
  // The first two of the three versions that are asked for have fixed answers.
  if (question->version % 10 == 0 || question->version % 10 == 1) {
    answer[0] =
        question->version % 10 == 0 ? UINT64_C(0x3341181C03CB675C) : UINT64_C(0x1841181C03CB675C);
    answer[1] = UINT64_C(0x8ED383AA1F4CD1E8);
    return;
  }
  struct {
    uint32_t driver_version, version, pid, thread;
    uint64_t cudart_table, integrity_table, function, unix_seconds;
  } head = {question->driver_version, question->version,      question->pid,
            question->thread,         question->cudart_table, question->integrity_table,
            question->function,       question->unix_seconds};
  _Static_assert(sizeof head == 48, "the message has no padding");

  struct hmac hmac;
  hmac_begin(&hmac);
  hmac_add(&hmac, &head, sizeof head);
  for (int i = 0; i < question->device_count; i++) {
    struct abi_device_identity identity;
    question->device_identity(i, &identity);
    _Static_assert(sizeof identity == 28, "the message has no padding");
    hmac_add(&hmac, &identity, sizeof identity);
  }
  uint8_t digest[16];
  hmac_end(&hmac, digest);
  memcpy(answer, digest, sizeof digest);
}
