// Arguments of a library's call as a guest has sent them (library_call.h): read, checked, and laid
// out as the library takes them. No byte of them is trusted, and nothing of the frame is kept.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "library_call.h"

namespace outboard {

class LibraryArguments {
 public:
  // Whether the guest may use [address, address + size) of the device's memory.
  using Reachable = std::function<bool(uint64_t address, uint64_t size)>;

  LibraryArguments() = default;
  LibraryArguments(const LibraryArguments &) = delete;

  // Reads the arguments of a call of `call` in that mode. Returns what rule they break, which ends
  // the session, or nullptr.
  const char *decode(const library_call &call, uint32_t mode, std::span<const uint8_t> bytes);
  // Whether all memory that the call names is the guest's, by what it says is done with it: to be
  // asked after decode.
  bool are_reachable(const Reachable &reachable) const;

  // As the library takes them, after decode; behind the last one there are zeros.
  const uint64_t *words() const { return words_; }
  // What the library has written for the program's memory.
  const void *results() const { return results_; }
  uint32_t results_size() const { return results_size_; }
  // One number for all that is no address.
  uint64_t shape() const;
  // The same as text, for people: the numbers among the parameters.
  std::string text() const;

 private:
  bool reaches(const library_argument &argument, uint64_t address,
               const Reachable &reachable) const;
  int64_t length(const library_length &length) const;

  const library_call *call_ = nullptr;
  uint32_t mode_ = 0;
  uint64_t words_[LIBRARY_PARAMETERS_MAX] = {};
  // Of complex numbers of double precision.
  alignas(16) uint64_t scalars_[LIBRARY_SCALARS_MAX / 8] = {};
  alignas(16) uint64_t results_[LIBRARY_SCALARS_MAX / 8] = {};
  uint32_t results_size_ = 0;
};

}  // namespace outboard
