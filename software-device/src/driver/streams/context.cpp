#include "streams/context.h"

#include <pthread.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "abi_storage.h"
#include "core/driver.h"
#include "graphs/capture.h"
#include "textures/image_object.h"

namespace softdev::driver {
namespace {

std::atomic<uint64_t> next_context_id{1};

// Has `end_thread` called for the calling thread. A key of pthreads, as its destructor also runs
// for what is used by destructors before it, and then again.
void watch_thread() {
  static const pthread_key_t key = [] {
    pthread_key_t fresh = 0;
    pthread_key_create(&fresh, [](void *thread) {
      Driver *all = driver();
      if (!all) return;
      for (const auto &device : all->devices)
        for (const auto &context : device->contexts())
          context->end_thread(reinterpret_cast<uint64_t>(thread));
    });
    return fresh;
  }();
  pthread_setspecific(key, reinterpret_cast<void *>(thread_number()));
}

}  // namespace

Context::Context(Device *on, bool as_primary, unsigned with_flags)
    : flags(with_flags), hidden(*on), device_(on), primary_(as_primary), id_(next_context_id++) {}

bool Context::activate() {
  if (!hidden.begin(limit(CU_LIMIT_STACK_SIZE))) return false;
  driver()->memory.begin_context(device_->ordinal, driver()->settings.place);
  std::lock_guard guard(streams_mutex_);
  if (!legacy_)
    legacy_ =
        std::make_shared<Stream>(shared_from_this(), Stream::Role::kLegacy, CU_STREAM_DEFAULT, 0);
  active_.store(true, std::memory_order_release);
  return true;
}

void Context::fail(CUresult result) {
  int none = CUDA_SUCCESS;
  error_.compare_exchange_strong(none, result, std::memory_order_acq_rel);
}

std::shared_ptr<Stream> Context::per_thread_stream() {
  watch_thread();
  std::lock_guard guard(streams_mutex_);
  std::shared_ptr<Stream> &stream = per_thread_[thread_number()];
  if (!stream) {
    stream = std::make_shared<Stream>(shared_from_this(), Stream::Role::kPerThread,
                                      CU_STREAM_DEFAULT, 0);
    streams_.push_back(stream);
  }
  return stream;
}

void Context::end_thread(uint64_t thread) {
  std::shared_ptr<Stream> stream;
  {
    std::lock_guard guard(streams_mutex_);
    auto found = per_thread_.find(thread);
    if (found == per_thread_.end()) return;
    stream = std::move(found->second);
    per_thread_.erase(found);
  }
  forget_stream(stream);
}

std::shared_ptr<Stream> Context::create_stream(unsigned with_flags, int priority) {
  auto stream =
      std::make_shared<Stream>(shared_from_this(), Stream::Role::kCreated, with_flags, priority);
  std::lock_guard guard(streams_mutex_);
  streams_.push_back(stream);
  return stream;
}

void Context::forget_stream(const std::shared_ptr<Stream> &stream) {
  stream->destroyed = true;
  std::vector<std::shared_ptr<Stream>> ended;
  for (const auto &candidate : all_streams())
    if (candidate->destroyed && !Queue::tail(*candidate)) ended.push_back(candidate);
  std::lock_guard guard(streams_mutex_);
  std::erase_if(streams_, [&](const auto &candidate) {
    return std::find(ended.begin(), ended.end(), candidate) != ended.end();
  });
}

std::vector<std::shared_ptr<Stream>> Context::all_streams() const {
  std::lock_guard guard(streams_mutex_);
  std::vector<std::shared_ptr<Stream>> all = streams_;
  if (legacy_) all.push_back(legacy_);
  return all;
}

void Context::drain() {
  for (const auto &stream : all_streams())
    if (Work last = Queue::tail(*stream)) last->wait(waiting());
}

Waiting Context::waiting() const {
  if (!driver() || !driver()->settings.traits.spinning) return Waiting::kAsleep;
  const unsigned scheduling = flags & CU_CTX_SCHED_MASK;
  if (scheduling & CU_CTX_SCHED_BLOCKING_SYNC) return Waiting::kAsleep;
  return scheduling & CU_CTX_SCHED_YIELD ? Waiting::kYielding : Waiting::kAwake;
}

bool Context::idle() const {
  for (const auto &stream : all_streams())
    if (Queue::tail(*stream)) return false;
  return true;
}

void Context::own(uint64_t owned) {
  std::lock_guard guard(owned_mutex_);
  owned_.push_back(owned);
}

void Context::disown(uint64_t owned) {
  std::lock_guard guard(owned_mutex_);
  auto found = std::find(owned_.begin(), owned_.end(), owned);
  if (found == owned_.end()) return;
  *found = owned_.back();
  owned_.pop_back();
}

void Context::tear_down() {
  active_.store(false, std::memory_order_release);
  for (const auto &stream : all_streams()) abandon_capture(*stream);
  drain();
  flush_prints();
  close_peers();
  abi_storage_drop(reinterpret_cast<CUcontext>(handle()));
  Driver &all = *driver();
  std::vector<uint64_t> owned;
  {
    std::lock_guard guard(owned_mutex_);
    owned.swap(owned_);
  }
  for (uint64_t handle : owned) {
    all.handles.remove<Event>(handle);
    all.handles.remove<Stream>(handle);
    release_module(handle);
    release_image(handle);
  }
  {
    std::lock_guard guard(streams_mutex_);
    streams_.clear();
    per_thread_.clear();
  }
  for (uint64_t base : all.memory.owned_by(handle()))
    if (auto region = all.memory.remove(base, [](const Region &) { return true; }))
      all.memory.destroy(std::move(region), [] {});
  error_.store(CUDA_SUCCESS, std::memory_order_release);
  cache_config = 0;
  shared_config = 0;
  heap_in_use = false;
  printing_ = false;
  prints_.set_size(PrintBuffer::kDefault);
  hidden.end();
  std::lock_guard guard(limits_mutex);
  limits.clear();
}

bool Context::open_peer(const Context &peer) {
  std::lock_guard guard(peers_mutex_);
  if (!peers_.emplace(peer.handle(), peer.device().ordinal).second) return false;
  device_->open_peer(peer.device().ordinal);
  return true;
}

bool Context::close_peer(uint64_t peer) {
  {
    std::lock_guard guard(peers_mutex_);
    if (!peers_.contains(peer)) return false;
  }
  drain();  // what runs may use it to its end
  std::lock_guard guard(peers_mutex_);
  auto found = peers_.find(peer);
  if (found == peers_.end()) return false;
  device_->close_peer(found->second);
  peers_.erase(found);
  return true;
}

void Context::close_peers() {
  std::lock_guard guard(peers_mutex_);
  for (auto [peer, device] : peers_) device_->close_peer(device);
  peers_.clear();
}

size_t default_limit(CUlimit limit) {
  switch (limit) {
    case CU_LIMIT_STACK_SIZE:
      return 1024;
    case CU_LIMIT_PRINTF_FIFO_SIZE:
      return PrintBuffer::kDefault;
    case CU_LIMIT_MALLOC_HEAP_SIZE:
      return 8 << 20;
    case CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH:
      return 2;
    case CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT:
      return 2048;
    case CU_LIMIT_MAX_L2_FETCH_GRANULARITY:
      return 64;
    default:
      return 0;
  }
}

size_t Context::limit(CUlimit which) {
  std::lock_guard guard(limits_mutex);
  auto set = limits.find(which);
  return set == limits.end() ? default_limit(which) : set->second;
}

bool Context::set_print_buffer(size_t size) {
  if (printing_.load(std::memory_order_relaxed)) return false;
  prints_.set_size(size);
  return true;
}

// ---------------------------------------------------------------------------------------------

namespace {

constexpr int kNear = 8;
struct Stack {
  uint64_t near[kNear];
  uint64_t *far;  // what does not fit
  int depth, far_room;
};
thread_local Stack stack;

uint64_t &at(int index) { return index < kNear ? stack.near[index] : stack.far[index - kNear]; }

std::atomic<uint64_t> next_thread_number{1};
thread_local uint64_t this_thread_number;

}  // namespace

uint64_t ContextStack::top() { return stack.depth ? at(stack.depth - 1) : 0; }

void ContextStack::set_top(uint64_t context) {
  if (!context) {
    pop();
  } else if (stack.depth) {
    at(stack.depth - 1) = context;
  } else {
    push(context);
  }
}

bool ContextStack::push(uint64_t context) {
  if (stack.depth - kNear >= stack.far_room) {
    int room = stack.far_room * 2 + 16;
    void *more = realloc(stack.far, static_cast<size_t>(room) * sizeof(uint64_t));
    if (!more) return false;
    stack.far = static_cast<uint64_t *>(more);
    stack.far_room = room;
  }
  at(stack.depth++) = context;
  return true;
}

uint64_t ContextStack::pop() { return stack.depth ? at(--stack.depth) : 0; }

uint64_t thread_number() {
  if (!this_thread_number) this_thread_number = next_thread_number++;
  return this_thread_number;
}

}  // namespace softdev::driver
