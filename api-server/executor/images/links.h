// Links of a session: the driver's linker, one for each that the guest has begun. Inputs are judged
// and results made beside the leader, one step of a link at a time.
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
  // Bytes of the inputs of all links of a session.
  using Taken = std::shared_ptr<std::atomic<uint64_t>>;

  // `options` is whole options.
  Link(const Driver &driver, std::span<const uint8_t> options, Taken all);
  ~Link();
  Link(const Link &) = delete;
  Link &operator=(const Link &) = delete;

  // The step of a link that is under way: held around what follows.
  std::mutex &mutex() { return mutex_; }

  // Counts an input of that size; false when the inputs of all links would be too much.
  bool take(uint64_t bytes);
  CUresult add(CUjitInputType type, std::span<const uint8_t> input, const char *name,
               Compiling *options);
  CUresult complete();
  // What came out, which lies with the driver; nothing before that, nor once more was added.
  std::span<const uint8_t> result() const { return result_; }
  // What the linker has said so far.
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

// The leader's; a link that a step is under way of lives until that has ended.
class Links {
 public:
  bool can_mint(uint64_t handle) const { return table_.can_mint(handle); }
  bool has_room() const { return count_ < WIRE_LINKS_MAX; }
  std::shared_ptr<Link> make(const Driver &driver, std::span<const uint8_t> options) {
    return std::make_shared<Link>(driver, options, taken_);
  }
  void keep(uint64_t handle, std::shared_ptr<Link> link);
  std::shared_ptr<Link> find(uint64_t handle);
  bool end(uint64_t handle);
  void clear();

 private:
  HandleTable<std::shared_ptr<Link>, WIRE_KIND_LINK> table_;
  size_t count_ = 0;
  const Link::Taken taken_ = std::make_shared<std::atomic<uint64_t>>(0);
};

// The input in an image that has one and nothing else; empty otherwise.
std::span<const uint8_t> input_of(const Image &image);

// A result as guests send images, so that it is known when one is asked to load it. Null when
// no guest could send it, or there is no memory.
std::shared_ptr<Image> image_of_result(std::span<const uint8_t> result);

}  // namespace outboard
