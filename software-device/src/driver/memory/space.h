// What the kernels of one device may reach: a list of windows, looked up by address.
#pragma once

#include <atomic>
#include <memory>
#include <shared_mutex>
#include <string>
#include <vector>

#include "engine.h"
#include "memory/granules.h"

namespace softdev::driver {

class Memory;

class Space : public AddressSpace {
 public:
  explicit Space(const Memory *memory) : memory_(memory) {}

  const Window *find(uint64_t address) const override;
  bool holds(uint64_t address, uint64_t size) const override;
  std::string describe(uint64_t address) const override;
  const ImageView *find_image(uint64_t handle) const override;

  void add(std::shared_ptr<Granules> window);
  // Kernels that run may still hold the window, so it lives on until `forget_retired`.
  void remove(const Granules *window);
  // The same for anything else that they may hold.
  void retire(std::shared_ptr<const void> held);
  // Frees what was removed or retired if no kernel runs, as `running` counts them.
  void forget_retired(const std::atomic<int> &running);

 private:
  const Memory *memory_;
  mutable std::shared_mutex mutex_;
  std::vector<std::shared_ptr<Granules>> windows_;  // by base
  std::vector<std::shared_ptr<const void>> retired_;
};

}  // namespace softdev::driver
