// CUDA's device runtime, as far as threads see it: arguments, results through pointers, and the
// error that each thread had last. What is asked for is done by Launch::runtime.
#include <cstddef>
#include <new>

#include "schedule/builtin.h"

namespace softdev {
namespace {

// Layouts of the runtime API.
struct PitchedPointer {
  uint64_t address, pitch, width, height;
};
struct Extent {
  uint64_t width, height, depth;
};
struct Copy3D {
  uint64_t from_array;
  Extent from_at;
  PitchedPointer from;
  uint64_t to_array;
  Extent to_at;
  PitchedPointer to;
  Extent extent;
  uint32_t kind;
  uint32_t padding;
};
static_assert(sizeof(Copy3D) == 160);
struct FunctionAttributes {
  uint64_t static_shared, constants, local_bytes;
  int32_t max_threads, registers, ptx_version, binary_version, cached, max_dynamic_shared, carveout;
  int32_t cluster_must_be_set, cluster[3], cluster_policy, non_portable_cluster;
};
static_assert(offsetof(FunctionAttributes, cluster_must_be_set) == 52);

enum : uint32_t { kDeviceToDevice = 3, kAnyDirection = 4 };

// One call by one thread.
class Call {
 public:
  Call(ThreadMemory &memory, const CallCode &code, const uint8_t *frame)
      : memory_(memory),
        code_(code),
        frame_(frame),
        grid_(*memory.block().grid),
        runtime_(*grid_.launch.runtime) {}

  // False when a pointer is bad.
  bool run(uint64_t *result) {
    switch (code_.builtin->builtin) {
      case Builtin::TakeError:
      case Builtin::PeekError:
        *result = static_cast<uint64_t>(last_error());
        if (code_.builtin->builtin == Builtin::TakeError && *result) set_error(0);
        return true;
      case Builtin::ErrorName:
        *result = runtime_.error_name(integer(0));
        return true;
      case Builtin::ErrorSentence:
        *result = runtime_.error_sentence(integer(0));
        return true;
      case Builtin::ParameterBuffer:
      case Builtin::ParameterBufferFor: {
        *result = 0;
        const int error = code_.builtin->builtin == Builtin::ParameterBuffer
                              ? runtime_.parameter_buffer(word(0), word(1), result)
                              : prepare(word(0), 1, result);
        if (error) set_error(error);
        return true;
      }
      default: {
        const int error = answer();
        if (bad_pointer_) return false;
        if (error) set_error(error);
        *result = static_cast<uint64_t>(error);
        return true;
      }
    }
  }

 private:
  template <class T>
  T value(size_t argument) const {
    T out;
    std::memcpy(&out, frame_ + code_.arguments[argument].local, sizeof out);
    return out;
  }
  uint64_t word(size_t argument) const { return value<uint64_t>(argument); }
  int integer(size_t argument) const { return value<int>(argument); }

  StreamOfThread stream(size_t argument) const {
    return {word(argument), code_.builtin->own_default, memory_.block().index, memory_.thread()};
  }
  Kernel *kernel(size_t argument) const {
    return grid_.kernel->program().kernel_at(word(argument));
  }

  // A launch of the kernel at this address, of the shape that begins at an argument.
  int prepare(uint64_t address, size_t at, uint64_t *buffer) {
    Kernel *kernel = grid_.kernel->program().kernel_at(address);
    if (!kernel) return kDeviceInvalidFunction;
    LaunchShape shape;
    std::memcpy(shape.grid, frame_ + code_.arguments[at].local, sizeof shape.grid);
    std::memcpy(shape.block, frame_ + code_.arguments[at + 1].local, sizeof shape.block);
    shape.dynamic_shared = value<uint32_t>(at + 2);
    return runtime_.prepare(kernel, shape, buffer);
  }

  // Where the thread wants a result; a null pointer is an error of its own.
  template <class T, class Ask>
  int store(size_t argument, Ask ask) {
    if (!word(argument)) return kDeviceInvalidValue;
    T result{};
    if (const int error = ask(&result)) return error;
    if (!memory_.write(word(argument), result)) bad_pointer_ = true;
    return 0;
  }

  static bool on_device(uint32_t kind) { return kind == kDeviceToDevice || kind == kAnyDirection; }

  int copy_3d() {
    Copy3D asked;
    if (!word(0)) return kDeviceInvalidValue;
    if (!memory_.read(word(0), &asked)) {
      bad_pointer_ = true;
      return 0;
    }
    if (asked.from_array || asked.to_array) return kDeviceNotSupported;
    if (!on_device(asked.kind)) return kDeviceInvalidDirection;
    auto end = [](const PitchedPointer &of, const Extent &at) {
      const uint64_t slice = of.pitch * of.height;
      return DeviceCopy::End{of.address + at.depth * slice + at.height * of.pitch + at.width,
                             of.pitch, slice};
    };
    return runtime_.copy({end(asked.to, asked.to_at), end(asked.from, asked.from_at),
                          asked.extent.width, asked.extent.height, asked.extent.depth},
                         stream(1));
  }

  int attributes() {
    Kernel *of = kernel(1);
    if (!of) return kDeviceInvalidFunction;
    return store<FunctionAttributes>(0, [&](FunctionAttributes *out) {
      DeviceFunctionAttributes is;
      if (const int error = runtime_.function_attributes(of, &is)) return error;
      *out = {is.static_shared,       is.constants,
              is.local_bytes,         is.max_threads,
              is.registers,           is.ptx_version,
              is.binary_version,      is.cached,
              is.max_dynamic_shared,  is.carveout,
              is.cluster_must_be_set, {is.cluster[0], is.cluster[1], is.cluster[2]},
              is.cluster_policy,      is.non_portable_cluster};
      return 0;
    });
  }

