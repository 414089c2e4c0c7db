// A session's part in taking turns on a GPU that other slots use, too. Events tell what work costs
// only while the device has no other process's: a driver that gives each process slices of time has
// those of the others between two events. So while quota tokens are needed, one slot's work runs at
// a time, and the next one's when that has ended.
//
// Nobody waits for a turn without an end (turn_page.h): a kernel that takes longer is no longer
// alone on the device then.
//
// Lock: that of Holds.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <thread>

#include "gate/turn_page.h"

namespace outboard {

class Turn {
 public:
  // `page` null: the GPU is the slot's alone. `came` is called on a thread of this class's when the
  // turn has come, and may be called when it has not.
  Turn(std::shared_ptr<TurnPage> page, unsigned slot, std::function<void()> came);
  // Gives it up.
  ~Turn();

  // Whether it is ours, and nobody is to have it next; takes it where it is nobody's.
  bool take();
  // The same, and waits for it where that is false: `came` is called.
  bool take_or_wait();
  // What we had to do with it is over, and nothing of ours runs.
  void give_up();
  // We have no use for it, though something may run.
  void wait_no_more() {
    if (page_) page_->wait_no_more(slot_);
  }
  // Whether others wait for what we run.
  bool is_waited_for() const { return page_ && page_->is_of(slot_) && page_->is_waited_for(slot_); }
  // When we have taken it, by now_ns; 0: it is not ours.
  int64_t since() const { return since_; }
  // Whether we have had it for long enough. That counts from when we first made use of it, however
  // long that took us, so that each turn gets something done.
  bool over() const;

 private:
  // How long work may start in one turn while others wait. Each turn costs them the time in which
  // the device does nothing, between two sessions.
  static constexpr int64_t kMostNs = 5'000'000;

  bool taken(bool is_ours);
  void listen();

  const std::shared_ptr<TurnPage> page_;
  const unsigned slot_;
  const std::function<void()> came_;
  int64_t since_ = 0;  // when we have taken it; 0: we have not
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace outboard
