// A grid that uses the device runtime, and what it launches. It is done when all of that is done.
//
// Its children are operations as any; only what they come after is found here: each stream of the
// grid is its last operation, an event is the one that it was recorded behind. Grids in the tail
// stream wait until the grid and all its other children are done, and follow one another; what a
// grid of the tail puts in its own tail comes next.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "device_runtime.h"
#include "modules/module.h"
#include "streams/operation.h"
#include "streams/task.h"

namespace softdev::driver {

class KernelTask;

// What is in the tail of a grid, and in the tails of that.
class Succession {
 public:
  explicit Succession(Work of) : of_(std::move(of)) {}
  // Puts these before all others.
  void lead(std::deque<Work> tails);
  // Starts the next one, or ends the grid.
  void next();

 private:
  std::mutex mutex_;
  std::deque<Work> tails_;
  Work of_;
};

class Family final : public DeviceRuntime, public std::enable_shared_from_this<Family> {
 public:
  // `grid` is its operation; `succession` that in whose tail it is, or empty.
  Family(Work grid, std::shared_ptr<Instance> instance, uint32_t depth,
         std::shared_ptr<Succession> succession);

  // Its own blocks are done.
  void end_of_grid() { one_done(); }

  int parameter_buffer(uint64_t align, uint64_t size, uint64_t *buffer) override;
  int prepare(Kernel *kernel, const LaunchShape &shape, uint64_t *buffer) override;
  int launch(uint64_t buffer, const StreamOfThread &stream) override;
  int create_stream(unsigned flags, uint64_t *stream) override;
  int destroy_stream(uint64_t stream) override;
  int create_event(unsigned flags, uint64_t *event) override;
  int destroy_event(uint64_t event) override;
  int record(uint64_t event, const StreamOfThread &stream) override;
  int wait(const StreamOfThread &stream, uint64_t event) override;
  int copy(const DeviceCopy &copy, const StreamOfThread &stream) override;
  int fill(const DeviceCopy &copy, uint8_t value, const StreamOfThread &stream) override;
  int attribute(int which, int device, int *value) override;
  int limit(int which, uint64_t *value) override;
  int cache_config() override;
  int shared_config() override;
  int device_count() override;
  int device() override;
  int version() override;
  int function_attributes(Kernel *kernel, DeviceFunctionAttributes *attributes) override;
  int occupancy(Kernel *kernel, int block_threads, uint64_t dynamic_shared, int *blocks) override;
  uint64_t error_name(int error) override;
  uint64_t error_sentence(int error) override;

 private:
  // Memory for the parameters of a launch, and the launch when it is known.
  struct Buffer {
    uint64_t memory = 0;  // what was taken
    uint64_t bytes = 0;
    std::shared_ptr<KernelTask> task;
  };
  // The default stream of a block, or with the number of a thread, plus one, that of a thread.
  using Default = std::pair<uint64_t, uint32_t>;

  void one_done();
  // Counts one more piece of work that is not done. False when there are too many.
  bool reserve();
  // The last operation of a stream, with the mutex held; nullptr when there is no such stream.
  Work *last_in(const StreamOfThread &stream);
  // Counts `make`'s work and queues it behind what its stream must wait for, and `after`.
  template <class Make>
  int queue(const StreamOfThread &stream, const Work &after, Make make);
  template <class Make>
  int queue_tail(Make make);
  int queue_transfer(Task &task, const StreamOfThread &stream);
  void show(const Work &work) const;
  // CUDA_SUCCESS when the kernel can run.
  CUresult translate(Kernel &kernel);
  uint64_t handle(uint8_t kind);

  const Work grid_;
  const std::shared_ptr<Context> context_;
  const std::shared_ptr<Instance> instance_;
  const uint32_t depth_;
  const uint64_t id_;
  const bool in_tail_;
  const std::shared_ptr<Succession> succession_;

  std::atomic<uint64_t> left_{1};  // the grid itself, and children that are not done

  std::mutex mutex_;
  std::unordered_map<uint64_t, Buffer> buffers_;
  std::map<Default, Work> defaults_;
  size_t sweep_at_ = 64;  // so many default streams: those with nothing to do are forgotten
  std::unordered_map<uint64_t, Work> streams_, events_;
  std::deque<Work> tails_;
  uint32_t next_handle_ = 1;
};

}  // namespace softdev::driver
