// Calls of cuBLASLt as a guest has sent them (cublaslt_call.h): read and checked. No byte of them
// is trusted, and nothing of the frame is kept.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <string>

#include "cublaslt_call.h"

namespace outboard {

// What words have not been read yet.
using LtWords = std::span<const uint64_t>;

// A descriptor: its attributes at their places (lt_place).
class LtDescriptor {
 public:
  // Takes one off the words; whether it is one.
  bool read(lt_kind kind, LtWords *words);

  lt_kind kind() const { return kind_; }
  const void *at(uint32_t place) const { return object_ + place; }
  int32_t number(uint32_t place) const { return of<int32_t>(place); }
  int64_t whole(uint32_t place) const { return of<int64_t>(place); }
  uint64_t address(uint32_t place) const { return of<uint64_t>(place); }
  // Whether the attribute at that place of the table is another than it is unless told.
  bool is_told(uint32_t attribute) const { return told_ >> attribute & 1; }

 private:
  template <class T>
  T of(uint32_t place) const {
    T value;
    memcpy(&value, object_ + place, sizeof value);
    return value;
  }

  lt_kind kind_ = LT_DESC;
  uint64_t told_ = 0;
  alignas(8) uint8_t object_[LT_OBJECT_MOST] = {};
};

class LtArguments {
 public:
  // Whether the guest may use [address, address + size) of the device's memory.
  using Reachable = std::function<bool(uint64_t address, uint64_t size)>;

  LtArguments() = default;
  LtArguments(const LtArguments &) = delete;

  // Reads the arguments of a call. Returns what rule they break, which ends the session, or
  // nullptr.
  const char *decode(uint32_t function, std::span<const uint8_t> bytes);
  // Whether the function puts work on a stream.
  bool starts() const { return function == LT_MATMUL || function == LT_TRANSFORM; }
  // Whether all memory that such a call names is the guest's. Arrays of pointers are the guest's;
  // what those name is reached as by a kernel of the program.
  bool are_reachable(const Reachable &reachable) const;
  // For people, and to tell costs apart: what is computed.
  std::string text() const;

  uint32_t function = LT_FUNCTION_COUNT;
  lt_matmul matmul{};
  lt_transform transform{};
  LtDescriptor desc, preference;
  LtDescriptor layouts[4];  // of A, B, C and D
  bool has_algo = false;
  alignas(16) uint64_t algo[LT_ALGO_WORDS] = {};
  // Types, the number of an attribute, sizes, as the function has them.
  int64_t numbers[8] = {};

 private:
  const char *decode_words(LtWords words);
  bool matmul_is_reachable(const Reachable &reachable) const;
  bool transform_is_reachable(const Reachable &reachable) const;
};

}  // namespace outboard
