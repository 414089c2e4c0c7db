// What the engine's tests share: memory that kernels may touch, and a way to launch one kernel and
// wait for it.
#pragma once

#include <sys/mman.h>

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine.h"
#include "execute/select.h"

namespace rig {

using namespace softdev;

// What a test program says, and ends with, where the instruction set that SOFTWARE_DEVICE_ISA names
// is not to be had; ctest counts it as skipped.
constexpr int kSkipped = 77;
inline bool lacks_instruction_set() {
  const char *wanted = std::getenv("SOFTWARE_DEVICE_ISA");
  if (!wanted || instruction_set().name == wanted) return false;
  std::printf("skipped: this machine or this build has no %s\n", wanted);
  return true;
}

// One window; every allocation has pages of its own and an empty one behind them, and kernels are
// held to its bytes.
class Memory final : public AddressSpace {
 public:
  static constexpr uint64_t kPage = 4096;
  explicit Memory(uint64_t size = uint64_t{256} << 20) {
    mapping_size_ = size + kPage;
    mapping_ =
        mmap(nullptr, mapping_size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping_ == MAP_FAILED) std::abort();
    window_.base = reinterpret_cast<uint64_t>(mapping_);
    window_.size = size;
    flags_.assign((size >> kGranuleShift) / 8, 0);
    window_.granules = reinterpret_cast<const uint8_t *>(flags_.data());
  }
  ~Memory() override { munmap(mapping_, mapping_size_); }

  uint64_t allocate(uint64_t size, uint8_t flags = kReadable | kWritable) {
    uint64_t pages = (size + kPage - 1) / kPage * kPage;
    uint64_t address = window_.base + next_;
    if (next_ + pages + kPage > window_.size) return 0;
    next_ += pages + kPage;
    mprotect(reinterpret_cast<void *>(address), pages, PROT_READ | PROT_WRITE);
    open(address, size, flags);
    sizes_[address] = size;
    return address;
  }
  void free(uint64_t address) {
    open(address, sizes_[address], 0);
    sizes_.erase(address);
  }
  const Window *find(uint64_t address) const override {
    return address - window_.base < window_.size ? &window_ : nullptr;
  }
  bool holds(uint64_t address, uint64_t size) const override {
    auto at = sizes_.upper_bound(address);
    if (at == sizes_.begin()) return false;
    --at;
    return address + size <= at->first + at->second;
  }
  std::string describe(uint64_t address) const override {
    auto at = sizes_.upper_bound(address);
    if (at == sizes_.begin()) return "no allocation is below it";
    --at;
    char text[120];
    std::snprintf(text, sizeof text, "the nearest allocation has %llu bytes at 0x%llx",
                  static_cast<unsigned long long>(at->second),
                  static_cast<unsigned long long>(at->first));
    return text;
  }
  const ImageView *find_image(uint64_t handle) const override {
    auto found = images.find(handle);
    return found == images.end() ? nullptr : &found->second;
  }
  std::map<uint64_t, ImageView> images;  // of texture and surface objects

  AllocateGlobal allocator() {
    return [this](size_t size, size_t, Storage storage) {
      return allocate(size, storage == Storage::kConstant ? kReadable : kReadable | kWritable);
    };
  }

 private:
  // What engine.h says of the flags, written a second time.
  void open(uint64_t address, uint64_t size, uint8_t flags) {
    auto *granules = reinterpret_cast<uint8_t *>(flags_.data());
    for (uint64_t at = 0; at < size; at += 256) {
      uint64_t left = size - at, words = 0;
      if (left < 256) words = left % 4 || left == 252 ? 63 : left / 4;
      granules[(address + at - window_.base) / 256] =
          flags ? static_cast<uint8_t>(flags | words << 2) : 0;
    }
  }

  Window window_;
  void *mapping_ = nullptr;
  uint64_t mapping_size_ = 0;
  std::vector<uint64_t> flags_;
  uint64_t next_ = 0;
  std::map<uint64_t, uint64_t> sizes_;
};

// Parameters of a kernel, laid out as the PTX ABI does.
class Parameters {
 public:
  template <class T>
  Parameters &add(T value) {
    bytes_.resize((bytes_.size() + alignof(T) - 1) / alignof(T) * alignof(T));
    const auto *from = reinterpret_cast<const uint8_t *>(&value);
    bytes_.insert(bytes_.end(), from, from + sizeof(T));
    return *this;
  }
  std::vector<uint8_t> take() { return std::move(bytes_); }

 private:
  std::vector<uint8_t> bytes_;
};

class Device {
 public:
  explicit Device(unsigned workers = 2) { engine = Engine::create({workers}); }

  std::shared_ptr<Program> load(const std::string &ptx, Status *status = nullptr) {
    Status own;
    std::shared_ptr<Program> program = Program::load(ptx, memory.allocator(), &own);
    if (status)
      *status = own;
    else if (!own.ok())
      std::fprintf(stderr, "load: %s\n", own.message.c_str());
    return program;
  }

  Status launch(const std::shared_ptr<Program> &program, const char *kernel, Dim3 grid, Dim3 block,
                Parameters parameters, uint32_t shared = 0, bool cooperative = false) {
    Kernel *found = program->find_kernel(kernel);
    if (!found) return {500, false, std::string("no kernel ") + kernel};
    if (Status status = found->translate(); !status.ok()) return status;
    Launch launch;
    launch.kernel = found;
    launch.keep = program;
    launch.grid = grid;
    launch.block = block;
    launch.cluster = cluster;
    launch.explicit_cluster = cluster.x * cluster.y * cluster.z > 1;
    launch.stack_bytes = stack_bytes;
    launch.limit_ns = limit_ns;
    launch.dynamic_shared = shared;
    launch.shared_unit = shared_unit;
    launch.exact_shared = exact_shared;
    launch.cooperative = cooperative;
    launch.parameters = parameters.take();
    launch.memory = &memory;
    launch.images = bound;
    launch.print = [this](std::string_view text) {
      printed += text;
      return true;
    };
    std::mutex mutex;
    std::condition_variable wake;
    bool done = false;
    Status result;
    launch.done = [&](Status status) {
      std::lock_guard lock(mutex);
      result = std::move(status);
      done = true;
      wake.notify_one();
    };
    engine->submit(std::move(launch));
    std::unique_lock lock(mutex);
    wake.wait(lock, [&] { return done; });
    return result;
  }

  template <class T>
  T *array(size_t count) {
    return reinterpret_cast<T *>(memory.allocate(count * sizeof(T)));
  }

  Memory memory;
  // What references are bound to, by the address of their variables.
  std::vector<std::pair<uint64_t, std::shared_ptr<const ImageView>>> bound;
  std::unique_ptr<Engine> engine;
  Dim3 cluster;  // of launches to come, as what follows
  uint32_t stack_bytes = 1024;
  uint64_t limit_ns = 0;
  // Kernels are held to the bytes of shared memory, as to those of other memory, not to its units.
  bool exact_shared = true;
  uint32_t shared_unit = 128;
  std::string printed;
};

}  // namespace rig
