#include "copies/transfers.h"

#include <algorithm>

namespace outboard {

void Transfers::add(Transfer *transfer) {
  std::lock_guard lock(mutex_);
  transfers_.push_back(transfer);
  pending_.fetch_add(1, std::memory_order_release);
}

void Transfers::queued(Transfer *transfer, CUevent last) {
  {
    std::lock_guard lock(mutex_);
    transfer->last = last;
  }
  changed_.notify_all();
}

void Transfers::remove(Transfer *transfer) {
  {
    std::lock_guard lock(mutex_);
    std::erase(transfers_, transfer);
    pending_.fetch_sub(1, std::memory_order_release);
  }
  changed_.notify_all();
}

void Transfers::settle(uint64_t sequence, const Stream *stream, bool all) {
  if (!pending()) return;
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] {
    return std::none_of(transfers_.begin(), transfers_.end(), [&](const Transfer *t) {
      if (t->sequence >= sequence) return false;
      if (all) return true;
      if (!t->last) return stream && t->stream.ordered_with(*stream);
      return driver_.cuEventQuery(t->last) != CUDA_ERROR_NOT_READY;
    });
  });
}

}  // namespace outboard
