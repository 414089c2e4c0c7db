#include "session/thread_pool.h"

#include <pthread.h>

#include <system_error>

namespace outboard {

namespace {

thread_local bool this_thread_leads = false;

}  // namespace

ThreadPool::ThreadPool(std::function<void()> bind, std::function<void()> lead)
    : bind_(std::move(bind)), lead_(std::move(lead)) {}

ThreadPool::~ThreadPool() { join(); }

bool ThreadPool::leads() { return this_thread_leads; }

void ThreadPool::start() {
  std::lock_guard lock(mutex_);
  threads_.emplace_back([this] { work(); });
}

void ThreadPool::work() {
  pthread_setname_np(pthread_self(), "outboard-pool");
  bind_();
  std::unique_lock lock(mutex_);
  for (;;) {
    if (!led_ && !dismissed_) {
      led_ = true;
      lock.unlock();
      this_thread_leads = true;
      lead_();
      if (this_thread_leads) return;  // the session is over
      lock.lock();
      --busy_;  // since it handed over
      alone_.notify_all();
    } else if (!jobs_.empty()) {
      const std::function<void()> job = std::move(jobs_.front());
      jobs_.pop_front();
      ++busy_;
      lock.unlock();
      job();
      lock.lock();
      --busy_;
      alone_.notify_all();
    } else if (dismissed_) {
      return;
    } else {
      ++parked_;
      wake_.wait(lock, [this] { return offered_ > 0 || dismissed_; });
      --parked_;
      if (offered_ > 0) --offered_;
    }
  }
}

// There is work for one thread more. Those on their way to it may find it taken by one that has
// just become free; then they park again.
bool ThreadPool::wake_or_add(size_t most) {
  if (parked_ > offered_) {
    ++offered_;
    wake_.notify_one();
    return true;
  }
  if (threads_.size() >= most) return false;
  try {
    threads_.emplace_back([this] { work(); });
  } catch (const std::system_error &) {
    return false;
  }
  return true;
}

bool ThreadPool::hand_over() {
  std::lock_guard lock(mutex_);
  if (dismissed_ || !this_thread_leads) return false;
  led_ = false;
  if (!wake_or_add(kMost)) {
    led_ = true;
    return false;
  }
  ++busy_;
  this_thread_leads = false;
  return true;
}

void ThreadPool::run(std::function<void()> job) {
  std::lock_guard lock(mutex_);
  jobs_.push_back(std::move(job));
  wake_or_add(kMostForJobs);
}

void ThreadPool::wait_alone() {
  std::unique_lock lock(mutex_);
  alone_.wait(lock, [this] { return busy_ == 0 && jobs_.empty(); });
}

bool ThreadPool::wait_alone(std::chrono::steady_clock::time_point until) {
  std::unique_lock lock(mutex_);
  return alone_.wait_until(lock, until, [this] { return busy_ == 0 && jobs_.empty(); });
}

void ThreadPool::dismiss() {
  {
    std::lock_guard lock(mutex_);
    dismissed_ = true;
  }
  wake_.notify_all();
}

void ThreadPool::join() {
  for (std::thread &thread : threads_) thread.join();
  threads_.clear();
}

void ThreadPool::abandon() {
  std::lock_guard lock(mutex_);
  for (std::thread &thread : threads_) thread.detach();
  threads_.clear();
}

}  // namespace outboard
