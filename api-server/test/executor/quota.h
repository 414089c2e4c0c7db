// The quota page of World's device, and waits for what becomes of it.
#pragma once

#include <thread>

#include "world.h"

inline outboard::QuotaWords &words() { return World::quota_page().words(); }

inline void allow(outboard::QuotaMode mode, uint64_t limit) {
  words().limit.store(limit);
  words().mode.store(mode);
  World::quota_page().wake();
}

// What the session's threads do is waited for, however long they take.
template <class Condition>
void until(Condition condition) {
  while (!condition()) std::this_thread::yield();
}
