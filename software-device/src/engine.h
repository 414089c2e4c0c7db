// The border between the two halves of the software device.
//
// Above it (driver/): the CUDA driver API, contexts, memory, streams, events.
// Below it (parse/, translate/, execute/, schedule/): PTX text in, executed grids out.
// The engine knows no CUDA handle and no stream; the driver knows no instruction.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "device_runtime.h"
#include "texture.h"

namespace softdev {

// What went wrong, as a CUresult value and one sentence for the log.
// `code` is 0 when nothing did. `sticky` errors poison the context, as a fault on a GPU does.
struct Status {
  int code = 0;
  bool sticky = false;
  std::string message;
  bool ok() const { return code == 0; }
};

// ---------------------------------------------------------------------------------------------
// Memory that kernels may touch. Device address == host address everywhere.

// A reserved range of addresses with one flag byte per granule of 256 bytes: what kernels may do
// there (bits 0 and 1), and how much of it belongs to an allocation (bits 2 to 7): kWholeGranule,
// as many words of 4 bytes from its beginning, or kAskSpace: only AddressSpace::holds() knows.
// The driver owns the flags and changes them while kernels run (map, unmap), so they are atomics
// read with relaxed order.
inline constexpr unsigned kGranuleShift = 8;
inline constexpr uint64_t kGranuleBytes = uint64_t{1} << kGranuleShift;
inline constexpr uint8_t kReadable = 1, kWritable = 2;
inline constexpr uint8_t kWholeGranule = 0, kAskSpace = 63;
struct Window {
  uint64_t base = 0;  // both are multiples of a granule
  uint64_t size = 0;
  const uint8_t *granules = nullptr;  // size >> kGranuleShift bytes, in whole words of 8
};

// All that one device's kernels may reach. Looked up on the slow path only: the engine keeps the
// last window it hit per warp. Append-only while kernels run.
class AddressSpace {
 public:
  virtual ~AddressSpace() = default;
  // The window holding `address`, or nullptr.
  virtual const Window *find(uint64_t address) const = 0;
  // Whether one allocation holds all of these bytes; asked where a granule's flags cannot tell.
  virtual bool holds(uint64_t address, uint64_t size) const = 0;
  // A sentence on the allocation nearest to a bad address, for the log.
  virtual std::string describe(uint64_t address) const = 0;
  // What a texture or surface object is, or nullptr when the handle is none of this device's. It
  // lives until all kernels that may have found it are done.
  virtual const ImageView *find_image(uint64_t) const { return nullptr; }
};

// Where a module's __device__, __constant__ and __managed__ variables and constant initialisers go.
// Returns a zeroed, kernel-reachable address of `size` bytes, or 0. Kernels do not write constants.
enum class Storage { kGlobal, kConstant, kManaged };
using AllocateGlobal = std::function<uint64_t(size_t size, size_t align, Storage storage)>;

// ---------------------------------------------------------------------------------------------
// Programs

struct ParameterInfo {
  uint32_t offset = 0;
  uint32_t size = 0;
};

struct Variable {
  std::string name;
  uint64_t address = 0;
  uint64_t size = 0;
  bool constant = false;
  bool managed = false;
};

// A .texref or .surfref of a module. Instructions name it by its address.
struct Reference {
  std::string name;
  uint64_t address = 0;
  ImageView::Kind kind = ImageView::Kind::Texture;
};

// Registers that a block may have. Kernels say what they would need of them, for occupancy.
inline constexpr uint32_t kBlockRegisters = 64 << 10;

// What CUDA calls function attributes; all of it is known after translation.
struct KernelAttributes {
  uint32_t registers = 0;                    // estimate, for occupancy
  uint32_t static_shared = 0;                // bytes
  uint32_t local_bytes = 0;                  // per thread
  uint32_t max_threads = 1024;               // .maxntid, or the device limit
  uint32_t required_threads[3] = {0, 0, 0};  // .reqntid, or zeros
  uint32_t required_cluster[3] = {0, 0, 0};  // .reqnctapercluster, or zeros
  bool cluster_must_be_set = false;          // .explicitcluster without the size
  uint32_t max_cluster_blocks = 0;           // .maxclusterrank, or 0
  int ptx_version = 0;               // major * 10 + minor of the module's ISA target: sm_75 -> 75
  bool uses_device_runtime = false;  // launches grids itself, or asks the device's system
  bool prints = false;               // may call printf
};

class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual const std::string &name() const = 0;
  // Parameter layout: known from the index, no translation needed.
  virtual const std::vector<ParameterInfo> &parameters() const = 0;
  virtual uint32_t parameter_bytes() const = 0;
  // Parses and translates on first use; thread-safe. A kernel with an unknown instruction is
  // refused here, with its name, line and instruction in the message.
  virtual Status translate() = 0;
  // Preconditions: translate() succeeded.
  virtual const KernelAttributes &attributes() const = 0;
};

