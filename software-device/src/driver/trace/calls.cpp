// The symbols that programs call. Each passes its call on to what entry/ has made of it, and on
// the way tells the trace, if there is one. Look-ups find these too.
// These are the exported ones.
#undef CUDA_DRIVER_PREFIX

#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <string>
#include <type_traits>

#include "abi_lookup.h"
#include "cuda_driver.h"
#include "streams/operation.h"
#include "trace/trace.h"

namespace {

using namespace softdev::driver;

constexpr size_t kLongestName = 80;

template <class T>
constexpr bool kIsNumber = std::is_integral_v<T> || std::is_enum_v<T>;

template <class T>
concept Complete = requires {
  sizeof(T);
};

template <class T>
std::string number(T value) {
  char text[32];
  auto wide = static_cast<uint64_t>(value);
  if constexpr (std::is_signed_v<T>)
    snprintf(text, sizeof text, "%" PRId64, static_cast<int64_t>(value));
  else if (sizeof(T) == 8 && wide > UINT32_MAX)  // addresses, most likely
    snprintf(text, sizeof text, "0x%" PRIx64, wide);
  else
    snprintf(text, sizeof text, "%" PRIu64, wide);
  return text;
}

// An argument as it is passed.
template <class T>
std::string shown(const T &value) {
  if constexpr (std::is_same_v<T, const char *>) {
    if (!value) return "NULL";
    std::string text(value, strnlen(value, kLongestName + 1));
    if (text.size() > kLongestName) text = text.substr(0, kLongestName) + "...";
    return '"' + text + '"';
  } else if constexpr (std::is_pointer_v<T>) {
    if (!value) return "NULL";
    char text[32];
    snprintf(text, sizeof text, "%p", reinterpret_cast<const void *>(value));
    return text;
  } else if constexpr (std::is_enum_v<T>) {
    return number(static_cast<int64_t>(value));
  } else if constexpr (std::is_integral_v<T>) {
    return number(value);
  } else if constexpr (std::is_floating_point_v<T>) {
    return std::to_string(value);
  } else {
    return "{" + std::to_string(sizeof value) + " bytes}";
  }
}

// Whether a parameter in front of all that are not is where the call puts an answer: a pointer to
// one number or handle. (Buffers are void or char.)
template <class T>
constexpr bool kIsAnswer = false;
template <class T>
constexpr bool kIsAnswer<T *> =
    !std::is_const_v<T> && !std::is_same_v<T, char> && !std::is_same_v<T, unsigned char> &&
    (kIsNumber<T> || std::is_floating_point_v<T> || std::is_pointer_v<T>);

template <class First, class... Rest>
void answers(std::string *text, First first, Rest... rest) {
  if constexpr (kIsAnswer<First>) {
    if (first) *text += (text->empty() ? " -> " : ", ") + shown(*first);
    if constexpr (sizeof...(rest) > 0) answers(text, rest...);
  }
}

template <class... P>
[[gnu::noinline]] CUresult traced(int entry, CUresult (*implementation)(P...), P... arguments) {
  int64_t began = now_ns();
  CUresult result = implementation(arguments...);
  int64_t ended = now_ns();
  std::string text = "(";
  [[maybe_unused]] const char *between = "";
  ((text += between + shown(arguments), between = ", "), ...);
  text += ")";
  if constexpr (sizeof...(P) > 0) {
    std::string got;
    if (result == CUDA_SUCCESS) answers(&got, arguments...);
    text += got;
  }
  trace::called(abi_entries[entry].name, text, result, began, ended);
  return result;
}

template <int entry, class... P>
inline CUresult pass(CUresult (*)(P...), P... arguments) {
  auto implementation = reinterpret_cast<CUresult (*)(P...)>(abi_entries[entry].function);
  if (!trace::on()) [[likely]]
    return implementation(arguments...);
  return traced(entry, implementation, arguments...);
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
