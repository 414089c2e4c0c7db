// Loads modules and answers the guest, with what it may want to know next: the module's kernels
// with their layouts and attributes, and variables that were asked for before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "images/expected_modules.h"
#include "images/image_room.h"
#include "images/module.h"

namespace outboard {

class Session;

// A load that the guest has asked for, or that was expected.
struct Loading {
  uint64_t request, handle;
  Hash hash;       // of the image
  uint64_t total;  // bytes of the image
  bool open;       // the command was ModuleOpen
  bool plain;      // it has no options for the compiler
  Compiling compiling;
  std::vector<uint8_t> options{};      // the same as they travel
  std::optional<uint32_t> expected{};  // its place among those expected, when nobody has asked
  size_t told = 0;                     // how many bytes the answer has
};

// Answers a load that has no module yet: `state` says that the image is wanted, `result` that the
// load has failed.
void answer_state(Session &s, const Loading &loading, CUresult result, uint32_t state);
// Answers that the image has no room beside those of the session's other modules.
void answer_no_room(Session &s, Loading &loading);
// Loads the module and answers. True when the image is one that can be loaded, so that it is worth
// keeping. Any thread of the session.
bool load(Session &s, Loading &loading, std::shared_ptr<const Image> image, ImageRoom::Taken &room);

// Loads modules that the program's last session used, on a thread of the session's.
void load_expected(Session &s, std::vector<ExpectedModule> expected);

}  // namespace outboard
