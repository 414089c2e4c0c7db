// From a session that moves to the process that it moves to: commands as a guest sends them, and
// their answers. What comes back is not trusted more than what a guest sends.
#pragma once

#include <sys/uio.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "wire.h"

namespace outboard {

class MoveLink {
 public:
  // How long the other end may take for an answer, whatever else it says meanwhile, or to take a
  // command.
  static constexpr std::chrono::milliseconds kPatience{60000};

  // Takes the descriptor. Whoever waits asks `stop` now and then whether to give up.
  MoveLink(int fd, std::function<bool()> stop, std::chrono::milliseconds patience = kPatience);
  ~MoveLink();
  MoveLink(const MoveLink &) = delete;

  // All of these return false where the link is of no use any more: `why` tells.
  //
  // Sends a descriptor, before anything else.
  bool hand(int descriptor);
  // Sends a posted command: `size` bytes, which begin with a header that is filled in here but for
  // the command, and payload, padded to 8.
  // The descriptor, unless it is -1, goes along with its first byte.
  bool post(void *frame, size_t size, const void *payload = nullptr, size_t length = 0,
            int descriptor = -1);
  // Sends a question, gives it its number, and waits for the answer: *reply is that frame.
  bool ask(void *frame, size_t size, const void *tail, size_t length, std::vector<uint8_t> *reply);
  // The two halves of that: other commands may be posted between them.
  bool begin_ask(void *frame, size_t size, const void *tail, size_t length);
  bool end_ask(std::vector<uint8_t> *reply);
  // Takes up what has come, without waiting: whether the answer has.
  bool is_answered(bool *answered);
  // Returns the last descriptor that has come, which is the caller's, or -1.
  int take_descriptor() { return std::exchange(descriptor_, -1); }
  // The same as `ask` of the last question of all, to which only an answer or the end of the link
  // is one.
  bool ask_finally(void *frame, size_t size, std::vector<uint8_t> *reply);

  // Whether posted commands may fail.
  void bear_faults(bool bears) { bears_faults_ = bears; }
  const std::string &why() const { return why_; }

 private:
  bool send(iovec *parts, int count, int descriptor);
  using Moment = std::chrono::steady_clock::time_point;
  Moment patient() const { return std::chrono::steady_clock::now() + patience_; }
  bool wait(short events, Moment until);
  bool receive();
  bool take(size_t *at);
  bool fail(std::string why);

  const int fd_;
  const std::function<bool()> stop_;
  const std::chrono::milliseconds patience_;
  bool final_ = false;
  bool bears_faults_ = false;
  uint64_t requests_ = 0;
  uint64_t wanted_ = 0;  // the question that is waited for
  int descriptor_ = -1;
  std::vector<uint8_t> inbox_;
  std::vector<uint8_t> reply_;
  std::string why_;
};

}  // namespace outboard
