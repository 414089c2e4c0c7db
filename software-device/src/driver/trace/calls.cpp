// The symbols that programs call. Each passes its call on to what entry/ has made of it, and on
// the way tells the trace, if there is one, and refuses what an older driver would not have, or
// a lost GPU not do (the traits `driver` and `lost-gpu`). Look-ups find these too.
// These are the exported ones.
#undef CUDA_DRIVER_PREFIX

#include <array>
#include <bit>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "abi_lookup.h"
#include "abi_version.h"
#include "core/driver.h"
#include "cuda_driver.h"
#include "streams/operation.h"
#include "trace/trace.h"

namespace {

using namespace softdev::driver;

constexpr size_t kLongestName = 80;

enum class Kind : uint8_t { kText, kPointer, kSigned, kUnsigned, kReal, kBytes };

template <class T>
constexpr Kind kKindOf = std::is_same_v<T, const char *> ? Kind::kText
                         : std::is_pointer_v<T>          ? Kind::kPointer
                         : std::is_enum_v<T>             ? Kind::kSigned
                         : std::is_floating_point_v<T>   ? Kind::kReal
                         : !std::is_integral_v<T>        ? Kind::kBytes
                         : std::is_signed_v<T>           ? Kind::kSigned
                                                         : Kind::kUnsigned;

// A value without its type: there are hundreds of calls, and what shows their arguments is compiled
// once.
struct Value {
  Kind kind;
  size_t size;
  uint64_t bits;  // a number with its sign, a real number as a double, an address; none of kBytes
};

struct Argument : Value {
  Value (*answer)(
      uint64_t pointer);  // reads what the pointer leads to; null where no answer is put
};

template <class T>
Value value_of(const T &value) {
  constexpr Kind kind = kKindOf<T>;
  uint64_t bits = 0;
  if constexpr (kind == Kind::kText || kind == Kind::kPointer)
    bits = reinterpret_cast<uintptr_t>(value);
  else if constexpr (kind == Kind::kReal)
    bits = std::bit_cast<uint64_t>(static_cast<double>(value));
  else if constexpr (kind == Kind::kSigned)
    bits = static_cast<uint64_t>(static_cast<int64_t>(value));
  else if constexpr (kind == Kind::kUnsigned)
    bits = value;
  return {kind, sizeof value, bits};
}

// Whether a parameter in front of all that are not is where the call puts an answer: a pointer to
// one number or handle. (Buffers are void or char.)
template <class T>
constexpr bool kIsAnswer = false;
template <class T>
constexpr bool kIsAnswer<T *> =
    !std::is_const_v<T> && !std::is_same_v<T, char> && !std::is_same_v<T, unsigned char> &&
    (std::is_integral_v<T> || std::is_enum_v<T> || std::is_floating_point_v<T> ||
     std::is_pointer_v<T>);

template <class T>
Value answer_at(uint64_t pointer) {
  return value_of(*reinterpret_cast<const T *>(pointer));
}

template <class T>
Argument argument_of(const T &value) {
  if constexpr (kIsAnswer<T>) return {value_of(value), answer_at<std::remove_pointer_t<T>>};
  return {value_of(value), nullptr};
}

std::string shown(const Value &value) {
  char text[48];
  switch (value.kind) {
    case Kind::kText: {
      const auto *given = reinterpret_cast<const char *>(value.bits);
      if (!given) return "NULL";
      std::string name(given, strnlen(given, kLongestName + 1));
      if (name.size() > kLongestName) name = name.substr(0, kLongestName) + "...";
      return '"' + name + '"';
    }
    case Kind::kPointer:
      if (!value.bits) return "NULL";
      snprintf(text, sizeof text, "%p", reinterpret_cast<const void *>(value.bits));
      return text;
    case Kind::kSigned:
      snprintf(text, sizeof text, "%" PRId64, static_cast<int64_t>(value.bits));
      return text;
    case Kind::kUnsigned:  // a large one is an address, most likely
      if (value.size == 8 && value.bits > UINT32_MAX)
        snprintf(text, sizeof text, "0x%" PRIx64, value.bits);
      else
        snprintf(text, sizeof text, "%" PRIu64, value.bits);
      return text;
    case Kind::kReal:
      return std::to_string(std::bit_cast<double>(value.bits));
    case Kind::kBytes:
      break;
  }
  snprintf(text, sizeof text, "{%zu bytes}", value.size);
  return text;
}

void tell(int entry, std::span<const Argument> arguments, CUresult result, int64_t began,
          int64_t ended) {
  std::string text = "(";
  const char *between = "";
  for (const Argument &argument : arguments) {
    text += between + shown(argument);
    between = ", ";
  }
  text += ")";
  between = " -> ";
  if (result == CUDA_SUCCESS) {
    for (const Argument &argument : arguments) {
      if (!argument.answer) break;
      if (argument.bits == 0) continue;
      text += between + shown(argument.answer(argument.bits));
      between = ", ";
    }
  }
  trace::called(abi_entries[entry].name, text, result, began, ended);
}

// Whether the driver came before this call.
bool is_missing(int entry) {
  if (driver_version() == ABI_DRIVER_VERSION) return false;
  static const auto since = [] {
    std::array<int, ABI_ENTRY_COUNT> versions;
    for (int i = 0; i < ABI_ENTRY_COUNT; i++) versions[static_cast<size_t>(i)] = abi_since(i);
    return versions;
  }();
  const int came = since[static_cast<size_t>(entry)];
  if (came <= driver_version()) return false;
  log(Level::kWarn, "%s came with CUDA %d.%d: a driver for %d.%d does not have it",
      abi_entries[entry].name, came / 1000, came % 1000 / 10, driver_version() / 1000,
      driver_version() % 1000 / 10);
  return true;
}

// Whether a call has to do with devices: a GPU that is lost does not change what errors are called.
bool asks_devices(int entry) {
  const std::string_view name = abi_entries[entry].name;
  return !name.starts_with("cuGetError") && !name.starts_with("cuGetProcAddress") &&
         name != "cuDriverGetVersion" && name != "cuInit";
}

// Not gnu::cold: the part of an entry point that calls such a function would be no longer in the
// entry point, in whose place the log looks for the name of the call.
template <class... P>
[[gnu::noinline]] CUresult watched(int entry, CUresult (*implementation)(P...), P... arguments) {
  if (is_missing(entry)) return CUDA_ERROR_NOT_SUPPORTED;
  if (asks_devices(entry) && devices_are_lost()) return CUDA_ERROR_UNKNOWN;
  if (!trace::on()) return implementation(arguments...);
  int64_t began = now_ns();
  CUresult result = implementation(arguments...);
  int64_t ended = now_ns();
  if constexpr (sizeof...(P) > 0) {
    const Argument given[] = {argument_of(arguments)...};
    tell(entry, given, result, began, ended);
  } else {
    tell(entry, {}, result, began, ended);
  }
  return result;
}

template <int entry, class... P>
inline CUresult pass(CUresult (*)(P...), P... arguments) {
  auto implementation = reinterpret_cast<CUresult (*)(P...)>(abi_entries[entry].function);
  if (!trace::on() && !calls_are_refused.load(std::memory_order_relaxed)) [[likely]]
    return implementation(arguments...);
  return watched(entry, implementation, arguments...);
}

}  // namespace

extern "C" {

#define ABI_CALL(index, name, parameters, ...) \
  CUresult name parameters { return pass<index>(__VA_ARGS__); }
#define ABI_UNTYPED_CALL(index, name)                \
  __attribute__((visibility("default"))) int name(); \
  int name() { return abi_unsupported(index); }
#include "entry_calls.h"
#undef ABI_CALL
#undef ABI_UNTYPED_CALL

#define ABI_CALL(index, name, parameters, ...) reinterpret_cast<void *>(name),
#define ABI_UNTYPED_CALL(index, name) reinterpret_cast<void *>(name),
void *const abi_exports[ABI_ENTRY_COUNT] = {
#include "entry_calls.h"
};

}  // extern "C"
