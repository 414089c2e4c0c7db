// Modules that a session has loaded, their kernels, and images on their way.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/driver.h"
#include "base/handles.h"
#include "gate/kernel_times.h"
#include "images/module_store.h"
#include "wire.h"

namespace outboard {

struct Kernel {
  CUkernel object;
  std::string name;
};

// A kernel's packed parameters.
struct Layout {
  std::vector<wire_parameter> parameters;
  uint32_t bytes = 0;
};
// Nothing when the driver does not tell.
std::optional<Layout> layout_of(const Driver &driver, CUkernel kernel);

// What the driver gets of an image that travelled as parts (wire.h). Points into the image.
struct Code {
  const void *start = nullptr;
  struct Wrapper {
    uint32_t magic;
    uint32_t version;
    const void *data;
    const void *pieces;
  } wrapper{};
  std::vector<const void *> pieces;
};

// Options of the compiler as they travelled, and what it said.
class Compiling {
 public:
  // Without options.
  Compiling() = default;
  // Takes what the guest may set; `given` is whole options.
  explicit Compiling(std::span<const uint8_t> given);
  Compiling(const Compiling &) = delete;

  // For one run of the compiler: its options, with room for messages.
  void start();
  CUjit_option *options() { return options_.data(); }
  void **values() { return values_.data(); }
  unsigned count() const { return static_cast<unsigned>(options_.size()); }
  // After it has run.
  void finish();

  // Its messages then.
  std::string errors, info;

 private:
  void add(CUjit_option option, uint64_t value) {
    options_.push_back(option);
    values_.push_back(reinterpret_cast<void *>(value));
  }
  void make_room(std::string &log, size_t size, CUjit_option buffer, CUjit_option buffer_size);

  std::vector<std::pair<CUjit_option, uint64_t>> numbers_;
  // Errors always, for the guest's log, which says why a module was refused.
  size_t errors_size_ = 1024, info_size_ = 0;
  std::vector<CUjit_option> options_;
  std::vector<void *> values_;
};

struct Variable {
  std::string name;
  uint64_t address = 0, size = 0;
  bool managed = false;
};

struct Module {
  std::shared_ptr<const Image> image;  // alive as long as the library: the driver does not copy it
  Code code;
  CUlibrary library = nullptr;
  std::vector<Kernel> kernels;
  uint64_t device_memory = 0;  // that it takes
  Hash hash{};
  uint32_t answer_bytes = 0;        // of what the guest was told of it
  std::vector<Variable> variables;  // told with the load, not yet made reachable
  std::vector<uint64_t> globals;    // addresses made reachable; the leader's

  // CUDA_SUCCESS, or why the image cannot be loaded.
  static CUresult load(const Driver &driver, std::shared_ptr<const Image> image,
                       Compiling *compiling, std::unique_ptr<Module> *module);
  // A variable by its name.
  CUresult variable(const Driver &driver, const std::string &name, Variable *found) const;
  // The kernel of that name; `hint` is where it is likely to be. Null when there is none.
  CUkernel kernel(const Driver &driver, uint32_t hint, const std::string &name,
                  uint32_t *index) const;
};

// False when the parts are malformed; the driver must not see them then.
bool read_code(const Image &image, Code *code);

struct Function {
  CUfunction object = nullptr;
  const Module *module = nullptr;
  KernelCost *cost = nullptr;
  uint32_t parameter_bytes = 0;
  bool layout_known = false;
};

// Loads happen beside the leader, so this table has a lock; the modules in it are the leader's.
class LoadedModules {
 public:
  bool can_mint(uint64_t handle);
  // False when the handle was minted meanwhile.
  bool keep(uint64_t handle, std::unique_ptr<Module> &module);
  Module *find(uint64_t handle);
  std::unique_ptr<Module> take(uint64_t handle);
  // Unloads all; the first error.
  CUresult unload(const Driver &driver);
  // Calls `adopt` for each that was kept since the last time and has variables: by the leader,
  // before the guest's next command, which may use them.
  template <class F>
  void adopt(F adopt) {
    if (!fresh_.load(std::memory_order_acquire)) [[likely]]
      return;
    std::lock_guard lock(mutex_);
    fresh_.store(false, std::memory_order_relaxed);
    table_.each([&](std::unique_ptr<Module> &module) { adopt(*module); });
  }

 private:
  std::mutex mutex_;
  HandleTable<std::unique_ptr<Module>, WIRE_KIND_MODULE> table_;
  std::atomic<bool> fresh_{false};
};

// Images that the guest is sending.
class PendingImages {
 public:
  // The image, begun if it is not there; null and a reason when the guest asks for too much.
  PendingImage *get(const Hash &hash, uint64_t total, const char **why);
  // Takes the image out if it is complete.
  std::shared_ptr<Image> take_complete(const Hash &hash, uint64_t total);
  // What was sent of an image that is not needed: small ones come unasked.
  void forget(const Hash &hash);
  void clear() {
    images_.clear();
    total_ = 0;
  }

 private:
  std::map<Hash, PendingImage> images_;
  uint64_t total_ = 0;
};

}  // namespace outboard
