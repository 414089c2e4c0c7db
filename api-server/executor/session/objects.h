// The streams, events and functions of a session behind the handles that its guest minted, and what
// has to be known to wait for them. They belong to the leader, unless it says otherwise.
//
// Lock: pins_mutex_, the innermost one; nothing is called with it held.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <set>

#include "base/driver.h"
#include "base/handles.h"
#include "base/stream.h"
#include "copies/upload_staging.h"
#include "gate/gate.h"
#include "images/module.h"
#include "session/pages.h"
#include "wire.h"

namespace outboard {

class Objects {
 public:
  // All that is passed outlives this. `session` is the session's number.
  Objects(const Driver &driver, uint64_t session, Pages &pages, Gate &gate,
          UploadStaging &upload_staging)
      : driver_(driver),
        session_(session),
        pages_(pages),
        gate_(gate),
        upload_staging_(upload_staging) {}

  // ---- handles ---------------------------------------------------------------------------------

  // Whether the guest may give a new object this handle.
  template <class T>
  bool can_mint(uint64_t handle) const;
  // Keep what the guest has minted `handle` for; can_mint has been asked.
  void keep(uint64_t handle, CUstream stream);
  void keep(uint64_t handle, CUevent event);
  void keep(uint64_t handle, const Function &function) { functions_.keep(handle, function); }
  // Find what stands behind a handle. False, or null: there is none with this handle. Work is going
  // to be put on a stream that is found here, so it is made to wait for pages that were sent before
  // (pages.h). The handles 0 and 1 are the legacy stream.
  bool find(uint64_t handle, CUstream *stream);
  bool find(uint64_t handle, Stream *stream);
  bool find(uint64_t handle, CUevent *event);
  bool find(uint64_t handle, CUfunction *function);
  Function *find_function(uint64_t handle) { return functions_.find(handle); }
  // The same for calls that put no work on the stream, and only wait for it.
  bool peek(uint64_t handle, Stream *stream);
  bool peek(uint64_t handle, CUevent *event) { return find(handle, event); }
  // Find it and free the handle; what was found is the caller's, who retires it.
  bool take(uint64_t handle, CUstream *stream);
  bool take(uint64_t handle, CUevent *event);
  // Destroy what was taken, or leave that to the last who waits for it. The driver's result.
  CUresult retire(CUstream stream);
  CUresult retire(CUevent event);
  // Notes that other processes may open the event by a share name, which goes when the event does.
  void note_exported(uint64_t event) { exported_events_.insert(event); }
  // Frees the handles of all functions of a module.
  void drop_functions_of(const Module *module);
  // Destroys all objects and frees all handles; returns the first error. No work is under way.
  CUresult release();

  // Calls `f(handle, event)` with each event.
  template <class F>
  void each_event(F f) {
    events_.each_handle(f);
  }

  size_t stream_count() const { return stream_count_; }
  size_t event_count() const { return event_count_; }

  // ---- waiting ---------------------------------------------------------------------------------

  // Whether all work of the session is done. Errors count as done. With very many streams it says
  // no without asking them, as that would take too long.
  bool done();
  // The same, but asks however many streams there are.
  bool all_done();
  // Whether the work of a stream, or what an event has recorded, is done. Any thread.
  bool done(const Stream &stream) { return done(stream.object); }
  bool done(CUstream stream) { return driver_.cuStreamQuery(stream) != CUDA_ERROR_NOT_READY; }
  bool done(CUevent event) { return driver_.cuEventQuery(event) != CUDA_ERROR_NOT_READY; }
  // Whether a copy queued on the stream now would run at once.
  bool quiet(const Stream &stream);

  // Keep a stream or event from being destroyed between the two, while somebody waits for it. Any
  // thread.
  void pin(void *object);
  void unpin(void *object);

  // Orphans are streams that were destroyed while they had work; whoever waits for all streams
  // waits for these as well. Returns how many there are. Any thread.
  uint64_t orphans() const { return orphans_.load(); }
  // To be called after such a wait, with the number that was read before it: if none was added
  // meanwhile, there are none any more.
  void forget_orphans(uint64_t orphans) { orphans_.compare_exchange_strong(orphans, 0); }

  // Counts a stream that the session makes beside those of the guest, until it is given back.
  // False: there are as many as may be. Any thread.
  bool take_side_stream();
  void give_side_stream() { side_streams_.fetch_sub(1); }

 private:
  struct Pin {
    unsigned count = 0;
    std::function<void()> then;  // once nobody waits any more
  };

  CUresult destroy(CUstream stream);
  // Whether `then` is left to who unpins it last.
  bool after_waits(void *object, std::function<void()> then);

  const Driver &driver_;
  const uint64_t session_;
  Pages &pages_;
  Gate &gate_;
  UploadStaging &upload_staging_;
  HandleTable<Stream, WIRE_KIND_STREAM> streams_;
  HandleTable<CUevent, WIRE_KIND_EVENT> events_;
  HandleTable<Function, WIRE_KIND_FUNCTION> functions_;
  size_t stream_count_ = 0;
  size_t event_count_ = 0;
  std::set<uint64_t> exported_events_;
  std::atomic<uint64_t> orphans_{0};
  std::atomic<unsigned> side_streams_{0};
  std::mutex pins_mutex_;
  std::map<void *, Pin> pins_;
};

template <>
inline bool Objects::can_mint<CUstream>(uint64_t handle) const {
  return streams_.can_mint(handle);
}
template <>
inline bool Objects::can_mint<CUevent>(uint64_t handle) const {
  return events_.can_mint(handle);
}
template <>
inline bool Objects::can_mint<CUfunction>(uint64_t handle) const {
  return functions_.can_mint(handle);
}

}  // namespace outboard
