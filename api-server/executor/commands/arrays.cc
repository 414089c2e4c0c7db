// Arrays that the guest makes and ends.
#include "dispatch.h"
#include "session/session.h"

namespace outboard {

void handle_ArrayCreate(Session &s, const wire_ArrayCreate &q) {
  if (!s.arrays().can_mint(q.array)) return s.violation("an array's handle cannot be minted");
  if (!s.has_room<CUarray>()) return s.posted(WIRE_ArrayCreate, CUDA_ERROR_OUT_OF_MEMORY);
  s.posted(WIRE_ArrayCreate, s.arrays().create(q));
  s.count_memory();
}

void handle_ArrayLevel(Session &s, const wire_ArrayLevel &q) {
  if (const char *what = s.arrays().misuse(q)) return s.violation(what);
  s.posted(WIRE_ArrayLevel, s.arrays().level(q));
}

void handle_ArrayDestroy(Session &s, const wire_ArrayDestroy &q) {
  s.posted(WIRE_ArrayDestroy, s.arrays().destroy(q.array));
  s.count_memory();
}

}  // namespace outboard
