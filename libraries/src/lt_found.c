#include "lt_found.h"

#include <string.h>

#include "lt_algo.h"
#include "lt_call.h"
#include "lt_memo.h"
#include "status.h"

// Of what a heuristic finds programs take the first ones, or try a few.
enum { FOUND_MOST = 8 };
// No key of a single call begins with that.
enum { FOUND = -2 };

static _Bool key_of(const struct lt_product *product, const void *algo, struct learnt_key *key) {
  struct lt_words words;
  // What a product asks for when it is to be checked, and what a check is not told.
  lt_begin(&words, LT_ALGO_CHECK);
  if (lt_add_check(&words, algo, product->desc, product->layouts)) return 0;
  for (int i = 0; i < 4; i++) learnt_add(&words.key, product->alignments[i]);
  learnt_add(&words.key, product->workspace_size);
  *key = learnt_here(words.key);
  return 1;
}

void lt_found(const struct lt_product *product, const struct lt_result *results, int count) {
  for (int i = 0; i < count && i < FOUND_MOST; i++) {
    struct learnt_key key;
    struct lt_words check;
    if (results[i].state || results[i].workspace > product->workspace_size) continue;
    if (!key_of(product, results[i].algo, &key)) return;
    // All the others are known, too.
    if (learnt(key)) return;
    learn(key);
    lt_begin(&check, LT_ALGO_CHECK);
    if (lt_add_check(&check, results[i].algo, product->desc, product->layouts)) return;
    struct remote_answer answer = {.status = STATUS_SUCCESS, .size = sizeof *results};
    memcpy(answer.results, &results[i], sizeof *results);
    lt_remember(learnt_here(check.key), &answer);
  }
}

_Bool lt_is_found(const struct lt_product *product, const void *algo, struct learnt_key *alike) {
  struct learnt_key key;
  if (!key_of(product, algo, &key) || !learnt(key)) return 0;
  alike->value = (uint64_t)FOUND;
  learnt_add(alike, (uint64_t)lt_number(product->desc, LT_AT_COMPUTE_TYPE));
  learnt_add(alike, (uint64_t)lt_number(product->desc, LT_AT_SCALE_TYPE));
  for (int i = 0; i < 4; i++)
    learnt_add(alike, (uint64_t)lt_number(product->layouts[i], LT_AT_TYPE));
  return 1;
}
