// What a session begins with, and what is told of its end.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "gate/gate.h"
#include "gate/trace.h"
#include "images/expected_modules.h"

namespace outboard {

// Why a session is over: the guest has closed the connection, or broke a rule; the device is
// broken; the server has ended it; a kernel ran for longer than it may; the session has moved to
// another process, where it goes on.
enum class EndReason { kClosed, kViolation, kDevice, kStopped, kLimit, kMoved };

struct SessionEnd {
  EndReason reason;
  std::string message;                    // one sentence for the log
  bool reusable;                          // whether the device may serve another session
  std::vector<ExpectedModule> modules{};  // those that it has used
  std::vector<uint8_t> learnt{};          // of libraries (LearntCalls); empty: it has called none
};

// A guest whose connection was cut: for how long, and for how long it is waited for still.
struct Away {
  std::chrono::milliseconds passed, left;
};

struct SessionOptions {
  int fd = -1;                    // the connection; the session duplicates it
  std::vector<uint8_t> leftover;  // bytes that have come behind the Hello
  // Of a connection by TLS: where it is, and what has come and was not opened (wire/records.h).
  struct Tls {
    std::vector<uint8_t> state, unopened;
  };
  std::optional<Tls> tls{};
  // The connection leads to a session in another process, which moves here: with the first byte the
  // guest's connection comes. `on_arrived` is called once it is here.
  bool arrives = false;
  std::function<void()> on_arrived{};
  uint64_t id = 0;
  // How many bytes of the device's memory it may have; and beside those, how many under pinned
  // memory of the host, and how many for code and variables of modules.
  uint64_t memory_limit = 0;
  uint64_t pinned_limit = 0;
  uint64_t module_limit = uint64_t{512} << 20;
  // And how many for stacks of its kernels, beyond which those count towards memory_limit.
  uint64_t stack_limit = 0;
  // How many bytes of the host's memory images of loaded modules may take; 0: as many as the device
  // allows each session (Device::image_bytes).
  uint64_t image_limit = 0;
  std::string tenant;  // whose session it is; empty: nobody's in particular
  uint64_t group = 0;  // the number of the program's group on this machine; 0: it has one session
  // Whether the guest may ask for uploads by hash, where the device keeps them.
  bool upload_cache = false;
  std::vector<ExpectedModule> expected;  // told to the guest, and loaded at once
  std::vector<uint8_t> learnt;           // of libraries, told to the guest at once; empty: nothing
  GateOptions gate;
  TraceOptions trace;
  // How long a launch may take; 0: for ever. A longer one ends the session, and the guest is told
  // `kernel_sentence` and the kernel's name.
  std::chrono::milliseconds most_kernel{0};
  std::string kernel_sentence;
  // How long a guest whose connection was cut may take to come back; 0: it may not.
  std::chrono::milliseconds grace{0};
  // How long the device may take to come to rest once the session is over: when the guest has left,
  // and when the server has ended it.
  std::chrono::milliseconds patience{10000};
  std::chrono::milliseconds stop_patience{1000};
  // How long a session that is to move may take to come to rest; with more work it stays.
  std::chrono::milliseconds rest_patience{5000};
  // Called once for each module that the session uses, from any of its threads; may be empty.
  std::function<void(const ExpectedModule &)> on_used;
  // Called from threads of the session, one after the other, when the guest's connection was cut,
  // when it is waited for for longer or shorter than was said, and, with nothing, when it is back.
  // May be empty.
  std::function<void(const std::optional<Away> &)> on_away;
  // Called once, from a thread of the session, when the guest has gone or the session is to end:
  // what it has is given back from then on. May be empty.
  std::function<void()> on_closing;
  // Called once, from a thread of the session, after that.
  std::function<void(const SessionEnd &)> on_end;
};

}  // namespace outboard
