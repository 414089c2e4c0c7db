#include "streams/disorder.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <thread>

#include "streams/helpers.h"

namespace softdev::driver::disorder {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;

struct Keeper {
  std::mutex mutex;
  std::condition_variable arrived;
  std::multimap<Clock::time_point, std::function<void()>> kept;
  bool started = false;
};

uint64_t seed = 0;
std::atomic<uint64_t> drawn{0};

// Never destroyed: its thread outlives main.
Keeper &keeper() {
  static Keeper *one = new Keeper;
  return *one;
}

// The n-th number of the seed, whoever asks (splitmix64).
uint64_t draw() {
  uint64_t x = seed + 0x9e3779b97f4a7c15u * (drawn.fetch_add(1, std::memory_order_relaxed) + 1);
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// Mostly short, sometimes long enough for whole programs to overtake.
microseconds delay() {
  uint64_t number = draw();
  uint64_t most = 50;
  switch (number >> 60) {
    case 0:
      most = 20000;
      break;
    case 1:
    case 2:
      most = 5000;
      break;
    case 3:
    case 4:
    case 5:
      most = 1000;
      break;
    default:
      break;
  }
  return microseconds((number & 0xffffffff) % (most + 1));
}

void serve(Keeper &all) {
  std::unique_lock guard(all.mutex);
  for (;;) {
    if (all.kept.empty()) {
      all.arrived.wait(guard);
      continue;
    }
    auto first = all.kept.begin();
    if (first->first > Clock::now()) {
      all.arrived.wait_until(guard, first->first);
      continue;
    }
    std::function<void()> start = std::move(first->second);
    all.kept.erase(first);
    guard.unlock();
    start();
    start = nullptr;
    guard.lock();
  }
}

}  // namespace

void begin(uint64_t with_seed) { seed = with_seed; }

bool on() { return seed != 0; }

void keep_back(std::function<void()> start) {
  Keeper &all = keeper();
  try {
    std::lock_guard guard(all.mutex);
    if (!all.started) {
      SignalsBlocked blocked;
      std::thread([&all] { serve(all); }).detach();
      all.started = true;
    }
    all.kept.emplace(Clock::now() + delay(), start);
    all.arrived.notify_one();
  } catch (const std::exception &) {  // no thread, or no memory: then at once
    start();
  }
}

size_t pieces(size_t bytes) { return std::clamp<size_t>(bytes, 1, 1 + draw() % 8); }

void pause() { std::this_thread::sleep_for(std::min(delay(), microseconds(1000))); }

}  // namespace softdev::driver::disorder
