#include "parse/registers.h"

namespace softdev {
namespace {
constexpr size_t kMaxRegisters = 1 << 22;
}

bool RegisterNames::declare(uint32_t scope, std::string_view name, Type type, uint32_t elements,
                            uint32_t count) {
  const RegisterRef added = {static_cast<uint32_t>(body_->registers.size()), elements};
  const size_t total = body_->registers.size() + size_t{count ? count : 1} * elements;
  if (total > kMaxRegisters) return false;
  body_->registers.resize(total, type);
  Entry &entry = names_[scope][name];
  if (count) {
    entry.range = added;
    entry.count = count;
  } else {
    entry.single = added;
  }
  return true;
}

RegisterRef RegisterNames::find(uint32_t scope, std::string_view name) const {
  size_t digits = name.size();
  while (digits > 0 && name[digits - 1] >= '0' && name[digits - 1] <= '9') --digits;
  bool numbered = digits < name.size() && name.size() - digits <= 9;
  std::string_view prefix = name.substr(0, digits);
  uint32_t number = 0;
  if (numbered)
    for (char c : name.substr(digits)) number = number * 10 + static_cast<uint32_t>(c - '0');
  for (; scope != kNone; scope = body_->scope_parent[scope]) {
    const auto &names = names_[scope];
    if (names.empty()) continue;
    auto whole = names.find(name);
    if (whole != names.end() && whole->second.single) return whole->second.single;
    if (!numbered) continue;
    auto range = names.find(prefix);
    if (range != names.end() && number < range->second.count) {
      RegisterRef ref = range->second.range;
      ref.first += number * ref.elements;
      return ref;
    }
  }
  return {};
}

}  // namespace softdev
