// In which order a session has loaded and unloaded modules. Addresses of their variables, which
// kernels know, come from that order: so whoever is to have the same addresses loads and unloads
// the same, in the same order.
//
// Modules are loaded and unloaded by several threads.
// Lock: mutex_; the driver is called with it held by `look`, and by nobody else.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/driver.h"
#include "images/module.h"

namespace outboard {

class LoadLog {
 public:
  struct Load {
    std::shared_ptr<const Image> image;  // null: it is unloaded, and not kept
    Hash hash{};
    // Options of the compiler, as they travel.
    std::vector<uint8_t> options;
    // Of the module; 0 until it is taken, for one that was expected.
    uint64_t handle = 0;
    // Its place among those expected.
    std::optional<uint32_t> expected;
    CUlibrary library = nullptr;  // null: it is unloaded
  };
  struct Step {
    uint32_t load;  // which one
    bool unload;
  };

  // `on_full` is called once some of it is not kept for want of room.
  explicit LoadLog(std::function<void()> on_full) : on_full_(std::move(on_full)) {}

  // Notes what has just been loaded. Returns its number, for the others.
  uint32_t loaded(Load load);
  // Says that the guest has taken an expected module.
  void taken(uint32_t load, uint64_t handle);
  // To be called before it is unloaded: from then on nobody looks at its library.
  void unloading(uint32_t load);
  void clear();

  // ---- for whoever does the same elsewhere -----------------------------------------------------

  // Keeps all steps where they are until `go_on`, from which on a load and its unloading that
  // follow one another are forgotten again.
  void hold();
  void go_on();
  // Calls `f(step, load)` with the step at that place, and keeps its library loaded meanwhile.
  // False where there is none yet.
  bool look(size_t place, const std::function<void(const Step &, const Load &)> &f);

  // Whether all was forgotten since `hold`, so that places are others now.
  bool begun_anew() const;

  // Of the module of that load; 0: it was expected, and is not taken.
  uint64_t handle(uint32_t load) const;

  // Whether all was kept.
  bool whole() const;

  static constexpr uint32_t kNone = UINT32_MAX;

 private:
  const std::function<void()> on_full_;
  mutable std::mutex mutex_;
  std::vector<Load> loads_;
  std::vector<Step> steps_;
  uint64_t unloaded_bytes_ = 0;  // of images
  bool held_ = false;
  bool whole_ = true;
  bool begun_anew_ = false;
};

}  // namespace outboard
