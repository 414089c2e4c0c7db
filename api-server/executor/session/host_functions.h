// Functions of the program, which run in the guest: the stream's turn comes on a thread of the
// driver, which tells the guest and waits for it. And streams that are held in the same way for
// what the session does itself. A session that ends lets all of them go.
//
// Lock: mutex_, innermost; nothing is sent and no driver call is made with it held.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "base/driver.h"
#include "wire.h"

namespace outboard {

class HostFunctions {
 public:
  // `push` tells the guest that `function` is to be called, from any thread.
  using Push = std::function<void(uint64_t function, uint64_t call, CUresult status)>;
  HostFunctions(const Driver &driver, Push push) : driver_(driver), push_(std::move(push)) {}
  HostFunctions(const HostFunctions &) = delete;
  HostFunctions &operator=(const HostFunctions &) = delete;

  // ---- for the leader
  // ----------------------------------------------------------------------------

  // Has the stream call `function` when it comes to it.
  CUresult call(CUstream stream, uint64_t function, wire_function kind);
  // Calls it at once: no stream will come to it.
  void call_now(uint64_t function, CUresult status);
  // Holds the stream from there on.
  CUresult hold(CUstream stream, uint64_t *number);
  // What a host node of a graph calls. False: there are as many as a session may have.
  bool node(uint64_t function, CUDA_HOST_NODE_PARAMS *parameters);
  // The guest has returned from a call. False when it had none of that number.
  bool done(uint64_t call);
  // Whether the device has, or may come to, any that it waits for.
  bool pending();
  // Everything has come to rest, and nothing will be called again.
  void forget();

  // ---- for any thread
  // ----------------------------------------------------------------------------

  // Lets a stream that is held go on.
  void let_go(uint64_t hold);
  // The guest has returned from a call, and done() will yet say so.
  void done_early(uint64_t call);
  // From now on nothing is called or waited for.
  void open();
  // After that: no thread of the driver is here any more.
  void finish();

 private:
  // What the driver is given to call.
  struct Record {
    HostFunctions *owner;
    uint64_t function;
    bool kept;
    uint64_t hold;  // 0: a function
  };

  Record *take(uint64_t function, bool kept, uint64_t hold = 0);
  void give(Record *record);
  static void run(Record *record, CUresult status);

  const Driver &driver_;
  const Push push_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::unique_ptr<Record>> all_;
  std::vector<Record *> spare_;
  std::set<uint64_t> calls_;  // that the guest has not returned from
  std::set<uint64_t> early_;  // that it has returned from, before the command was carried out
  std::set<uint64_t> holds_;
  uint64_t last_hold_ = 0;
  uint64_t last_call_ = 0;
  unsigned running_ = 0;
  bool open_ = false;
};

}  // namespace outboard
