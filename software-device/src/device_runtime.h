// What a grid may ask of the device's system while it runs, CUDA's device runtime: launches of
// other grids, streams and events for them, copies. The engine finds out which function a kernel
// calls, with what; the driver does it.
#pragma once

#include <cstdint>

namespace softdev {

class Kernel;

// Results are values of cudaError_t.
enum DeviceError : int {
  kDeviceSuccess = 0,
  kDeviceInvalidValue = 1,
  kDeviceOutOfMemory = 2,
  kDeviceInvalidConfiguration = 9,
  kDeviceInvalidDirection = 21,
  kDeviceTooDeep = 65,
  kDeviceTooManyPending = 69,
  kDeviceInvalidFunction = 98,
  kDeviceInvalidDevice = 101,
  kDeviceUnsupportedLimit = 215,
  kDeviceInvalidHandle = 400,
  kDeviceNotSupported = 801,
};

struct LaunchShape {
  uint32_t grid[3] = {1, 1, 1}, block[3] = {1, 1, 1};
  uint32_t dynamic_shared = 0;
};

// Which stream a thread names. Stream 0 is one of its block, or, for code that is compiled so, of
// the thread.
struct StreamOfThread {
  uint64_t handle = 0;
  bool own_default = false;  // 0 is the thread's own
  uint64_t block = 0;
  uint32_t thread = 0;
};

struct DeviceCopy {
  struct End {
    uint64_t address = 0, pitch = 0, slice = 0;
  } to, from;
  uint64_t width = 0, height = 1, depth = 1;
};

struct DeviceFunctionAttributes {
  uint64_t static_shared = 0, constants = 0, local_bytes = 0;
  int max_threads = 0, registers = 0, ptx_version = 0, binary_version = 0, cached = 0;
  int max_dynamic_shared = 0, carveout = 0, cluster_must_be_set = 0;
  int cluster[3] = {0, 0, 0};
  int cluster_policy = 0, non_portable_cluster = 0;
};

// Of one grid. Called by the threads that execute it, several at once.
class DeviceRuntime {
 public:
  virtual ~DeviceRuntime() = default;

  // Memory that the grid writes the parameters of a launch to. It is taken back by that launch, or
  // when the grid ends.
  virtual int parameter_buffer(uint64_t align, uint64_t size, uint64_t *buffer) = 0;
  // Checks a launch and keeps it with its buffer; a buffer of 0 becomes one of the right size.
  virtual int prepare(Kernel *kernel, const LaunchShape &shape, uint64_t *buffer) = 0;
  // Launches what was prepared with this buffer, with the parameters that are in it now.
  virtual int launch(uint64_t buffer, const StreamOfThread &stream) = 0;

  virtual int create_stream(unsigned flags, uint64_t *stream) = 0;
  virtual int destroy_stream(uint64_t stream) = 0;
  virtual int create_event(unsigned flags, uint64_t *event) = 0;
  virtual int destroy_event(uint64_t event) = 0;
  virtual int record(uint64_t event, const StreamOfThread &stream) = 0;
  virtual int wait(const StreamOfThread &stream, uint64_t event) = 0;

  virtual int copy(const DeviceCopy &copy, const StreamOfThread &stream) = 0;
  // Of bytes; only the destination of `copy` counts.
  virtual int fill(const DeviceCopy &copy, uint8_t value, const StreamOfThread &stream) = 0;

  virtual int attribute(int which, int device, int *value) = 0;
  virtual int limit(int which, uint64_t *value) = 0;
  virtual int cache_config() = 0;
  virtual int shared_config() = 0;
  virtual int device_count() = 0;
  virtual int device() = 0;
  virtual int version() = 0;
  virtual int function_attributes(Kernel *kernel, DeviceFunctionAttributes *attributes) = 0;
  virtual int occupancy(Kernel *kernel, int block_threads, uint64_t dynamic_shared,
                        int *blocks) = 0;
  // Where the grid reads the name of an error, or what it means.
  virtual uint64_t error_name(int error) = 0;
  virtual uint64_t error_sentence(int error) = 0;
};

}  // namespace softdev
