#include <array>

#include "parse/syntax.h"

namespace softdev {
namespace {
struct Row {
  std::string_view name;
  uint8_t size;
};
constexpr Row kRows[] = {
    {"", 0},        {"pred", 0},   {"b8", 1},     {"u8", 1},     {"s8", 1},     {"b16", 2},
    {"u16", 2},     {"s16", 2},    {"f16", 2},    {"bf16", 2},   {"b32", 4},    {"u32", 4},
    {"s32", 4},     {"f32", 4},    {"f16x2", 4},  {"bf16x2", 4}, {"u16x2", 4},  {"s16x2", 4},
    {"tf32", 4},    {"b64", 8},    {"u64", 8},    {"s64", 8},    {"f64", 8},    {"f32x2", 8},
    {"b128", 16},   {"e4m3x2", 2}, {"e5m2x2", 2}, {"e2m3x2", 2}, {"e3m2x2", 2}, {"e2m1x2", 1},
    {"ue8m0x2", 2},
};
static_assert(std::size(kRows) == static_cast<size_t>(Type::UE8M0x2) + 1);
}  // namespace

Type type_from_name(std::string_view name) {
  for (size_t i = 1; i < std::size(kRows); ++i)
    if (kRows[i].name == name) return static_cast<Type>(i);
  return Type::None;
}
std::string_view type_name(Type type) { return kRows[static_cast<size_t>(type)].name; }
unsigned type_size(Type type) { return kRows[static_cast<size_t>(type)].size; }

}  // namespace softdev
