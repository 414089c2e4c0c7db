// Frames that make sense more often than not: handles, addresses and images of which there are few,
// so that what one command makes another one uses.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "wire_fields.h"

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15 + 1) {}
  uint64_t next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    return state_ ^= state_ << 17;
  }
  size_t below(size_t n) { return static_cast<size_t>(next() >> 11) % n; }
  uint64_t one_of(std::initializer_list<uint64_t> values) {
    return values.begin()[below(values.size())];
  }

 private:
  uint64_t state_;
};

// Null: no such command.
const wire_command *find_command(const std::string &frame);

// Writes the frame's size, and into its blobs' fields and its bulk length what stands behind its
// fixed part: `first` bytes of the first blob, all else of the last one.
void seal(std::string &frame, uint32_t first);

class FrameMaker {
 public:
  explicit FrameMaker(Random &random) : random_(random) {}

  // The command, and sometimes what it needs before it.
  std::vector<std::string> make(const wire_command &command);
  // Gives one field of the frame another value.
  void change(std::string &frame);

 private:
  std::string fill(const wire_command &command);
  uint64_t value(const wire_command &command, const wire_field &field);
  std::string tail(const wire_command &command, uint32_t *first);
  std::string graph_nodes(bool change);
  std::string image(size_t which);

  Random &random_;
  size_t image_ = 0;  // that the frame being made is about
};
