#include "streams/watcher.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "streams/context.h"
#include "streams/helpers.h"

namespace softdev::driver {
namespace {

// What comes soon is seen at once, and what takes long costs nothing.
constexpr int kEager = 200;
constexpr auto kShortest = std::chrono::microseconds(20), kLongest = std::chrono::microseconds(500);

}  // namespace

bool Watcher::over(const Watched &watched) {
  return watched.happened() || watched.operation->context()->failed();
}

void Watcher::watch(Work operation, std::function<bool()> happened) {
  Watched watched{std::move(operation), std::move(happened)};
  {
    std::lock_guard guard(mutex_);
    if (!serving_) serving_ = start_thread([this] { serve(); });
    if (serving_) {
      added_.push_back(std::move(watched));
      arrived_.notify_one();
      return;
    }
  }
  while (!over(watched)) std::this_thread::sleep_for(kLongest);
  watched.operation->finish();
}

void Watcher::serve() {
  std::vector<Watched> all;
  int rounds = 0;
  auto pause = kShortest;
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      if (all.empty()) arrived_.wait(lock, [this] { return !added_.empty(); });
      if (!added_.empty()) rounds = 0;
      for (Watched &watched : added_) all.push_back(std::move(watched));
      added_.clear();
    }
    std::vector<Work> ended;
    std::erase_if(all, [&](Watched &watched) {
      if (!over(watched)) return false;
      ended.push_back(std::move(watched.operation));
      return true;
    });
    for (Work &operation : ended) operation->finish();
    if (!ended.empty() || rounds == 0) pause = kShortest;
    if (!ended.empty()) rounds = 0;
    if (all.empty()) continue;
    if (++rounds < kEager) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(pause);
      pause = std::min(pause * 2, kLongest);
    }
  }
}

}  // namespace softdev::driver
