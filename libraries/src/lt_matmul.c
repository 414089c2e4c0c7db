// What puts work on a stream.
#include <string.h>

#include "library_call.h"
#include "lt_call.h"
#include "lt_found.h"
#include "lt_handle.h"
#include "lt_served.h"
#include "status.h"

// Alpha or beta: where it is in the host's memory its number, and else its address.
static int add_scalar(struct lt_words *words, const void *scalar, _Bool here, int type) {
  uint64_t number[2] = {0};
  if (!here) {
    lt_add_address(words, (uintptr_t)scalar);
    lt_add(words, 0);
    return STATUS_SUCCESS;
  }
  const uint32_t bytes = library_type_bytes((uint64_t)type);
  if (!scalar) return STATUS_INVALID_VALUE;
  // The library refuses a type of which nobody knows how large it is; it gets no number to read.
  if (bytes && bytes <= sizeof number) memcpy(number, scalar, bytes);
  // Numbers are not what decides whether a call can be done.
  words->words[words->count++] = number[0];
  words->words[words->count++] = number[1];
  return STATUS_SUCCESS;
}

static void add_pointer(struct lt_words *words, const void *pointer) {
  lt_add_address(words, (uintptr_t)pointer);
}

SERVED int cublasLtMatmul(const void *handle, const struct lt_object *desc, const void *alpha,
                          const void *a, const struct lt_object *a_layout, const void *b,
                          const struct lt_object *b_layout, const void *beta, const void *c,
                          const struct lt_object *c_layout, void *d,
                          const struct lt_object *d_layout, const void *algo, void *workspace,
                          size_t workspace_size, CUstream stream) {
  if (!lt_usable(handle)) return STATUS_NOT_INITIALIZED;
  if (!lt_is(LT_DESC, desc) || !lt_is(LT_LAYOUT, c_layout) || !lt_is(LT_LAYOUT, d_layout))
    return STATUS_INVALID_VALUE;
  const int mode = lt_number(desc, LT_AT_POINTER_MODE);
  const int type = lt_number(desc, LT_AT_SCALE_TYPE);
  const _Bool alike = lt_equal(LT_LAYOUT, c_layout, d_layout);
  struct lt_words words;
  lt_begin(&words, LT_MATMUL);
  lt_add(&words, (algo ? LT_HAS_ALGO : 0) | (alike ? LT_D_IS_LIKE_C : 0));
  add_pointer(&words, a);
  add_pointer(&words, b);
  add_pointer(&words, c);
  add_pointer(&words, d);
  // In place is something else than into another matrix.
  learnt_add(&words.key, c == d);
  add_pointer(&words, workspace);
  lt_add(&words, workspace_size);
  int status = add_scalar(&words, alpha, lt_alpha_here(mode), type);
  if (!status) status = add_scalar(&words, beta, lt_beta_here(mode), type);
  for (int i = 0; algo && i < LT_ALGO_WORDS; i++) lt_add(&words, ((const uint64_t *)algo)[i]);
  if (!status) status = lt_add_object(&words, LT_DESC, desc);
  if (!status) status = lt_add_object(&words, LT_LAYOUT, a_layout);
  if (!status) status = lt_add_object(&words, LT_LAYOUT, b_layout);
  if (!status) status = lt_add_object(&words, LT_LAYOUT, c_layout);
  if (!status && !alike) status = lt_add_object(&words, LT_LAYOUT, d_layout);
  if (status) return status;
  struct learnt_key found;
  _Bool is_found = 0;
  // In place C and D must be alike, and a workspace aligned, of which a heuristic knows nothing.
  if (algo && (c != d || alike) && !lt_is_known(&words)) {
    const struct lt_product product = {
        .desc = desc,
        .layouts = {a_layout, b_layout, c_layout, d_layout},
        .alignments = {lt_alignment((uintptr_t)a), lt_alignment((uintptr_t)b),
                       lt_alignment((uintptr_t)c), lt_alignment((uintptr_t)d)},
        .workspace_size = lt_alignment((uintptr_t)workspace) == 256 ? workspace_size : 0};
    is_found = lt_is_found(&product, algo, &found);
  }
  return lt_start("cublasLtMatmul", LT_MATMUL, &words, is_found ? &found : NULL, stream);
}

SERVED int cublasLtMatrixTransform(const void *handle, const struct lt_object *desc,
                                   const void *alpha, const void *a,
                                   const struct lt_object *a_layout, const void *beta,
                                   const void *b, const struct lt_object *b_layout, void *c,
                                   const struct lt_object *c_layout, CUstream stream) {
  if (!lt_usable(handle)) return STATUS_NOT_INITIALIZED;
  if (!lt_is(LT_TRANSFORM_DESC, desc)) return STATUS_INVALID_VALUE;
  const int mode = lt_number(desc, LT_AT_TRANSFORM_POINTER_MODE);
  const int type = lt_number(desc, LT_AT_TRANSFORM_SCALE_TYPE);
  struct lt_words words;
  lt_begin(&words, LT_TRANSFORM);
  add_pointer(&words, a);
  add_pointer(&words, b);
  add_pointer(&words, c);
  int status = add_scalar(&words, alpha, mode == LIBRARY_MODE_HOST, type);
  if (!status) status = add_scalar(&words, beta, mode == LIBRARY_MODE_HOST, type);
  if (!status) status = lt_add_object(&words, LT_TRANSFORM_DESC, desc);
  if (!status) status = lt_add_object(&words, LT_LAYOUT, a_layout);
  // Without a second matrix there is no layout of it.
  static const uint64_t none;
  if (!status && !b && !b_layout)
    lt_add(&words, none);
  else if (!status)
    status = lt_add_object(&words, LT_LAYOUT, b_layout);
  if (!status) status = lt_add_object(&words, LT_LAYOUT, c_layout);
  return status ? status : lt_start("cublasLtMatrixTransform", LT_TRANSFORM, &words, NULL, stream);
}
