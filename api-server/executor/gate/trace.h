// Records what happens in a session, and when, into a file (proto/wire/trace_ring.h), where that is
// wanted. Whoever has something to record has a pointer to the trace. It is null where nothing is
// recorded, which costs a branch. Recording takes no locks on the data path, and no system calls
// but the clock's. Times are nanoseconds of CLOCK_MONOTONIC.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/driver.h"
#include "gate/launch_group.h"
#include "trace_ring.h"

namespace outboard {

struct TraceOptions {
  // Something that was before the session. Where both times are the same, it is a moment.
  struct Mark {
    std::string name;
    uint64_t from, to;
  };

  std::string file;  // empty: nothing is recorded
  uint64_t size = TRACE_BYTES_DEFAULT;
  std::vector<Mark> marks;
};

class Trace {
 public:
  // Makes the file and begins to record. Null when nothing is to be recorded, or, with a line in
  // the log, when there can be no such file.
  static std::unique_ptr<Trace> open(const TraceOptions &options, uint64_t session);
  ~Trace();

  // Returns the number of a name, which is written once. Takes a lock, so the data path asks
  // beforehand. Any thread.
  uint32_t name(const std::string &text);

  // ---- for the leader --------------------------------------------------------------------------

  // Records a command from here until this ends, which is when it has been carried out. Made and
  // ended by the thread that carries it out. `trace` may be null.
  class Command {
   public:
    Command(Trace *trace, uint16_t op, uint64_t sequence, uint64_t bytes);
    ~Command() {
      if (trace_) [[unlikely]]
        end();
    }
    Command(const Command &) = delete;

   private:
    void end();

    Trace *const trace_;
    uint16_t op_;
    uint64_t sequence_;
    uint64_t at_;
  };
  // Records that all that came has been taken up.
  void taken();
  // Notes that the command which is being taken up starts work of this launch group.
  void joins(LaunchGroup &group) const;

  // ---- for any thread --------------------------------------------------------------------------

  // Notes how many bytes the command moves that this thread carries out.
  static void moves(uint64_t bytes) { notes_.bytes = bytes; }
  // Notes that the answer of that command is ready.
  static void answers();

  // Records that the gate has held the group from `since` until now.
  void held(const LaunchGroup &group, uint64_t since);
  // Records when the group ran.
  void measured(const LaunchGroup &group, uint64_t from, uint64_t to);
  // Records that moments of the device are known to within so many nanoseconds.
  void clock(uint64_t within);

 private:
  struct Notes {
    uint64_t bytes;
    uint64_t answered;
  };
  static thread_local Notes notes_;
  static constexpr unsigned kMostOps = 2048;
  // A posted command is recorded when it takes longer than this many nanoseconds.
  static constexpr uint64_t kLong = 20'000;

  explicit Trace(const trace_ring &ring) : ring_(ring) {}
  void prepare(const TraceOptions &options, uint64_t session);
  void put(trace_kind kind, uint32_t name, uint64_t from, uint64_t to, uint64_t a, uint64_t b,
           uint64_t c, int32_t result = 0);

  trace_ring ring_;
  uint32_t op_names_[kMostOps] = {};
  uint32_t clock_name_ = 0;
  std::mutex names_mutex_;

  // The leader's: what has been taken up since it last waited.
  struct {
    uint64_t at = 0;
    uint64_t count = 0;
    uint64_t first = 0, last = 0;
  } take_;
};

// Tells when events of the device happened, by the host's clock. Now and then it records an event
// of its own while nothing delays that, and reads the clock; other events are placed by their
// distance from the latest of those. Used by one thread at a time, with the context bound.
class DeviceClock {
 public:
  DeviceClock(const Driver &driver, Trace *trace);
  ~DeviceClock() { close(); }
  // Compares both clocks again when the last time was long ago. To be called while nobody waits for
  // this thread.
  void refresh();
  // Returns when an event happened. Nothing when that cannot be told.
  std::optional<uint64_t> time_of(CUevent event) const;
  // Gives back what it has on the device.
  void close();

 private:
  bool look(uint64_t patience, uint64_t *within);

  static constexpr uint64_t kEvery = 1'000'000'000;
  static constexpr uint64_t kPatience = 200'000;
  static constexpr uint64_t kFirstPatience = 5'000'000;

  const Driver &driver_;
  Trace *const trace_;
  CUstream stream_ = nullptr;  // nothing is in it but events of this
  CUevent known_ = nullptr;    // happened at `at_`
  CUevent spare_ = nullptr;
  uint64_t at_ = 0;
  uint64_t looked_ = 0;
};

}  // namespace outboard
