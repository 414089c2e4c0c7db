// Modules that a session has loaded, their kernels, and images that are on their way.
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
#include "images/layouts.h"
#include "images/module_store.h"
#include "wire.h"

namespace outboard {

struct Kernel {
  CUkernel object;
  std::string name;
  std::optional<Layout> layout{};  // as the image tells it
};

// Asks the driver for a kernel's layout, which may load the kernel. Nothing when it does not tell.
std::optional<Layout> layout_of(const Driver &driver, CUkernel kernel);

// What the driver gets of an image, which travels in parts (wire.h). It points into the image,
// which has to live as long.
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

// The compiler's options for a load or a link, and the messages that it gives back.
class Compiling {
 public:
  // Without options.
  Compiling() = default;
  // Takes those options that a guest may set from `given`: options as they travel, of which
  // options_make_sense has been asked.
  explicit Compiling(std::span<const uint8_t> given);
  Compiling(const Compiling &) = delete;

  // Prepares the arrays that the driver gets for one run of the compiler: the options, and room for
  // messages.
  void start();
  CUjit_option *options() { return options_.data(); }
  void **values() { return values_.data(); }
  unsigned count() const { return static_cast<unsigned>(options_.size()); }
  // To be called after the compiler has run: cuts the messages to what it wrote.
  void finish();

  // The compiler's messages, after `finish`.
  std::string errors, info;

 private:
  void add(CUjit_option option, uint64_t value) {
    options_.push_back(option);
    values_.push_back(reinterpret_cast<void *>(value));
  }
  void make_room(std::string &log, size_t size, CUjit_option buffer, CUjit_option buffer_size);

  std::vector<std::pair<CUjit_option, uint64_t>> numbers_;
  // There is always room for errors: the guest's log says why a module was refused.
  size_t errors_size_ = 1024, info_size_ = 0;
  std::vector<CUjit_option> options_;
  std::vector<void *> values_;
};

// A variable of a module; `address` and `size` are bytes of the device.
struct Variable {
  std::string name;
  uint64_t address = 0, size = 0;
  bool managed = false;
};

struct Module {
  std::shared_ptr<const Image> image;  // lives as long as the library: the driver does not copy it
  Code code;
  CUlibrary library = nullptr;
  std::vector<Kernel> kernels;
  uint64_t device_memory = 0;  // how many bytes of it the module takes
  Hash hash{};
  uint32_t load_number = UINT32_MAX;  // in LoadLog
  uint32_t answer_bytes = 0;          // how long the answer to its load was
  std::vector<Variable> variables;    // the guest was told of them, and may not use them yet
  std::vector<uint64_t> globals;      // addresses of those that it may use; the leader's

  // Loads an image into *module, with the options in `compiling`, which has the messages then.
  // Returns the driver's error, or CUDA_ERROR_INVALID_IMAGE for an image that makes no sense.
  static CUresult load(const Driver &driver, std::shared_ptr<const Image> image,
                       Compiling *compiling, std::unique_ptr<Module> *module);
  // Reads from the image where parameters of the kernels lie. Returns of how many it does not tell,
  // with a reason in *why.
  size_t read_layouts(Capability capability, std::string *why);
  // Returns what the image tells of the kernel at that place in `kernels`; null: nothing, or there
  // is no such place.
  const Layout *told_layout(uint32_t index) const {
    return index < kernels.size() && kernels[index].layout ? &*kernels[index].layout : nullptr;
  }
  // Finds a variable by its name. The driver's result.
  CUresult variable(const Driver &driver, const std::string &name, Variable *found) const;
  // Returns the kernel of that name, and in *index its place in `kernels`. `hint` is the place
  // where it probably is. Null when there is none.
  CUkernel kernel(const Driver &driver, uint32_t hint, const std::string &name,
                  uint32_t *index) const;
};

// Finds the parts of an image. False when they make no sense; then the driver must not see them.
bool read_code(const Image &image, Code *code);

// A kernel that the guest has a handle for.
struct Function {
  CUfunction object = nullptr;
  const Module *module = nullptr;
  KernelCost *cost = nullptr;
  uint32_t parameter_bytes = 0;
  bool layout_known = false;
  static constexpr uint32_t kNotAsked = UINT32_MAX;
  uint32_t stack = kNotAsked;  // bytes of local memory that a thread takes
};

// The modules behind the handles that the guest minted. Modules are loaded beside the leader, so
// any thread may call these; but what is in a module is the leader's once it is kept.
class LoadedModules {
 public:
  bool can_mint(uint64_t handle);
  // Keeps a module. False, with the module left where it is, when the handle was minted meanwhile.
  bool keep(uint64_t handle, std::unique_ptr<Module> &module);
  // Returns the module behind a handle, or null.
  Module *find(uint64_t handle);
  // Returns it and frees the handle.
  std::unique_ptr<Module> take(uint64_t handle);
  // Unloads all modules. Returns the first error.
  CUresult unload(const Driver &driver);
  // Calls `adopt` for each module, if one with variables was kept since the last call. The leader
  // calls this before each command of the guest, which may use those variables.
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

// Images that the guest is sending. Used by the leader alone.
class PendingImages {
 public:
  // Returns the image of that hash, which is begun if it is not there. Null, with a reason in *why,
  // when the guest sends more than it may.
  PendingImage *get(const Hash &hash, uint64_t total, const char **why);
  // Takes the image out if it has come whole; null otherwise.
  std::shared_ptr<Image> take_complete(const Hash &hash, uint64_t total);
  // Forgets what was sent of an image that is not needed: small ones are sent before they are asked
  // for.
  void forget(const Hash &hash);
  // Calls `f(hash, image)` with each.
  template <class F>
  void each(F f) const {
    for (const auto &[hash, image] : images_) f(hash, image);
  }
  void clear() {
    images_.clear();
    total_ = 0;
  }

 private:
  std::map<Hash, PendingImage> images_;
  uint64_t total_ = 0;
};

}  // namespace outboard
