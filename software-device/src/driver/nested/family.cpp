#include "nested/family.h"

#include <algorithm>

#include "abi_version.h"
#include "core/driver.h"
#include "streams/launch.h"
#include "streams/transfer.h"

namespace softdev::driver {
namespace {

// What stands for a stream.
enum : uint64_t { kDefault = 0, kBlocksOwn = 1, kThreadsOwn = 2, kTail = 3, kFireAndForget = 4 };
enum : uint8_t { kStreamHandle = 0x53, kEventHandle = 0x45 };
constexpr unsigned kNonBlocking = 1;                           // of streams
constexpr unsigned kBlockingSync = 1, kDisableTiming = 2;      // of events
constexpr uint32_t kDeepest = 24;                              // as a GPU's
constexpr uint64_t kMostParameters = limits::kParameterBytes;  // bytes
std::atomic<uint64_t> next_family{1};

End end_of(const DeviceCopy::End &end, const DeviceCopy &copy) {
  // Pitches that are not needed may be anything.
  const uint64_t pitch = copy.height > 1 || copy.depth > 1 ? end.pitch : copy.width;
  return {end.address, pitch, copy.depth > 1 ? end.slice : pitch * copy.height, Side::kDevice};
}

bool is_empty(const DeviceCopy &copy) { return !copy.width || !copy.height || !copy.depth; }

// Whether kernels of the device may touch it all. Once they run, the window stays.
bool is_open(const Space &space, const End &end, const DeviceCopy &copy, uint8_t flag) {
  const uint64_t bytes = (copy.depth - 1) * end.slice + (copy.height - 1) * end.pitch + copy.width;
  const Window *window = space.find(end.address);
  if (!window || bytes > window->size - (end.address - window->base)) return false;
  const uint64_t begin = end.address - window->base;
  for (uint64_t i = begin >> kGranuleShift; i << kGranuleShift < begin + bytes; i++)
    if (!(__atomic_load_n(window->granules + i, __ATOMIC_RELAXED) & flag)) return false;
  return true;
}

// Whether the number of bytes is one.
bool is_sane(const DeviceCopy &copy) {
  const auto all = static_cast<unsigned __int128>(copy.width) * copy.height;
  return all <= UINT64_MAX && all * copy.depth <= UINT64_MAX / 2;
}

}  // namespace

// ---- what comes after a grid

void Succession::lead(std::deque<Work> tails) {
  std::lock_guard guard(mutex_);
  tails_.insert(tails_.begin(), tails.begin(), tails.end());
}

void Succession::next() {
  Work work;
  bool last;
  {
    std::lock_guard guard(mutex_);
    // Nothing runs in a context that has failed.
    if (of_->context()->failed()) {
      of_->context()->pending_launches -= tails_.size();
      tails_.clear();
    }
    last = tails_.empty();
    work = std::move(last ? of_ : tails_.front());
    if (!last) tails_.pop_front();
  }
  if (last)
    work->finish();
  else
    Queue::start(work);
}

// ---- the grid and its children

Family::Family(Work grid, std::shared_ptr<Instance> instance, uint32_t depth,
               std::shared_ptr<Succession> succession)
    : grid_(std::move(grid)),
      context_(grid_->context()),
      instance_(std::move(instance)),
      depth_(depth),
      id_(next_family.fetch_add(1, std::memory_order_relaxed)),
      in_tail_(succession != nullptr),
      succession_(in_tail_ ? std::move(succession) : std::make_shared<Succession>(grid_)) {}

void Family::one_done() {
  if (left_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  // Nobody calls any more.
  for (const auto &[address, buffer] : buffers_)
    instance_->runtime_memory()->give_back(buffer.memory);
  buffers_.clear();
  succession_->lead(std::move(tails_));
  if (in_tail_)
    grid_->finish();  // and then the next in the succession is started
  else
    succession_->next();
}

bool Family::reserve() {
  const uint64_t most = context_->limit(CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT);
  if (context_->pending_launches.fetch_add(1, std::memory_order_relaxed) < most) return true;
  context_->pending_launches.fetch_sub(1, std::memory_order_relaxed);
  return false;
}

void Family::show(const Work &work) const {
  if (!work->span) return;
  work->span->device = context_->device().ordinal;
  work->span->stream = grid_->span ? grid_->span->stream : 0;
}

Work *Family::last_in(const StreamOfThread &stream) {
  Default which{stream.block, 0};
  switch (stream.handle) {
    case kDefault:
      if (stream.own_default) which.second = stream.thread + 1;
      break;
    case kBlocksOwn:
      break;
    case kThreadsOwn:
      which.second = stream.thread + 1;
      break;
    default: {
      auto found = streams_.find(stream.handle);
      return found == streams_.end() ? nullptr : &found->second;
    }
  }
  if (defaults_.size() >= sweep_at_) {
    std::erase_if(defaults_, [](const auto &one) { return !one.second || one.second->done(); });
    sweep_at_ = std::max<size_t>(64, 2 * defaults_.size());
  }
  return &defaults_[which];
}

template <class Make>
int Family::queue(const StreamOfThread &stream, const Work &after, Make make) {
  if (stream.handle == kTail) return queue_tail(make);
  Work work;
  bool ready;
  {
    std::lock_guard guard(mutex_);
    Work none;
    Work *last = stream.handle == kFireAndForget ? &none : last_in(stream);
    if (!last) return kDeviceInvalidHandle;
    if (!reserve()) return kDeviceTooManyPending;
    work = make();
    show(work);
    work->ended = [family = shared_from_this()] {
      family->context_->pending_launches.fetch_sub(1, std::memory_order_relaxed);
      family->one_done();
    };
    left_.fetch_add(1, std::memory_order_relaxed);
    ready = Queue::enqueue(work, *last, after);
    *last = work;
  }
  if (ready) Queue::start(work);
  return kDeviceSuccess;
}

template <class Make>
int Family::queue_tail(Make make) {
  if (!reserve()) return kDeviceTooManyPending;
  Work work = make();
  show(work);
  work->ended = [context = context_, succession = succession_] {
    context->pending_launches.fetch_sub(1, std::memory_order_relaxed);
    succession->next();
  };
  std::lock_guard guard(mutex_);
  tails_.push_back(std::move(work));
  return kDeviceSuccess;
}

// ---- launches

int Family::parameter_buffer(uint64_t align, uint64_t size, uint64_t *buffer) {
  if (size > kMostParameters || align > 256) return kDeviceInvalidValue;
  RuntimeMemory &memory = *instance_->runtime_memory();
  // What the memory gives out is aligned to 16.
  const uint64_t room = align > 16 ? size + align : size;
  const uint64_t address = memory.take(room);
  if (!address) return kDeviceTooManyPending;
  const uint64_t aligned = align > 16 ? round_up(address, align) : address;
  std::lock_guard guard(mutex_);
  buffers_[aligned] = {address, size, nullptr};
  *buffer = aligned;
  return kDeviceSuccess;
}

CUresult Family::translate(Kernel &kernel) {
  if (kernel.translate().ok()) return CUDA_SUCCESS;
  return instance_->first_refusal(kernel) ? driver::prepare(kernel) : CUDA_ERROR_NOT_SUPPORTED;
}

int Family::prepare(Kernel *kernel, const LaunchShape &shape, uint64_t *buffer) {
  static const auto settings = std::make_shared<FunctionSettings>();
  LaunchRequest request;
  request.grid = {shape.grid[0], shape.grid[1], shape.grid[2]};
  request.block = {shape.block[0], shape.block[1], shape.block[2]};
  request.dynamic_shared = shape.dynamic_shared;
  if (check_shape(request)) return kDeviceInvalidConfiguration;
  if (CUresult bad = translate(*kernel)) return bad;
  std::shared_ptr<KernelTask> task;
  if (CUresult bad = make_kernel({instance_, kernel, settings}, request, &task)) return bad;
  task->prepared.depth = depth_ + 1;
  if (!*buffer)
    if (const int error = parameter_buffer(16, kernel->parameter_bytes(), buffer)) return error;
  std::lock_guard guard(mutex_);
  auto found = buffers_.find(*buffer);
  if (found == buffers_.end() || found->second.bytes < kernel->parameter_bytes())
    return kDeviceInvalidValue;
  found->second.task = std::move(task);
  return kDeviceSuccess;
}

int Family::launch(uint64_t buffer, const StreamOfThread &stream) {
  std::shared_ptr<KernelTask> task;
  {
    std::lock_guard guard(mutex_);
    auto found = buffers_.find(buffer);
    if (found == buffers_.end() || !found->second.task) return kDeviceInvalidValue;
    task = std::move(found->second.task);
    const auto *from = reinterpret_cast<const uint8_t *>(buffer);
    task->prepared.parameters.assign(from, from + task->prepared.kernel->parameter_bytes());
    instance_->runtime_memory()->give_back(found->second.memory);
    buffers_.erase(found);
  }
  if (stream.handle == kTail) {
    task->succession = succession_;
    task->prepared.depth = depth_;  // it takes this grid's place
  } else if (depth_ >= kDeepest) {
    return kDeviceTooDeep;
  }
  return queue(stream, nullptr, [&] { return task->operation(Task::Uses::kOnce); });
}

// ---- streams and events

// Of no other grid: a handle that is passed on names nothing there.
uint64_t Family::handle(uint8_t kind) {
  return uint64_t{kind} << 56 | (id_ & 0xffffff) << 32 | next_handle_++;
}

int Family::create_stream(unsigned flags, uint64_t *stream) {
  if (flags != kNonBlocking) return kDeviceInvalidValue;
  const uint64_t most = 2 * context_->limit(CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT);
  std::lock_guard guard(mutex_);
  if (streams_.size() >= most) return kDeviceOutOfMemory;
  *stream = handle(kStreamHandle);
  streams_[*stream];
  return kDeviceSuccess;
}

int Family::destroy_stream(uint64_t stream) {
  std::lock_guard guard(mutex_);
  return streams_.erase(stream) ? kDeviceSuccess : kDeviceInvalidHandle;
}

int Family::create_event(unsigned flags, uint64_t *event) {
  if (!(flags & kDisableTiming) || flags & ~(kDisableTiming | kBlockingSync))
    return kDeviceInvalidValue;
  const uint64_t most = 2 * context_->limit(CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT);
  std::lock_guard guard(mutex_);
  if (events_.size() >= most) return kDeviceOutOfMemory;
  *event = handle(kEventHandle);
  events_[*event];
  return kDeviceSuccess;
}

int Family::destroy_event(uint64_t event) {
  std::lock_guard guard(mutex_);
  return events_.erase(event) ? kDeviceSuccess : kDeviceInvalidHandle;
}

int Family::record(uint64_t event, const StreamOfThread &stream) {
  if (stream.handle == kTail || stream.handle == kFireAndForget) return kDeviceInvalidValue;
  std::lock_guard guard(mutex_);
  Work *last = last_in(stream);
  auto found = events_.find(event);
  if (!last || found == events_.end()) return kDeviceInvalidHandle;
  found->second = *last;
  return kDeviceSuccess;
}

int Family::wait(const StreamOfThread &stream, uint64_t event) {
  if (stream.handle == kTail || stream.handle == kFireAndForget) return kDeviceInvalidValue;
  Work before;
  {
    std::lock_guard guard(mutex_);
    Work *last = last_in(stream);
    auto found = events_.find(event);
    if (!last || found == events_.end()) return kDeviceInvalidHandle;
    before = found->second;
    if (!before || before->done() || before == *last) return kDeviceSuccess;
    if (!*last || (*last)->done()) {
      *last = before;
      return kDeviceSuccess;
    }
  }
  return queue(stream, before,
               [&] { return std::make_shared<Operation>(context_, Where::kInline); });
}

// ---- copies

int Family::copy(const DeviceCopy &copy, const StreamOfThread &stream) {
  if (is_empty(copy)) return kDeviceSuccess;
  if (!is_sane(copy)) return kDeviceInvalidValue;
  const End to = end_of(copy.to, copy), from = end_of(copy.from, copy);
  std::shared_ptr<CopyTask> task;
  if (CUresult bad = make_copy(context_, to, from, {copy.width, copy.height, copy.depth}, &task))
    return bad;
  const Space &space = driver()->memory.space(device());
  if (!is_open(space, to, copy, kWritable) || !is_open(space, from, copy, kReadable))
    return kDeviceInvalidValue;
  return queue_transfer(*task, stream);
}

int Family::fill(const DeviceCopy &copy, uint8_t value, const StreamOfThread &stream) {
  if (is_empty(copy)) return kDeviceSuccess;
  if (!is_sane(copy)) return kDeviceInvalidValue;
  const End to = end_of(copy.to, copy);
  std::shared_ptr<FillTask> task;
  if (CUresult bad =
          make_fill(context_, to, {copy.width, copy.height, copy.depth}, value, 1, &task))
    return bad;
  if (!is_open(driver()->memory.space(device()), to, copy, kWritable)) return kDeviceInvalidValue;
  return queue_transfer(*task, stream);
}

int Family::queue_transfer(Task &task, const StreamOfThread &stream) {
  Memory::Pin pin = driver()->memory.pin();
  if (!task.reachable()) return kDeviceInvalidValue;
  Work work = task.operation(Task::Uses::kOnce);
  pin.unlock();
  return queue(stream, nullptr, [&] { return work; });
}

// ---- questions

int Family::attribute(int which, int device, int *value) {
  Device *asked = driver()->device(device);
  if (!asked) return kDeviceInvalidDevice;
  return asked->attribute(static_cast<CUdevice_attribute>(which), value) ? kDeviceSuccess
                                                                         : kDeviceInvalidValue;
}

int Family::limit(int which, uint64_t *value) {
  const auto limit = static_cast<CUlimit>(which);
  if (!default_limit(limit)) return kDeviceUnsupportedLimit;
  *value = context_->limit(limit);
  return kDeviceSuccess;
}

int Family::cache_config() { return context_->cache_config; }
int Family::shared_config() { return context_->shared_config; }
int Family::device_count() { return static_cast<int>(driver()->devices.size()); }
int Family::device() { return context_->device().ordinal; }
int Family::version() { return driver_version(); }

int Family::function_attributes(Kernel *kernel, DeviceFunctionAttributes *out) {
  if (CUresult bad = translate(*kernel)) return bad;
  const KernelAttributes &is = kernel->attributes();
  const Device &on = context_->device();
  out->static_shared = is.static_shared;
  out->local_bytes = is.local_bytes;
  out->max_threads = static_cast<int>(is.max_threads);
  out->registers = static_cast<int>(is.registers);
  out->ptx_version = is.ptx_version;
  out->binary_version = on.compute_major * 10 + on.compute_minor;
  out->max_dynamic_shared = dynamic_shared_limit(is, FunctionSettings());
  out->carveout = -1;
  out->cluster_must_be_set = is.cluster_must_be_set;
  for (int i = 0; i < 3; i++) out->cluster[i] = static_cast<int>(is.required_cluster[i]);
  return kDeviceSuccess;
}

int Family::occupancy(Kernel *kernel, int block_threads, uint64_t dynamic_shared, int *blocks) {
  if (block_threads <= 0) return kDeviceInvalidValue;
  if (CUresult bad = translate(*kernel)) return bad;
  *blocks = blocks_per_multiprocessor(context_->device(), kernel->attributes(), block_threads,
                                      dynamic_shared);
  return kDeviceSuccess;
}

uint64_t Family::error_name(int error) { return instance_->runtime_memory()->error_name(error); }
uint64_t Family::error_sentence(int error) {
  return instance_->runtime_memory()->error_sentence(error);
}

}  // namespace softdev::driver
