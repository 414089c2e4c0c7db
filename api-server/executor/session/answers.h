// What a session sends: answers, data, calls of the program's functions, what kernels printed.
// From any thread, unless it says otherwise.
//
// Once the session is ending, its streams are let go so that they come to their end: functions that
// nobody called, values that nobody wrote. What comes to its end only then is not done, and no
// answer may say that it is: nothing is answered any more, and the guest is told of the end.
//
// Locks: output_mutex_ -> Sender.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>

#include "base/counters.h"
#include "base/driver.h"
#include "device/output.h"
#include "gate/trace.h"
#include "wire/sender.h"
#include "wire_calls.h"

namespace outboard {

class Answers {
 public:
  // `ending`: whether the session is. All of these outlive it; there may be no trace, no output.
  Answers(int fd, Counters &counters, const Trace *trace, Output *output,
          const std::atomic<bool> &ending);

  // The result of a request.
  void send(uint64_t request, CUresult result);
  // `reply` begins with a wire_reply; `tail` follows it, padded.
  void send(uint64_t request, CUresult result, wire_reply *reply, size_t size,
            const void *tail = nullptr, size_t tail_size = 0);
  // The answer of a call that has synchronised: what kernels printed goes before it.
  void synchronised(uint64_t request, CUresult result);
  // A descriptor goes along with it.
  void with_descriptor(uint64_t request, wire_reply *reply, size_t size, int descriptor);

  // A piece of a download, `offset` bytes from its beginning. False: nobody is there to take it.
  bool data(uint64_t request, uint64_t offset, const void *data, size_t length);
  // The last piece and the answer, in one go.
  void last_data(uint64_t request, uint64_t offset, const void *data, size_t length);
  // A piece that lies in a slot of the shared region. `last`: with the answer.
  void placed(uint64_t request, uint64_t offset, size_t length, uint32_t slot, bool last);

  // The event that was asked about is done.
  void done(uint64_t handle, uint64_t request);
  // A stream has come to a function of the program.
  void call(uint64_t function, uint64_t call, CUresult status);
  // What kernels have printed since the last time.
  void output();
  // Kernels may print from now on.
  void launched() { launched_.store(true, std::memory_order_relaxed); }
  // Of a stranger's, printed before the session or after it: nobody's.
  void skip_output();

  // Posted command number `sequence` failed; the next answer says so.
  void fault(uint16_t op, CUresult result, uint64_t sequence);
  // All that came is carried out.
  void idle();
  // The last word: why the session is over.
  void end(CUresult result, const std::string &sentence);
  // Whoever takes nothing for a moment counts as gone from now on.
  void hurry() { sender_.hurry(); }

 private:
  void fill(wire_reply *reply, uint64_t request, CUresult result);

  Sender sender_;
  Counters &counters_;
  const Trace *const trace_;
  Output *const output_;
  const std::atomic<bool> &ending_;
  std::atomic<int> async_{0};  // first error of posted commands not yet reported
  std::atomic<bool> launched_{false};
  std::mutex output_mutex_;  // reading what kernels printed and sending it
};

}  // namespace outboard
