// The threads of a session, in the pattern that is called leader/followers. One of them leads: it
// owns the socket's receiving side and decodes. Before it blocks in the driver it hands the lead
// over, so that a wait never keeps other commands waiting, and the thread that waits is the one
// that answers: no hop in between. Threads are made on demand and park when they have nothing to
// do.
//
// Lock: mutex_, never held while other code runs.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace outboard {

class ThreadPool {
 public:
  // Each new thread calls `bind` first. `lead` is called by the thread that leads; it returns when
  // that thread has handed the lead over or the session is over.
  ThreadPool(std::function<void()> bind, std::function<void()> lead);
  ~ThreadPool();

  // Makes the first thread, which leads.
  void start();

  // Gives the lead to another thread. For the thread that leads. False when no more threads are to
  // be had: it still leads then, and what it does next keeps other commands waiting.
  bool hand_over();
  // Whether the calling thread still leads.
  static bool leads();

  // Runs `job` on a thread that does nothing else meanwhile, once one is to be had. Any thread.
  void run(std::function<void()> job);

  // For the leader: waits until no other thread does anything. What they do must be certain to end.
  void wait_alone();
  // The same until then. False: others still do something.
  bool wait_alone(std::chrono::steady_clock::time_point until);
  // For the leader: says that nobody is to lead any more, so that threads leave when they have
  // nothing to do.
  void dismiss();
  // Waits for all threads to end, after the leader has returned from `lead` for good.
  void join();
  // Instead of join: leaves threads behind that will never come back.
  void abandon();

 private:
  void work();
  bool wake_or_add(size_t most);

  // A guest that waits with more threads than this gets its other commands delayed.
  static constexpr size_t kMost = 640;
  // Jobs that find so many threads wait for one of them, so that some are left to lead.
  static constexpr size_t kMostForJobs = 320;

  const std::function<void()> bind_;
  const std::function<void()> lead_;

  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable alone_;
  std::vector<std::thread> threads_;
  std::deque<std::function<void()>> jobs_;
  size_t parked_ = 0;
  size_t offered_ = 0;  // how many of those have been told to wake and have not yet
  size_t busy_ = 0;     // neither parked nor leading
  bool led_ = false;
  bool dismissed_ = false;
};

}  // namespace outboard
