// Times go to stderr, and only when asked for with --time: stdout must be the same in every run.
#pragma once

#include <chrono>
#include <cstdio>

class Stopwatch {
 public:
  explicit Stopwatch(bool wanted) : wanted_(wanted), start_(Clock::now()) {}

  bool wanted() const { return wanted_; }

  void restart() { start_ = Clock::now(); }

  // Reports the time since the start or the last lap, and starts the next lap.
  void lap(const char *what) {
    if (wanted_) {
      std::chrono::duration<double, std::milli> passed = Clock::now() - start_;
      std::fprintf(stderr, "time: %-16s %10.3f ms\n", what, passed.count());
    }
    restart();
  }

 private:
  using Clock = std::chrono::steady_clock;
  bool wanted_;
  Clock::time_point start_;
};
