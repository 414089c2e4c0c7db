// Algorithms: what the server's library says of them. Their 64 bytes are its own, and no use to any
// other.
#include "lt_algo.h"

#include <string.h>

#include "lt_call.h"
#include "lt_found.h"
#include "lt_handle.h"
#include "lt_served.h"
#include "status.h"

static void add_algo(struct lt_words *words, const void *algo) {
  uint64_t own[LT_ALGO_WORDS];
  memcpy(own, algo, sizeof own);
  for (int i = 0; i < LT_ALGO_WORDS; i++) lt_add(words, own[i]);
}

static int add_problem(struct lt_words *words, const struct lt_object *desc,
                       const struct lt_object *const layouts[4]) {
  int status = lt_add_object(words, LT_DESC, desc);
  for (int i = 0; !status && i < 4; i++) status = lt_add_object(words, LT_LAYOUT, layouts[i]);
  return status;
}

int lt_add_check(struct lt_words *words, const void *algo, const struct lt_object *desc,
                 const struct lt_object *const layouts[4]) {
  add_algo(words, algo);
  return add_problem(words, desc, layouts);
}

// How many of `each` bytes an answer has; STATUS_INTERNAL_ERROR where it is not what was asked for.
static int count_of(const struct remote_answer *answer, size_t each, int most, int *count) {
  const uint64_t said = answer->size >= 8 ? answer->results[0] : UINT64_MAX;
  if (most < 0 || said > (uint64_t)most || 8 + said * each > answer->size)
    return STATUS_INTERNAL_ERROR;
  *count = (int)said;
  return STATUS_SUCCESS;
}

SERVED int cublasLtMatmulAlgoGetHeuristic(const void *handle, const struct lt_object *desc,
                                          const struct lt_object *a, const struct lt_object *b,
                                          const struct lt_object *c, const struct lt_object *d,
                                          const struct lt_object *preference, int wanted,
                                          struct lt_result *results, int *count) {
  if (!lt_usable(handle)) return STATUS_NOT_INITIALIZED;
  if (wanted < 1 || !results || !count) return STATUS_INVALID_VALUE;
  const struct lt_object *const layouts[] = {a, b, c, d};
  struct lt_words words;
  lt_begin(&words, LT_HEURISTIC);
  lt_add(&words, wanted < LT_RESULTS_MOST ? (uint64_t)wanted : LT_RESULTS_MOST);
  int status = add_problem(&words, desc, layouts);
  if (!status) status = lt_add_object(&words, LT_PREFERENCE, preference);
  struct remote_answer answer = {.size = 0};
  const _Bool asked = !status;
  if (asked) status = lt_ask("cublasLtMatmulAlgoGetHeuristic", LT_HEURISTIC, &words, &answer);
  if (asked && status && answer.size >= 8) *count = (int)answer.results[0];
  if (!status) status = count_of(&answer, sizeof *results, wanted, count);
  if (status) return status;
  memcpy(results, &answer.results[1], (size_t)*count * sizeof *results);
  struct lt_product product = {.desc = desc,
                               .layouts = {a, b, c, d},
                               .workspace_size = lt_whole(preference, LT_AT_MOST_WORKSPACE)};
  for (int i = 0; i < 4; i++)
    product.alignments[i] =
        lt_alignment((uint32_t)lt_number(preference, LT_AT_A_ALIGNMENT + 4 * (unsigned)i));
  lt_found(&product, results, *count);
  return STATUS_SUCCESS;
}

SERVED int cublasLtMatmulAlgoCheck(const void *handle, const struct lt_object *desc,
                                   const struct lt_object *a, const struct lt_object *b,
                                   const struct lt_object *c, const struct lt_object *d,
                                   const void *algo, struct lt_result *result) {
  if (!lt_usable(handle)) return STATUS_NOT_INITIALIZED;
  if (!algo || !result) return STATUS_INVALID_VALUE;
  const struct lt_object *const layouts[] = {a, b, c, d};
  struct lt_words words;
  lt_begin(&words, LT_ALGO_CHECK);
  int status = lt_add_check(&words, algo, desc, layouts);
  struct remote_answer answer;
  if (!status) status = lt_ask("cublasLtMatmulAlgoCheck", LT_ALGO_CHECK, &words, &answer);
  if (!status && answer.size < sizeof *result) status = STATUS_INTERNAL_ERROR;
  if (status) return status;
  // The algorithm in it stays as it is.
  const size_t first = offsetof(struct lt_result, workspace);
  memcpy((char *)result + first, (char *)answer.results + first, sizeof *result - first);
  return STATUS_SUCCESS;
}

