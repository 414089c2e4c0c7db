#include "sure.h"

#include <string.h>

enum {
  // Never the number of a function, with which keys of single calls begin.
  SURE = -1,
  // Of cublasGemmAlgo_t: the choice is the library's own.
  ALGO_DEFAULT = -1,
  ALGO_DEFAULT_TENSOR_OP = 99
};

// What is known so far: which parameters it has been said for, a bit each.
struct look {
  const struct library_call *call;
  const uint64_t *words;
  uint32_t seen;
  int type;  // of matrices whose type a parameter says; -1: there is none
};

static int64_t number(struct look *look, int at) {
  look->seen |= 1u << at;
  return (int64_t)look->words[at];
}

// Sizes of none, and what no int holds, are for the library to judge.
static _Bool is_size(int64_t size) { return size >= 1 && size <= INT32_MAX; }

static _Bool is_length(struct look *look, const struct library_length *length, int64_t *sum) {
  *sum = length->plus;
  const int parts[] = {length->first, length->second};
  for (int i = 0; i < 2; i++) {
    if (parts[i] < 0) continue;
    const int64_t part = number(look, parts[i]);
    if (!is_size(part)) return 0;
    *sum += part;
  }
  return is_size(*sum);
}

static _Bool is_array(struct look *look, const struct library_argument *argument) {
  const int64_t second = argument->by >= 0 ? number(look, argument->by) : 0;
  if (second != 0 && second != 1) return 0;
  int64_t rows, columns;
  if (!is_length(look, &argument->rows[second], &rows)) return 0;
  if (argument->kind == LIBRARY_MATRIX) {
    if (!is_length(look, &argument->columns[second], &columns)) return 0;
    const int64_t apart = number(look, argument->step);
    if (apart < rows || !is_size(apart)) return 0;
  }
  if (argument->kind == LIBRARY_VECTOR) {
    // Workspaces and arrays of pointers have no step, and more to be said of them than this.
    if (argument->step < 0) return 0;
    const int64_t apart = number(look, argument->step);
    if (!is_size(apart < 0 ? -apart : apart)) return 0;
  }
  return argument->batch < 0 ||
         (is_size(number(look, argument->batch)) && number(look, argument->stride) >= 0);
}

// Matrices of one type, and scalars of the type in which such are computed.
static _Bool is_typed(struct look *look, const struct library_argument *argument,
                      struct learnt_key *key) {
  enum { R_32F, R_64F, R_16F, C_32F = 4, C_64F, R_16BF = 14, COMPUTE_32F = 68, COMPUTE_64F = 70 };
  const int type = (int)number(look, argument->typed);
  if (argument->kind == LIBRARY_MATRIX) {
    const _Bool known = type == R_32F || type == R_64F || type == R_16F || type == C_32F ||
                        type == C_64F || type == R_16BF;
    if (!known || (look->type >= 0 && look->type != type)) return 0;
    if (look->type < 0) learnt_add(key, (uint64_t)type);
    look->type = type;
    return 1;
  }
  if (argument->complex < 0) return 0;
  const int64_t of = number(look, argument->complex);
  return type == (of == R_64F || of == C_64F ? COMPUTE_64F : COMPUTE_32F);
}

_Bool sure(const struct library_call *call, uint32_t function, const uint64_t *words,
           struct learnt_key *key) {
  struct look look = {call, words, 0, -1};
  _Bool arrays = 0, typed = 0, scalars_typed = 0;
  key->value = (uint64_t)SURE;
  // Of Hermitian ones some are not transposed, others not but conjugated.
  if (!strncmp(call->name + strlen("cublasC"), "her", 3)) return 0;
  for (uint32_t i = 0; i < call->count; i++) {
    const struct library_argument *argument = &call->arguments[i];
    if (argument->kind == LIBRARY_VALUE) continue;
    look.seen |= 1u << i;
    const _Bool array = argument->kind == LIBRARY_VECTOR || argument->kind == LIBRARY_MATRIX ||
                        argument->kind == LIBRARY_PACKED;
    if (!words[i] || argument->optional || (array && !is_array(&look, argument))) return 0;
    arrays |= array;
    // Which GPUs have what of half precision is the library's to know: of each function for itself.
    if (argument->element == 2) learnt_add(key, function);
    if (argument->element) continue;
    if (!is_typed(&look, argument, key)) return 0;
    typed = 1;
    scalars_typed |= !array;
  }
  // Functions that take other types of matrices than of scalars have lists of what goes together.
  if (!arrays || typed != scalars_typed) return 0;
  for (uint32_t i = 0; i < call->count; i++) {
    if (look.seen >> i & 1) continue;
    const int64_t choice = (int64_t)words[i];
    // Of every enumeration these are two that there are; only cublasOperation_t has a third.
    const _Bool usual = typed ? choice == ALGO_DEFAULT || choice == ALGO_DEFAULT_TENSOR_OP
                              : choice == 0 || choice == 1;
    if (!usual) return 0;
  }
  return 1;
}
