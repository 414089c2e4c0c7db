// What the entry points share.
#pragma once

#include <cstring>
#include <memory>
#include <new>

#include "core/driver.h"
#include "core/log.h"
#include "cuda_driver.h"

namespace softdev::driver {

// What a NULL stream means: the names that end in _ptsz and _ptds take the per-thread stream.
enum class Default { kLegacy, kPerThread };

// Where calls name a device: the host, and none.
inline constexpr CUdevice kHostAsDevice = -1, kNoDevice = -2;

// The stream of a handle, in the current context for the special ones. Any other knows its context,
// so that none need be current (as an H200's driver 580 has it).
CUresult find_stream(CUstream handle, Default null, StreamRef *stream);
// The same for a call that puts work there, which captures may forbid: that comes before what is
// wrong with the work.
CUresult find_for_work(CUstream handle, Default null, StreamRef *stream);
// And for one that may also wait for it.
CUresult find_for_transfer(CUstream handle, Default null, bool asynchronous, StreamRef *stream);

// Takes a freed region off the books of the pool it came from, if any (pools.cpp).
void count_free(const Region &region);

template <class Handle>
Handle as_handle(const Object &object) {
  return reinterpret_cast<Handle>(object.handle());
}

inline uint64_t address_of(const void *pointer) { return reinterpret_cast<uint64_t>(pointer); }

// Runs what may be out of memory inside: no exception leaves an entry point.
template <class Function>
CUresult guarded(Function function) {
  try {
    return function();
  } catch (const std::bad_alloc &) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
}

}  // namespace softdev::driver