static void add_types(struct lt_words *words, int compute, int scale, int a, int b, int c, int d) {
  const int types[] = {compute, scale, a, b, c, d};
  for (int i = 0; i < 6; i++) lt_add(words, (uint64_t)(int64_t)types[i]);
}

SERVED int cublasLtMatmulAlgoGetIds(const void *handle, int compute, int scale, int a, int b, int c,
                                    int d, int wanted, int *ids, int *count) {
  if (!lt_usable(handle)) return STATUS_NOT_INITIALIZED;
  if (wanted < 1 || !ids || !count) return STATUS_INVALID_VALUE;
  struct lt_words words;
  lt_begin(&words, LT_ALGO_IDS);
  add_types(&words, compute, scale, a, b, c, d);
  lt_add(&words, wanted < LT_IDS_MOST ? (uint64_t)wanted : LT_IDS_MOST);
  struct remote_answer answer;
  int status = lt_ask("cublasLtMatmulAlgoGetIds", LT_ALGO_IDS, &words, &answer);
  if (!status) status = count_of(&answer, sizeof *ids, wanted, count);
  if (!status) memcpy(ids, &answer.results[1], (size_t)*count * sizeof *ids);
  return status;
}

static int take_algo(const struct remote_answer *answer, void *algo) {
  if (answer->size < LT_ALGO_WORDS * 8) return STATUS_INTERNAL_ERROR;
  memcpy(algo, answer->results, LT_ALGO_WORDS * 8);
  return STATUS_SUCCESS;
}

SERVED int cublasLtMatmulAlgoInit(const void *handle, int compute, int scale, int a, int b, int c,
                                  int d, int id, void *algo) {
  if (!lt_usable(handle)) return STATUS_NOT_INITIALIZED;
  if (!algo) return STATUS_INVALID_VALUE;
  struct lt_words words;
  lt_begin(&words, LT_ALGO_INIT);
  add_types(&words, compute, scale, a, b, c, d);
  lt_add(&words, (uint64_t)(int64_t)id);
  struct remote_answer answer;
  const int status = lt_ask("cublasLtMatmulAlgoInit", LT_ALGO_INIT, &words, &answer);
  return status ? status : take_algo(&answer, algo);
}

// What an attribute of an algorithm is.
static int get(const char *name, enum lt_function function, const void *algo, int id, void *value,
               size_t size, size_t *written) {
  if (!algo || (size ? !value : !written)) return STATUS_INVALID_VALUE;
  struct lt_words words;
  lt_begin(&words, function);
  add_algo(&words, algo);
  lt_add(&words, (uint64_t)(int64_t)id);
  lt_add(&words, size < LT_ATTRIBUTE_BYTES_MOST ? size : LT_ATTRIBUTE_BYTES_MOST);
  struct remote_answer answer;
  const int status = lt_ask(name, function, &words, &answer);
  if (status) return status;
  const uint64_t bytes = answer.size >= 8 ? answer.results[0] : UINT64_MAX;
  if (size && (bytes > size || 8 + bytes > answer.size)) return STATUS_INTERNAL_ERROR;
  if (size) memcpy(value, &answer.results[1], bytes);
  if (written) *written = bytes;
  return STATUS_SUCCESS;
}

SERVED int cublasLtMatmulAlgoCapGetAttribute(const void *algo, int id, void *value, size_t size,
                                             size_t *written) {
  return get("cublasLtMatmulAlgoCapGetAttribute", LT_ALGO_CAP, algo, id, value, size, written);
}

SERVED int cublasLtMatmulAlgoConfigGetAttribute(const void *algo, int id, void *value, size_t size,
                                                size_t *written) {
  return get("cublasLtMatmulAlgoConfigGetAttribute", LT_ALGO_CONFIG_GET, algo, id, value, size,
             written);
}

SERVED int cublasLtMatmulAlgoConfigSetAttribute(void *algo, int id, const void *value,
                                                size_t size) {
  uint64_t word = 0;
  if (!algo || !value || size > sizeof word) return STATUS_INVALID_VALUE;
  memcpy(&word, value, size);
  struct lt_words words;
  lt_begin(&words, LT_ALGO_CONFIG_SET);
  add_algo(&words, algo);
  lt_add(&words, (uint64_t)(int64_t)id);
  lt_add(&words, size);
  lt_add(&words, word);
  struct remote_answer answer;
  const int status =
      lt_ask("cublasLtMatmulAlgoConfigSetAttribute", LT_ALGO_CONFIG_SET, &words, &answer);
  return status ? status : take_algo(&answer, algo);
}