  int occupancy() {
    Kernel *of = kernel(1);
    if (!of) return kDeviceInvalidFunction;
    return store<int>(0,
                      [&](int *out) { return runtime_.occupancy(of, integer(2), word(3), out); });
  }

  // All that answer with an error.
  int answer() {
    DeviceHeap &heap = grid_.kernel->program().heap();
    auto plainly = [](int value) {
      return [value](int *out) {
        *out = value;
        return 0;
      };
    };
    switch (code_.builtin->builtin) {
      case Builtin::Launch: {
        uint64_t buffer = word(1);
        if (const int error = prepare(word(0), 2, &buffer)) return error;
        return runtime_.launch(buffer, stream(5));
      }
      case Builtin::LaunchPrepared:
        return runtime_.launch(word(0), stream(1));
      case Builtin::CreateStream:
        return store<uint64_t>(0, [&](uint64_t *out) {
          return runtime_.create_stream(static_cast<unsigned>(integer(1)), out);
        });
      case Builtin::DestroyStream:
        return runtime_.destroy_stream(word(0));
      case Builtin::StreamWait:
        if (integer(2)) return kDeviceInvalidValue;
        return runtime_.wait(stream(0), word(1));
      case Builtin::CreateEvent:
        return store<uint64_t>(0, [&](uint64_t *out) {
          return runtime_.create_event(static_cast<unsigned>(integer(1)), out);
        });
      case Builtin::DestroyEvent:
        return runtime_.destroy_event(word(0));
      case Builtin::RecordEventFlags:
        if (integer(2)) return kDeviceInvalidValue;
        return runtime_.record(word(0), stream(1));
      case Builtin::RecordEvent:
        return runtime_.record(word(0), stream(1));
      case Builtin::Copy:
        if (!on_device(value<uint32_t>(3))) return kDeviceInvalidDirection;
        return runtime_.copy({{word(0)}, {word(1)}, word(2)}, stream(4));
      case Builtin::Copy2D:
        if (!on_device(value<uint32_t>(6))) return kDeviceInvalidDirection;
        return runtime_.copy({{word(0), word(1)}, {word(2), word(3)}, word(4), word(5)}, stream(7));
      case Builtin::Copy3D:
        return copy_3d();
      case Builtin::Set:
        return runtime_.fill({{word(0)}, {}, word(2)}, static_cast<uint8_t>(integer(1)), stream(3));
      case Builtin::Set2D:
        return runtime_.fill({{word(0), word(1)}, {}, word(3), word(4)},
                             static_cast<uint8_t>(integer(2)), stream(5));
      case Builtin::Set3D: {
        const auto to = value<PitchedPointer>(0);
        const auto extent = value<Extent>(2);
        return runtime_.fill({{to.address, to.pitch, to.pitch * to.height},
                              {},
                              extent.width,
                              extent.height,
                              extent.depth},
                             static_cast<uint8_t>(integer(1)), stream(3));
      }
      case Builtin::RuntimeMalloc:
        return store<uint64_t>(0, [&](uint64_t *out) -> int {
          *out = heap.allocate(word(1));
          return *out || !word(1) ? 0 : kDeviceOutOfMemory;
        });
      case Builtin::RuntimeFree:
        return !word(0) || heap.release(word(0)) ? 0 : kDeviceInvalidValue;
      case Builtin::DeviceAttribute:
        return store<int>(
            0, [&](int *out) { return runtime_.attribute(integer(1), integer(2), out); });
      case Builtin::DeviceLimit:
        return store<uint64_t>(0, [&](uint64_t *out) { return runtime_.limit(integer(1), out); });
      case Builtin::CacheConfig:
        return store<int>(0, plainly(runtime_.cache_config()));
      case Builtin::SharedConfig:
        return store<int>(0, plainly(runtime_.shared_config()));
      case Builtin::DeviceCount:
        return store<int>(0, plainly(runtime_.device_count()));
      case Builtin::CurrentDevice:
        return store<int>(0, plainly(runtime_.device()));
      case Builtin::RuntimeVersion:
        return store<int>(0, plainly(runtime_.version()));
      case Builtin::FunctionAttributes:
        return attributes();
      case Builtin::OccupancyFlags:
        if (integer(4) & ~1) return kDeviceInvalidValue;
        return occupancy();
      case Builtin::Occupancy:
        return occupancy();
      default:
        return kDeviceNotSupported;
    }
  }

  int last_error() const {
    const auto &errors = memory_.block().last_errors;
    return errors.empty() ? 0 : errors[memory_.thread()];
  }
  void set_error(int error) {
    auto &errors = memory_.block().last_errors;
    if (errors.empty()) errors.resize(grid_.threads);
    errors[memory_.thread()] = error;
  }

  ThreadMemory &memory_;
  const CallCode &code_;
  const uint8_t *frame_;
  Grid &grid_;
  DeviceRuntime &runtime_;
  bool bad_pointer_ = false;
};

}  // namespace

bool call_device_runtime(ThreadMemory &memory, const CallCode &call, const uint8_t *frame,
                         uint64_t *result) {
  if (!memory.block().grid->launch.runtime) {
    // Where there is a pointer to give, there is none; all else answers with an error.
    *result = call.builtin->result == 4 ? kDeviceNotSupported : 0;
    return true;
  }
  try {
    return Call(memory, call, frame).run(result);
  } catch (const std::bad_alloc &) {
    *result = call.builtin->result == 4 ? kDeviceOutOfMemory : 0;
    return true;
  }
}

}  // namespace softdev
