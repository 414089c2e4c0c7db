// Descriptors of cuBLASLt: what a program sets of them is kept here, and goes along with each call.
// They lie in memory of the program's, which may copy them, or in ours.
#ifndef LIBRARIES_LT_DESCRIPTOR_H
#define LIBRARIES_LT_DESCRIPTOR_H

#include <stdint.h>

#include "cublaslt_call.h"
#include "learnt.h"

struct lt_object;

// Words of a call, and what they are without their addresses.
struct lt_words {
  uint64_t words[LT_WORDS_MOST];
  uint32_t count;
  struct learnt_key key;
  // Of a call that starts nothing: of addresses only that travels by which the answer goes, so that
  // the same question has the same words in every session.
  _Bool asks;
};

void lt_add(struct lt_words *words, uint64_t word);
// An address: what is known of calls does not depend on which, but on how it is aligned.
void lt_add_address(struct lt_words *words, uint64_t address);
// The largest power of two that divides it, at most 256; 0 of none.
uint64_t lt_alignment(uint64_t address);
// Returns 0, or STATUS_INVALID_VALUE where that is no descriptor of this kind.
int lt_add_object(struct lt_words *words, enum lt_kind kind, const struct lt_object *object);

_Bool lt_is(enum lt_kind kind, const struct lt_object *object);
// Whether two descriptors of a kind say the same.
_Bool lt_equal(enum lt_kind kind, const struct lt_object *one, const struct lt_object *other);
// An attribute of four bytes.
int lt_number(const struct lt_object *object, enum lt_place place);
// One of eight.
uint64_t lt_whole(const struct lt_object *object, enum lt_place place);

#endif
