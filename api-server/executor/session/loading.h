// Loads of modules, and what their answers tell the guest: kernels, their layouts and attributes,
// variables that were asked for before.
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

// A load, in either of its forms.
struct Loading {
  uint64_t request, handle;
  Hash hash;
  uint64_t total;
  bool open;   // ModuleOpen
  bool plain;  // without options of the compiler
  Compiling compiling;
  std::optional<uint32_t> expected{};  // nobody has asked: its place among those expected
  size_t told = 0;                     // bytes of the answer
};

// Tells how it stands with a load: that its image is wanted, or that it failed.
void answer_state(Session &s, const Loading &loading, CUresult result, uint32_t state);
// Its image has no room beside those of the session's other modules.
void answer_no_room(Session &s, Loading &loading);
// Loads it and answers, from any thread of the session. Whether the image is one that can be
// loaded.
bool load(Session &s, Loading &loading, std::shared_ptr<const Image> image, ImageRoom::Taken &room);

// Loads them on a thread of the session's.
void load_expected(Session &s, std::vector<ExpectedModule> expected);

}  // namespace outboard
