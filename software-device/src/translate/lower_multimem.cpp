// multimem: one address for the same place in the memory of several devices. Multicast objects are
// not to be had here, as each device stands alone, and an address that is not of one is undefined
// by the ISA: here it is of the one device, whose place is read, written or added to. So what a
// program compiles for the case that there are several translates, whether it is used or not.
#include <algorithm>

#include "translate/lower.h"

namespace softdev {
namespace {

constexpr std::string_view kWords[] = {"ld_reduce", "st",  "red",     "weak", "relaxed", "acquire",
                                       "release",   "cta", "cluster", "gpu",  "sys",     "global",
                                       "add",       "min", "max",     "and",  "or",      "xor",
                                       "acc::f32",  "v2",  "v4",      "v8"};

enum class Family : uint8_t { None, Integer, Bits, Single, Double, Half, HalfPair };

Family family_of(Type type) {
  switch (type) {
    case Type::U32:
    case Type::S32:
    case Type::U64:
    case Type::S64:
      return Family::Integer;
    case Type::B32:
    case Type::B64:
      return Family::Bits;
    case Type::F32:
      return Family::Single;
    case Type::F64:
      return Family::Double;
    case Type::F16:
    case Type::BF16:
      return Family::Half;
    case Type::F16x2:
    case Type::BF16x2:
      return Family::HalfPair;
    default:
      return Family::None;
  }
}

}  // namespace

// multimem.ld_reduce[.order][.scope][.global].op[.acc::f32][.vec].type d, [a]
// multimem.st[.order][.scope][.global][.vec].type [a], b
// multimem.red[.order][.scope][.global].op[.vec].type [a], b
bool Lowering::multimem() {
  Type type = Type::None;
  for (uint32_t i = 0; i < statement_->modifiers; ++i) {
    const std::string_view word = body_.modifiers[statement_->first_modifier + i];
    const Type named = type_from_name(word);
    if (named != Type::None) type = named;
    if (named == Type::None &&
        std::find(std::begin(kWords), std::end(kWords), word) == std::end(kWords))
      return refuse("unknown or unsupported modifier '." + std::string(word) + "'");
  }
  const bool loads = take("ld_reduce"), stores = !loads && take("st");
  if (!loads && !stores && !take("red")) return refuse("needs .ld_reduce, .st or .red");
  if (has(loads ? "release" : "acquire") || (!loads && !stores && has("weak")))
    return refuse("this order belongs to another instruction");

  const Family family = family_of(type);
  const bool alone = !has("v2") && !has("v4") && !has("v8");
  const bool adds = has("add"), picks = has("min") || has("max");
  const bool logical = has("and") || has("or") || has("xor");
  bool legal = false;
  switch (family) {
    case Family::Integer:
      legal = alone && (stores || picks || (adds && type != Type::S64));
      break;
    case Family::Bits:
      legal = alone && (stores || logical);
      break;
    case Family::Single:
      legal = !has("v8") && (stores || adds);
      break;
    case Family::Double:
      legal = alone && (stores || adds);
      break;
    case Family::Half:
      legal = !alone && (stores || adds || picks);
      break;
    case Family::HalfPair:
      legal = !has("v8") && (stores || adds || (picks && (loads || !alone)));
      break;
    case Family::None:
      break;
  }
  if (stores ? adds || picks || logical : adds + picks + logical != 1) legal = false;
  if (take("acc::f32"))
    legal = legal && loads && adds && (family == Family::Half || family == Family::HalfPair);
  if (!legal) return refuse("no such form of multimem");
  if (stores) return store();
  if (!loads) return atomic();
  // The reduction of one value is that value.
  for (std::string_view op : {"add", "min", "max", "and", "or", "xor"}) take(op);
  return load();
}

}  // namespace softdev
