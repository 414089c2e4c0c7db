// Pinned memory of the host in which late uploads wait for their payload (LateUpload). A copy out
// of an area is in its stream before the bytes are there: behind a function of the guest, which
// brings them. So whoever takes the payload up asks the driver nothing. Areas are made when they
// are first needed, stay until the session ends, and are free again when the copy out of them is
// done. Copies of one stream share an area: it comes to a function only when the copy before that
// is done. So what a stream holds up never has too few. Used by the leader alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <span>

#include "base/driver.h"

namespace outboard {

class LateAreas {
 public:
  explicit LateAreas(const Driver &driver) : driver_(driver) {}
  LateAreas(const LateAreas &) = delete;
  LateAreas &operator=(const LateAreas &) = delete;

  struct Area {
    uint8_t *data = nullptr;
    size_t size = 0;
    CUevent copied = nullptr;
    bool busy = false;
    uint64_t stream = 0;  // of all copies out of it since it was free
    bool queued = false;  // there are some
  };

  // Returns an area of at least `length` bytes (1 to WIRE_LATE_MAX) and their padding to 8, for a
  // copy on `stream`, the guest's handle. Null when areas would take more than
  // session_limits.late_bytes, or the driver has no memory.
  Area *take(size_t length, uint64_t stream);
  // Says that the copy out of it is queued on `stream`, and is the last thing there. The driver's
  // result; if that is an error the area is not used again.
  CUresult copied(Area *area, CUstream stream);
  // Says that nothing was queued.
  void give(Area *area) { area->busy = area->queued; }
  // Gives all of them back. No copy may be running any more.
  void release();

 private:
  Area *make(size_t length);

  const Driver &driver_;
  std::list<Area> all_;
  uint64_t bytes_ = 0;
};

}  // namespace outboard
