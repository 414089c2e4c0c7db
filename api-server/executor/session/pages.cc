#include "session/pages.h"

#include "base/waiting.h"

namespace outboard {

CUstream Pages::stream() {
  if (stream_) return stream_;
  if (!last_ && driver_.cuEventCreate(&last_, kWaitEvent) != CUDA_SUCCESS) {
    last_ = nullptr;
    return nullptr;
  }
  if (driver_.cuStreamCreateWithPriority(&stream_, CU_STREAM_NON_BLOCKING, 0) != CUDA_SUCCESS) {
    stream_ = nullptr;
  }
  return stream_;
}

CUresult Pages::sent() {
  ++sent_;
  return driver_.cuEventRecord(last_, stream_);
}

void Pages::put_behind(CUstream stream, uint64_t &seen) {
  if (last_ && driver_.cuEventQuery(last_) == CUDA_ERROR_NOT_READY &&
      driver_.cuStreamWaitEvent(stream, last_, 0) != CUDA_SUCCESS) {
    return;  // the next one tries again
  }
  seen = sent_;
}

void Pages::mark() {
  if (porter_ && marked_ != sent_ && porter_->mark(stream_) == CUDA_SUCCESS) marked_ = sent_;
}

bool Pages::here() const {
  if (!last_ || (porter_ && marked_ == sent_ && porter_->has_landed())) return true;
  return driver_.cuEventQuery(last_) != CUDA_ERROR_NOT_READY;
}

void Pages::arrive() {
  if (!here()) driver_.cuEventSynchronize(last_);
}

CUresult Pages::release() {
  CUresult first = CUDA_SUCCESS;
  if (stream_) first = driver_.cuStreamDestroy_v2(stream_);
  if (last_) keep_first(first, driver_.cuEventDestroy_v2(last_));
  stream_ = nullptr;
  last_ = nullptr;
  seen_by_legacy_ = marked_ = sent_;
  return first;
}

}  // namespace outboard
