#include "streams/helpers.h"

#include <pthread.h>

#include <system_error>
#include <thread>

#include "abi_signals.h"

namespace softdev::driver {
SignalsBlocked::SignalsBlocked() { abi_signals_block(&before_); }
SignalsBlocked::~SignalsBlocked() { abi_signals_restore(&before_); }

bool start_thread(std::function<void()> body) {
  try {
    SignalsBlocked blocked;
    std::thread(std::move(body)).detach();
    return true;
  } catch (const std::system_error &) {
    return false;
  }
}

bool Helpers::post(std::function<void()> work) {
  std::lock_guard guard(mutex_);
  if (idle_ <= queue_.size() && threads_ < most_threads_) {
    if (start_thread([this] { serve(); }))
      threads_++;
    else if (threads_ == 0)
      return false;
  }
  queue_.push_back(std::move(work));
  arrived_.notify_one();
  return true;
}

void Helpers::serve() {
  pthread_setname_np(pthread_self(), "softdev-helper");
  std::unique_lock guard(mutex_);
  for (;;) {
    idle_++;
    arrived_.wait(guard, [this] { return !queue_.empty(); });
    idle_--;
    std::function<void()> work = std::move(queue_.front());
    queue_.pop_front();
    guard.unlock();
    work();
    work = nullptr;
    guard.lock();
  }
}

}  // namespace softdev::driver
