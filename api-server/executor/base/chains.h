// Jobs that end in the order in which they began, each chain of them on one thread: downloads of a
// stream. A program may have thousands of those under way, but not as many threads.
//
// Lock: mutex_, innermost; no job runs with it held.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <mutex>

namespace outboard {

class Chains {
 public:
  // Adds a job to the chain of `key`. True when a thread is at that chain and will come to it;
  // otherwise the caller is to run the chain.
  bool join(const void *key, std::function<void()> job) {
    std::lock_guard lock(mutex_);
    auto [chain, fresh] = chains_.try_emplace(key);
    chain->second.push_back(std::move(job));
    return !fresh;
  }

  void run(const void *key) {
    std::unique_lock lock(mutex_);
    for (auto chain = chains_.find(key); !chain->second.empty(); lock.lock()) {
      std::function<void()> job = std::move(chain->second.front());
      chain->second.pop_front();
      lock.unlock();
      job();
    }
    chains_.erase(key);
  }

 private:
  std::mutex mutex_;
  std::map<const void *, std::deque<std::function<void()>>> chains_;
};

}  // namespace outboard
