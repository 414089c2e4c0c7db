#include "session/stream_marks.h"

#include <pthread.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <system_error>

#include "base/waiting.h"

namespace outboard {

namespace {

// How long the thread waits before it asks again: the longer, the longer nothing was passed, and so
// long that asking takes a twentieth of its time at most, however many marks a guest puts.
constexpr std::chrono::nanoseconds kSoonest{100'000}, kLatest{10'000'000};
constexpr int kPartOfTime = 20;

// Of the processor, by the calling thread.
std::chrono::nanoseconds time_used() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

}  // namespace

size_t StreamMarks::count() {
  std::lock_guard lock(mutex_);
  return marks_.size();
}

CUresult StreamMarks::put(CUstream stream, uint64_t handle, uint64_t place) {
  CUevent event = nullptr;
  {
    std::lock_guard lock(mutex_);
    if (!events_.empty()) {
      event = events_.back();
      events_.pop_back();
    }
  }
  CUresult result = event ? CUDA_SUCCESS : driver_.cuEventCreate(&event, kWaitEvent);
  if (result == CUDA_SUCCESS) result = driver_.cuEventRecord(event, stream);
  if (result == CUDA_SUCCESS && !thread_.joinable()) {
    try {
      thread_ = std::thread([this] { watch(); });
    } catch (const std::system_error &) {
      result = CUDA_ERROR_OUT_OF_MEMORY;
    }
  }
  if (result != CUDA_SUCCESS) {
    if (event) driver_.cuEventDestroy_v2(event);
    passed_(handle, place);
    return result;
  }
  {
    std::lock_guard lock(mutex_);
    marks_.push_back({event, handle, place});
  }
  changed_.notify_all();
  return CUDA_SUCCESS;
}

void StreamMarks::watch() {
  pthread_setname_np(pthread_self(), "outboard-marks");
  bind_();
  auto pause = kSoonest;
  std::vector<Mark> passed;
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return over_ || !marks_.empty(); });
    if (over_) return;
    const auto before = time_used();
    const std::vector<Mark> all = marks_;
    lock.unlock();
    find_passed(all, &passed);
    const auto least = (time_used() - before) * kPartOfTime;
    for (const Mark &mark : passed) passed_(mark.stream, mark.place);
    lock.lock();
    // Both are in the order in which the marks were put.
    auto next = passed.begin();
    std::erase_if(marks_, [&](const Mark &mark) {
      return next != passed.end() && next->event == mark.event && (++next, true);
    });
    for (const Mark &mark : passed) events_.push_back(mark.event);
    pause = passed.empty() ? std::min(pause * 2, kLatest) : kSoonest;
    if (!marks_.empty()) changed_.wait_for(lock, std::max(pause, least), [this] { return over_; });
  }
}

// A mark is behind those that its stream has before it: once one is not passed, the stream's others
// are not asked for.
void StreamMarks::find_passed(const std::vector<Mark> &marks, std::vector<Mark> *passed) const {
  passed->clear();
  std::set<uint64_t> waiting;
  for (const Mark &mark : marks) {
    if (waiting.contains(mark.stream)) continue;
    // One of a stream that has failed is passed, too.
    if (driver_.cuEventQuery(mark.event) == CUDA_ERROR_NOT_READY)
      waiting.insert(mark.stream);
    else
      passed->push_back(mark);
  }
}

void StreamMarks::end() {
  {
    std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  for (const Mark &mark : marks_) {
    passed_(mark.stream, mark.place);
    driver_.cuEventDestroy_v2(mark.event);
  }
  for (CUevent event : events_) driver_.cuEventDestroy_v2(event);
  marks_.clear();
  events_.clear();
  over_ = false;
}

}  // namespace outboard
