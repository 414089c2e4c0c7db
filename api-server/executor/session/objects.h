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
#include "copies/transfers.h"
#include "copies/uploads.h"
#include "gate/gate.h"
#include "images/module.h"
#include "session/pages.h"
#include "wire.h"

namespace outboard {

class Objects {
 public:
  // All of these outlive it. `session`: whose they are.
  Objects(const Driver &driver, uint64_t session, Pages &pages, Gate &gate, Uploads &uploads)
      : driver_(driver), session_(session), pages_(pages), gate_(gate), uploads_(uploads) {}

  // ---- handles ---------------------------------------------------------------------------------

  // Whether the guest may give a new object this handle.
  template <class T>
  bool can_mint(uint64_t handle) const;
  // `handle` can be minted.
  void keep(uint64_t handle, CUstream stream);
  void keep(uint64_t handle, CUevent event);
  void keep(uint64_t handle, const Function &function) { functions_.keep(handle, function); }
  // False, or null: there is none with this handle. A stream that is found here is going to be
  // used: it comes after what its pages wait for.
  bool find(uint64_t handle, CUstream *stream);
  bool find(uint64_t handle, Stream *stream);
  bool find(uint64_t handle, CUevent *event);
  bool find(uint64_t handle, CUfunction *function);
  Function *find_function(uint64_t handle) { return functions_.find(handle); }
  // The same for calls that only wait for it.
  bool peek(uint64_t handle, Stream *stream);
  bool peek(uint64_t handle, CUevent *event) { return find(handle, event); }
  // The handle is free from now on.
  bool take(uint64_t handle, CUstream *stream);
  bool take(uint64_t handle, CUevent *event);
  // Destroys what was taken; when somebody waits for it, after that.
  CUresult retire(CUstream stream);
  CUresult retire(CUevent event);
  // Other processes may open it by a share name, which goes when the event does.
  void note_exported(uint64_t event) { exported_events_.insert(event); }
  void drop_functions_of(const Module *module);
  // Destroys all of them; the first error.
  CUresult release();

  size_t stream_count() const { return stream_count_; }
  size_t event_count() const { return event_count_; }

  // ---- waiting ---------------------------------------------------------------------------------

  // Whether nothing is left to wait for, as far as that is asked in a moment; errors count as that.
  bool done();
  // The same, however many streams there are to be asked.
  bool all_done();
  // Any thread.
  bool done(const Stream &stream) { return done(stream.object); }
  bool done(CUstream stream) { return driver_.cuStreamQuery(stream) != CUDA_ERROR_NOT_READY; }
  bool done(CUevent event) { return driver_.cuEventQuery(event) != CUDA_ERROR_NOT_READY; }
  // Whether a copy queued on the stream now would run at once.
  bool quiet(const Stream &stream);

  // Keeps what is waited for from being destroyed. Any thread.
  void pin(void *object);
  void unpin(void *object);

  // Streams that were destroyed with work pending are waited for with all others. `orphans` is what
  // was read before such a wait began: who is added meanwhile stays. Any thread.
  uint64_t orphans() const { return orphans_.load(); }
  void forget_orphans(uint64_t orphans) { orphans_.compare_exchange_strong(orphans, 0); }

  // A stream beside those of the guest; false: there are as many as it may have. Any thread.
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
  Uploads &uploads_;
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
