#include "gate/turn.h"

#include <pthread.h>

#include <system_error>
#include <utility>

#include "gate/launch_group.h"

namespace outboard {

Turn::Turn(std::shared_ptr<TurnPage> page, unsigned slot, std::function<void()> came)
    : page_(slot < TurnWords::kMostSlots ? std::move(page) : nullptr),
      slot_(slot),
      came_(std::move(came)) {}

Turn::~Turn() {
  if (!page_) return;
  stopping_ = true;
  page_->wake(slot_);
  if (thread_.joinable()) thread_.join();
  give_up();
}

bool Turn::over() const { return since_ != 0 && now_ns() - since_ >= kMostNs && is_waited_for(); }

bool Turn::taken(bool is_ours) {
  if (!is_ours) {
    since_ = 0;
  } else if (since_ == 0) {
    since_ = now_ns();
  }
  return is_ours;
}

bool Turn::take() { return !page_ || (!over() && taken(page_->take(slot_))); }

bool Turn::take_or_wait() {
  if (!page_) return true;
  if (over()) return false;
  if (taken(page_->take_or_wait(slot_))) return true;
  if (thread_.joinable()) return false;
  try {
    thread_ = std::thread([this] { listen(); });
  } catch (const std::system_error &) {
    // The next one tries again; and holds look by themselves now and then.
  }
  return false;
}

void Turn::give_up() {
  if (!page_) return;
  since_ = 0;
  page_->wait_no_more(slot_);
  if (page_->is_of(slot_)) page_->pass_on(slot_);
}

void Turn::listen() {
  pthread_setname_np(pthread_self(), "outboard-turn");
  for (;;) {
    const uint32_t seen = page_->words().slots[slot_].wake.load();
    if (stopping_) return;
    if (page_->is_of(slot_)) came_();
    page_->wait(slot_, seen);
  }
}

}  // namespace outboard
