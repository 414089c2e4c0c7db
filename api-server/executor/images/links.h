// The links that the guest has begun, each with a linker of the driver's. Their steps (an input is
// added, the result is made) run on threads beside the leader, one at a time for each link.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>

#include "base/driver.h"
#include "base/handles.h"
#include "images/module.h"

namespace outboard {

class Link {
 public:
  // How many bytes the inputs of all links of a session have.
  using Taken = std::shared_ptr<std::atomic<uint64_t>>;

  // `options` are those of the compiler as they travelled, of which options_make_sense has been
  // asked. `all` counts the inputs of all links.
  Link(const Driver &driver, std::span<const uint8_t> options, Taken all);
  ~Link();
  Link(const Link &) = delete;
  Link &operator=(const Link &) = delete;

  // To be held while a step runs, that is around all calls that follow.
  std::mutex &mutex() { return mutex_; }

  // Counts an input of that size. False, with nothing counted, when the inputs of all links would
  // be too much.
  bool take(uint64_t bytes);
  // Gives the linker an input, which `take` has counted. The driver's result.
  CUresult add(CUjitInputType type, std::span<const uint8_t> input, const char *name,
               Compiling *options);
  // Has the linker make its result. The driver's result.
  CUresult complete();
  // Returns what `complete` has made, which lies with the driver until the link ends. Empty before
  // that, and once another input was added.
  std::span<const uint8_t> result() const { return result_; }
  // Return what the linker has said so far: errors, and what is no error.
  std::string_view errors() const { return said(compiling_.errors); }
  std::string_view info() const { return said(compiling_.info); }

 private:
  static std::string_view said(const std::string &log) { return {log.c_str()}; }

  const Driver &driver_;
  const Taken all_;
  std::atomic<uint64_t> own_{0};  // of it
  std::mutex mutex_;
  Compiling compiling_;
  CUlinkState state_ = nullptr;
  CUresult begun_;
  std::span<const uint8_t> result_;
};

// The links of a session. Used by the leader alone. A link whose step runs lives until that has
// ended, also when it is not in here any more.
class Links {
 public:
  bool can_mint(uint64_t handle) const { return table_.can_mint(handle); }
  bool empty() const { return count_ == 0; }
  // Whether the guest may begin one more.
  bool has_room() const { return count_ < WIRE_LINKS_MAX; }
  std::shared_ptr<Link> make(const Driver &driver, std::span<const uint8_t> options) {
    return std::make_shared<Link>(driver, options, taken_);
  }
  void keep(uint64_t handle, std::shared_ptr<Link> link);
  std::shared_ptr<Link> find(uint64_t handle);
  // Forgets a link. False when there is none.
  bool end(uint64_t handle);
  // Forgets all links.
  void clear();

 private:
  HandleTable<std::shared_ptr<Link>, WIRE_KIND_LINK> table_;
  size_t count_ = 0;
  const Link::Taken taken_ = std::make_shared<std::atomic<uint64_t>>(0);
};

// Returns the input in an image that holds one and nothing else; empty otherwise.
std::span<const uint8_t> input_of(const Image &image);

// Makes an image of a link's result with the bytes that a guest would send of it, so that it is
// found by its hash when the guest loads it. Null when no guest could send such an image, or there
// is no memory.
std::shared_ptr<Image> image_of_result(std::span<const uint8_t> result);

}  // namespace outboard
