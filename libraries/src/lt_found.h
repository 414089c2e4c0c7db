// Algorithms that a heuristic has found for a product: the library has checked that they do it, so
// that nobody needs to have it checked; nor to wait for it, once one of such types has been done.
// Any thread.
#ifndef LIBRARIES_LT_FOUND_H
#define LIBRARIES_LT_FOUND_H

#include "lt_descriptor.h"

struct lt_product {
  const struct lt_object *desc;
  const struct lt_object *layouts[4];  // of A, B, C and D
  uint64_t alignments[4];              // as lt_alignment has them
  uint64_t workspace_size;             // bytes that it may use
};

// Notes what an answer says that has `count` results. Their products have those alignments and
// that much of a workspace, which their preference told.
void lt_found(const struct lt_product *product, const struct lt_result *results, int count);
// Whether it was found for such a product. `alike` is the key then of all that have their types:
// whether there is code for those a heuristic does not tell.
_Bool lt_is_found(const struct lt_product *product, const void *algo, struct learnt_key *alike);

#endif
