// Functions of the program, which run in the guest. When a stream comes to one, a thread of the
// driver tells the guest and waits until it has returned. A session that ends lets all streams go
// on.
//
// Lock: mutex_, outside that of the porter; nothing is sent and no driver call is made with it
// held.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <vector>

#include "base/driver.h"
#include "copies/page_porter.h"
#include "wire.h"

namespace outboard {

class HostFunctions {
 public:
  // `push` tells the guest that `function` is to be called, from any thread.
  using Push = std::function<void(uint64_t function, uint64_t call, CUresult status)>;
  // `porter` stands by for each function, so that pages can be carried before it returns; it may be
  // null.
  HostFunctions(const Driver &driver, Push push, PagePorter *porter, unsigned stream_operations)
      : driver_(driver),
        push_(std::move(push)),
        porter_(porter),
        stream_operations_(stream_operations) {
    if (porter_) porter_->begin();
  }
  HostFunctions(const HostFunctions &) = delete;
  HostFunctions &operator=(const HostFunctions &) = delete;

  // ---- for the leader --------------------------------------------------------------------------

  // Has the stream call `function`, by the guest's number for it, when it comes to it. The driver's
  // result.
  CUresult call(CUstream stream, uint64_t function, wire_function kind);
  // The same for a copy that is behind it in the stream, and whose bytes the guest is to put into
  // `area`; it is told CUDA_ERROR_OUT_OF_MEMORY where that is empty.
  CUresult call_late(CUstream stream, uint64_t function, std::span<uint8_t> area);
  // Tells the guest to call a function at once, because no stream will come to it.
  void call_now(uint64_t function, CUresult status);
  // Sets the parameters of a graph's host node that calls `function`. False: there are as many as a
  // session may have.
  bool node(uint64_t function, CUDA_HOST_NODE_PARAMS *parameters);
  // Has `launch` put a graph with such nodes on the stream. Returns what that returned.
  template <class Launch>
  CUresult launch_graph(CUstream stream, Launch launch) {
    const bool attended = porter_ && porter_->stand_by(stream_operations_);
    const CUresult result = launch();
    if (attended) release_behind(stream, result);
    return result;
  }
  // Takes up that the guest has returned from a call. False when it had none of that number.
  bool done(uint64_t call);
  // Of a session that moves: the number of the last call; the calls that have returned before their
  // command was carried out; and both of a session that comes from elsewhere.
  uint64_t last_call();
  std::vector<uint64_t> returned_early();
  void begin_anew(uint64_t last_call, std::span<const uint64_t> returned_early);
  // Forgets all functions. Everything has come to rest, and nothing will be called again.
  void forget();

  // ---- for any thread --------------------------------------------------------------------------

  // Finds where the bytes go that a call was to bring: empty where it was to bring none, or has
  // returned early. False: there is no such call. For who reads the connection, and good until it
  // takes up that the guest has returned.
  bool area_of(uint64_t call, std::span<uint8_t> *area, bool *returned);
  // Whether a stream has come, or may come, to anything here that it waits for.
  bool pending() const { return pending_.load(std::memory_order_relaxed); }
  // Lets a stream go on whose function has returned, before the command that says so is carried
  // out: done() follows.
  void done_early(uint64_t call);
  // For who reads in the leader's place: PagePorter::let_go.
  uint32_t let_go(uint32_t stood) { return porter_ ? porter_->let_go(stood) : 0; }
  // Lets all streams go on; from now on nothing is called or waited for.
  void open();
  // Waits, after open(), until no thread of the driver is in here any more.
  void finish();

 private:
  // What the driver is given to call.
  struct Record {
    HostFunctions *owner;
    uint64_t function;
    bool kept;
    bool late;
    bool attended;  // a porter stands by
    std::span<uint8_t> area;
  };
  // One that the guest has not returned from.
  struct Call {
    std::span<uint8_t> area;  // where it brings bytes
    bool attended;
  };

  void note_pending();
  Record *take(uint64_t function, bool kept);
  void give(Record *record);
  static void run(Record *record, CUresult status);
  bool attend(Record *record);
  void queued(Record *record, bool attended, CUresult result);
  void release_behind(CUstream stream, CUresult launched);
  bool end(uint64_t call);
  CUresult add_callback(CUstream stream, Record *record);

  const Driver &driver_;
  const Push push_;
  PagePorter *const porter_;
  const unsigned stream_operations_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::unique_ptr<Record>> all_;
  std::vector<Record *> spare_;
  std::map<uint64_t, Call> calls_;
  std::set<uint64_t> early_;  // that it has returned from, before the command was carried out
  uint64_t last_call_ = 0;
  unsigned running_ = 0;
  bool open_ = false;
  std::atomic<bool> pending_{false};  // what the others come to
};

}  // namespace outboard
