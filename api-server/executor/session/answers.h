// What a session sends: answers, data, calls of the program's functions, what kernels printed. From
// any thread, unless it says otherwise.
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
  // `ending` says whether the session is ending. All that is passed outlives this; `trace` and
  // `output` may be null, and `records` where the connection is none of TLS.
  Answers(int fd, Counters &counters, Reconnection &reconnection, Records *records,
          const Trace *trace, Output *output, const std::atomic<bool> &ending);
  // As Sender::may_wait.
  void may_wait(std::function<bool()> may_wait) { sender_.may_wait(std::move(may_wait)); }

  // `request` is the number that the guest has given the question.
  //
  // Answers a question that is answered with a result alone.
  void send(uint64_t request, CUresult result);
  // Answers with more: `reply` begins with a wire_reply, which is filled in here, and has `size`
  // bytes in all; `tail` follows it, padded to 8.
  void send(uint64_t request, CUresult result, wire_reply *reply, size_t size,
            const void *tail = nullptr, size_t tail_size = 0);
  // Answers a call that has synchronised: what kernels printed goes before it.
  void synchronised(uint64_t request, CUresult result);
  // Answers, and sends a descriptor along, which takes a Unix socket; `descriptor` stays open here.
  void with_descriptor(uint64_t request, wire_reply *reply, size_t size, int descriptor);

  // Sends a piece of a download, `offset` bytes from its beginning. False: nobody is there to take
  // it.
  bool data(uint64_t request, uint64_t offset, const void *data, size_t length);
  // The same of a chunk whose bytes are spent then: there may be others.
  bool spent_data(uint64_t request, uint64_t offset, uint8_t *data, size_t length);
  // Sends the last piece, which is spent, and the answer in one go.
  void last_data(uint64_t request, uint64_t offset, uint8_t *data, size_t length);
  // Says that a piece lies in a slot of the shared region. `last`: the answer follows in one go.
  void placed(uint64_t request, uint64_t offset, size_t length, uint32_t slot, bool last);

  // Says that the stream or event that was asked about is done.
  void done(uint64_t handle, uint64_t request);
  // Says that a stream has come to the guest's mark of that place.
  void passed(uint64_t stream, uint64_t place);
  // Says that a stream has come to a function of the program; `call` is the number under which the
  // guest says that it has returned.
  void call(uint64_t function, uint64_t call, CUresult status);
  // Sends what kernels have printed since the last time.
  void output();
  // To be called at each launch: kernels may print from now on.
  void launched() { launched_.store(true, std::memory_order_relaxed); }
  // Drops what was printed before the session or after it, by whom nobody knows.
  void skip_output();

  // Says that the posted command of that number failed. The next answer has its error, too: the
  // first one that no answer has had yet.
  void fault(uint16_t op, CUresult result, uint64_t posted_number);
  // Says that the server is idle: it has taken up all it was sent.
  void idle();
  // Says why the session is over. Nothing follows it.
  void end(CUresult result, const std::string &sentence);
  // ---- of a session that moves from one process to another

  // The first error that no answer has had yet, or 0.
  int unreported() const { return async_.load(); }
  // Says that it is here now, whether or not it is ending. False, and it is not said: who asks
  // takes no answers.
  bool arrived(uint64_t request);
  // As those of Sender.
  size_t copy_kept(uint64_t *from, uint8_t *to, size_t most, bool alone) {
    return sender_.copy_kept(from, to, most, alone);
  }
  uint64_t sent_so_far() { return sender_.sent_so_far(); }
  Sender::Stream stream() { return sender_.stream(); }
  // Goes on with the guest's connection, and with an error that no answer has had yet; `stream` as
  // Sender::begin_anew has it.
  void begin_anew(int unreported, Records *records, Sender::Stream *stream);
  // Nothing is sent any more.
  void leave() { sender_.leave(); }

  // From now on a guest that takes nothing for a moment counts as gone.
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
