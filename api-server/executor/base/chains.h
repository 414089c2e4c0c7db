// Chains of jobs. The jobs of a chain run one after the other on one thread, as the downloads of a
// stream do: a program may have thousands of those under way, but not as many threads.
//
// Any thread. Lock: mutex_, innermost; no job runs with it held.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <mutex>

namespace outboard {

class Chains {
 public:
  // Adds a job to the chain of `key`. True when a thread runs that chain and will come to the job;
  // otherwise the caller has to call `run`.
  bool join(const void *key, std::function<void()> job) {
    std::lock_guard lock(mutex_);
    auto [chain, fresh] = chains_.try_emplace(key);
    chain->second.push_back(std::move(job));
    return !fresh;
  }

  // Runs the jobs of a chain until there are none. For the thread that `join` has returned false
  // to.
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
