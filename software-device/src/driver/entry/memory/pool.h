// A pool of memory for stream-ordered allocation.
#pragma once

#include <mutex>
#include <set>

#include "core/handles.h"
#include "cuda_driver.h"
#include "memory/shared.h"

namespace softdev::driver {

// Who a pool is, among all processes. It is what is sent to another one.
struct PoolIdentity {
  uint64_t magic = 0;
  int32_t process = 0;
  int32_t unused = 0;
  uint64_t process_started = 0;
  uint64_t number = 0;
  CUuuid device = {};
};

class Pool : public Object {
 public:
  static constexpr Kind kKind = Kind::kPool;
  ~Pool() override;
  bool imported() const { return identity.process != 0; }

  int device = 0;
  size_t most = 0;         // 0: what the device has
  bool shareable = false;  // with other processes
  PoolIdentity identity;   // of one of another process
  std::mutex mutex;        // for what follows
  uint64_t used = 0, high = 0, threshold = 0;
  int reuse[3] = {1, 1, 1};
  std::set<int> visitors;  // devices that were let in
};

CUresult find_pool(CUmemoryPool handle, std::shared_ptr<Pool> *pool);

}  // namespace softdev::driver