class Program {
 public:
  virtual ~Program() = default;
  // Indexes PTX text (a scan for entries and variables, no instruction is parsed) and places and
  // initialises its variables. CUresult codes used: 218 INVALID_PTX, 222 UNSUPPORTED_PTX_VERSION,
  // 2 OUT_OF_MEMORY.
  // `heap_bytes` are set aside for device malloc if the program uses it. `managed_are_there`: what
  // is allocated for managed variables is another program's of the same text, with their values.
  static std::unique_ptr<Program> load(std::string ptx, const AllocateGlobal &allocate,
                                       Status *status, uint64_t heap_bytes = uint64_t{8} << 20,
                                       bool managed_are_there = false);
  virtual Kernel *find_kernel(std::string_view name) = 0;  // nullptr when there is none
  virtual std::vector<Kernel *> kernels() = 0;             // in order of the text
  virtual const std::vector<Variable> &variables() const = 0;
  virtual bool has_heap() const = 0;             // of device malloc
  virtual bool uses_device_runtime() const = 0;  // some kernel may
  virtual const std::vector<Reference> &references() const = 0;
};

// Functions that PTX only declares and that are there all the same: vprintf, malloc, ...
bool is_builtin_function(std::string_view name);

// ---------------------------------------------------------------------------------------------
// Execution

struct Dim3 {
  uint32_t x = 1, y = 1, z = 1;
};

// Whose turn it is on a device that other processes have as well. For workers.
class Turns {
 public:
  virtual ~Turns() = default;
  // Waits until the device is this process's. It is until all who have entered have left.
  virtual void enter() = 0;
  virtual void leave() = 0;
  // Called often by who has entered: where the device has been this process's for long enough and
  // another one waits, leaves and enters again.
  virtual void glance() = 0;
};

struct Launch {
  Kernel *kernel = nullptr;  // translated; kept alive by `keep`
  std::shared_ptr<void> keep;
  Dim3 grid, block;
  Dim3 cluster;                   // blocks that run together; divides the grid
  bool explicit_cluster = false;  // the launch or the kernel asked for clusters
  uint32_t dynamic_shared = 0;
  // Shared memory is handed out in units of so many bytes, a power of two. As on a GPU, a block may
  // touch all of its last unit, unless it is held to the bytes that it has asked for.
  uint32_t shared_unit = 128;
  bool exact_shared = false;
  bool cooperative = false;
  // Of each thread, for calls of unknown depth and alloca: CUDA's stack limit.
  uint32_t stack_bytes = 1024;
  uint64_t limit_ns = 0;  // how long it may run; 0: for ever
  // How many grids above it wait for it. Deeper ones are started first, and before other blocks of
  // those that launch, so that little is pending at any time.
  uint32_t depth = 0;
  // Of a kernel that uses it; without it such calls answer that they are not supported.
  std::shared_ptr<DeviceRuntime> runtime;
  std::vector<uint8_t> parameters;  // parameter_bytes() long
  const AddressSpace *memory = nullptr;
  // What the references of the program are bound to, by their addresses.
  std::vector<std::pair<uint64_t, std::shared_ptr<const ImageView>>> images;
  // Where the workers count the nanoseconds they spend on it; may be null. Counted before `done`,
  // but for what a worker finds at the very end; and on the way while it takes long.
  std::atomic<uint64_t> *worked_ns = nullptr;
  // Of a device that is not this process's alone; else null. Outlives the engine.
  Turns *turns = nullptr;
  // Text of a call of device printf, in order of blocks' execution; may be called from worker
  // threads. False when there is no room for it.
  std::function<bool(std::string_view)> print;
  // Called once, on a worker thread, when the last block is done or the grid was abandoned.
  std::function<void(Status)> done;
};

struct EngineOptions {
  unsigned workers = 0;  // 0: one per core
};

// One pool of workers for all devices of the process. Grids submitted run concurrently; ordering
// is the driver's business (it submits a grid when its stream may run it). Blocks of one grid are
// dispatched in order.
class Engine {
 public:
  static std::unique_ptr<Engine> create(const EngineOptions &options);
  virtual ~Engine() = default;  // abandons what runs, joins the workers
  virtual void submit(Launch launch) = 0;
  virtual unsigned workers() const = 0;
};

}  // namespace softdev
