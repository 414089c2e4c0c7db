// Arithmetic on indices whose first lane tells all of them (translate/shapes.cpp).
#include "execute/lanes.h"
#include "execute/ops/families.h"

namespace softdev::SOFTDEV_ISA {
namespace {

struct Sum {
  static constexpr bool kThree = false;
  static uint32_t of(uint32_t a, uint32_t b, uint32_t) { return a + b; }
};
struct Difference {
  static constexpr bool kThree = false;
  static uint32_t of(uint32_t a, uint32_t b, uint32_t) { return a - b; }
};
struct Product {
  static constexpr bool kThree = false;
  static uint32_t of(uint32_t a, uint32_t b, uint32_t) { return a * b; }
};
struct ProductAndSum {
  static constexpr bool kThree = true;
  static uint32_t of(uint32_t a, uint32_t b, uint32_t c) { return a * b + c; }
};
struct ShiftLeft {
  static constexpr bool kThree = false;
  static uint32_t of(uint32_t a, uint32_t n, uint32_t) { return n < 32 ? a << (n & 31) : 0; }
};

template <class Of>
SOFTDEV_INLINE const uint32_t *third(Warp &w, const Ins *i) {
  return slot<uint32_t>(w, Of::kThree ? i->c : i->b);
}

template <class Of>
__attribute__((noinline)) const Ins *all_lanes(Warp &w, const Ins *i) {
  const uint32_t *a = slot<uint32_t>(w, i->a), *b = slot<uint32_t>(w, i->b), *c = third<Of>(w, i);
  return each<uint32_t>(w, i, [=](unsigned l) { return Of::of(a[l], b[l], c[l]); });
}
template <class Of>
const Ins *first_lane(Warp &w, const Ins *i) {
  if (!w.rows) return all_lanes<Of>(w, i);
  *slot<uint32_t>(w, i->d) =
      Of::of(*slot<uint32_t>(w, i->a), *slot<uint32_t>(w, i->b), *third<Of>(w, i));
  return go_on(w, i + 1);
}

}  // namespace

Handler select_shaped(const Ir &ir) {
  const bool is_word = ir.type == Type::U32 || ir.type == Type::S32 || ir.type == Type::B32;
  if (!ir.shaped || !is_word || ir.sat) return nullptr;
  switch (ir.op) {
    case Op::Add:
      return first_lane<Sum>;
    case Op::Sub:
      return first_lane<Difference>;
    case Op::Mul:
      return first_lane<Product>;
    case Op::Mad:
      return first_lane<ProductAndSum>;
    case Op::Shl:
      return first_lane<ShiftLeft>;
    default:
      return nullptr;
  }
}

}  // namespace softdev::SOFTDEV_ISA
