// Values that are the same for all lanes of a warp, or count up over them, whenever and by
// whichever lanes they are made: those that come from parameters, block and thread numbers and such
// alone. Where all who read one can do with its first lane, only that is made. Whether thread
// numbers count up over a warp is known at the launch (Warp::rows); where they do not, all lanes
// are made.
//
// The first lane's place then speaks for all lanes, also while they go different ways, so such a
// register shares its slot with no other.
#include <utility>

#include "translate/passes.h"

namespace softdev {
namespace {

constexpr uint32_t kMost = 64;    // registers of this kind, each with a slot
constexpr uint32_t kPasses = 16;  // over the code, until nothing changes

enum class Shape : uint8_t { Any, Same, Row };

Shape shape_of(const Constant &constant) {
  if (constant.size != 4) return constant.size == 8 ? Shape::Same : Shape::Any;
  if (constant.kind != Constant::Special) return Shape::Same;
  const auto special = static_cast<Special>(constant.payload);
  if (special == Special::TidX || special == Special::LaneId) return Shape::Row;
  if (special >= Special::LanemaskEq && special <= Special::LanemaskGt) return Shape::Any;
  return Shape::Same;
}

Shape sum(Shape a, Shape b) {
  if (a == Shape::Any || b == Shape::Any) return Shape::Any;
  if (a == Shape::Same) return b;
  return b == Shape::Same ? a : Shape::Any;
}
Shape product(Shape a, Shape b) {
  return a == Shape::Same && b == Shape::Same ? Shape::Same : Shape::Any;
}

// That of b with a, where this one is of a with b.
Compare mirrored(Compare compare) {
  switch (compare) {
    case Compare::Lt:
      return Compare::Gt;
    case Compare::Le:
      return Compare::Ge;
    case Compare::Gt:
      return Compare::Lt;
    case Compare::Ge:
      return Compare::Le;
    default:
      return compare;
  }
}

class Shapes {
 public:
  Shapes(FunctionIr *function, const std::vector<bool> &fixed, Handler (*select)(const Ir &))
      : function_(*function), fixed_(fixed), select_(select), shapes_(function->registers.size()) {}

  void run() {
    uint32_t count = 0;
    for (const Ir &ir : function_.code) {
      if (!makes_shape(ir)) continue;
      const Shape shape = result(ir);
      if (shape == Shape::Any || ++count > kMost) continue;
      shapes_[ir.d.index] = shape;
    }
    if (!count) return;
    // Who reads one otherwise needs all lanes of it, so of what it is made of, too.
    bool changed = true;
    for (uint32_t pass = 0; changed; ++pass) {
      if (pass == kPasses) return;
      changed = false;
      auto withdraw = [&](Value value) {
        if (!value.is_reg() || shape(value) == Shape::Any) return;
        shapes_[value.index] = Shape::Any;
        changed = true;
      };
      for (const Ir &ir : function_.code) {
        if (makes(ir) && result(ir) == Shape::Any) withdraw(ir.d);
        if (!does_with_first(ir))
          for_each_read(function_, ir, withdraw);
        else if (ir.op == Op::Store)
          withdraw(ir.b);
      }
    }
    for (Ir &ir : function_.code) apply(&ir);
  }

 private:
  Shape shape(Value value) const {
    return value.is_reg() ? shapes_[value.index]
           : value        ? shape_of(function_.constants[value.index])
                          : Shape::Any;
  }

  bool makes(const Ir &ir) const { return ir.d && shape(ir.d) != Shape::Any; }

  // Arithmetic that is done whenever its result is read, and always has the same one.
  bool makes_shape(const Ir &ir) const {
    switch (ir.op) {
      case Op::Add:
      case Op::Sub:
      case Op::Mul:
      case Op::Mad:
      case Op::Shl:
        break;
      default:
        return false;
    }
    return !ir.guard && ir.d.is_reg() && fixed_[ir.d.index] && type_size(ir.type) == 4 &&
           select_(shaped(ir));
  }

  Shape result(const Ir &ir) const {
    const Shape a = shape(ir.a), b = shape(ir.b);
    switch (ir.op) {
      case Op::Add:
        return sum(a, b);
      case Op::Sub:
        return b == Shape::Same ? a : Shape::Any;
      case Op::Mad:
        return sum(product(a, b), shape(ir.c));
      default:
        return product(a, b);
    }
  }

  bool does_with_first(const Ir &ir) const {
    if (makes(ir)) return true;
    switch (ir.op) {
      case Op::Setp:
      case Op::Branch:
        return compares(ir);
      case Op::Load:
      case Op::Store:
        return accesses(ir);
      default:
        return false;
    }
  }

  bool compares(const Ir &ir) const {
    if (ir.compare == Compare::None || type_size(ir.type) != 4) return false;
    const Shape a = shape(ir.a), b = shape(ir.b);
    return sum(a, b) != Shape::Any && select_(shaped(ir));
  }

  // Its index counts up, and its base is the same for all lanes.
  bool accesses(const Ir &ir) const {
    return ir.c.is_reg() && shape(ir.c) == Shape::Row && ir.a.kind == Value::Const &&
           shape(ir.a) == Shape::Same && !ir.list_count && ir.offset >> 32 == ir.memory_size &&
           select_(shaped(ir));
  }

  Ir shaped(Ir ir) const {
    ir.shaped = true;
    if (ir.op != Op::Setp && ir.op != Op::Branch) return ir;
    if (shape(ir.b) == Shape::Row) {
      std::swap(ir.a, ir.b);
      ir.compare = mirrored(ir.compare);
    }
    if (shape(ir.a) == Shape::Row) ir.offset = 31;
    return ir;
  }

  void apply(Ir *ir) {
    bool reads = false;
    for_each_read(function_, *ir, [&](Value value) {
      reads |= value.is_reg() && shapes_[value.index] != Shape::Any;
    });
    if (!reads && !makes(*ir)) return;
    *ir = shaped(*ir);
    ir->handler = select_(*ir);
    if (!makes(*ir)) return;
    function_.lasting.resize(shapes_.size());
    function_.lasting[ir->d.index] = true;
  }

  FunctionIr &function_;
  const std::vector<bool> &fixed_;
  Handler (*select_)(const Ir &);
  std::vector<Shape> shapes_;  // of registers; Any: all lanes are there
};

}  // namespace

void find_shapes(FunctionIr *function, const std::vector<bool> &fixed,
                 Handler (*select)(const Ir &)) {
  Shapes(function, fixed, select).run();
}

}  // namespace softdev
