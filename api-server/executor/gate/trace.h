// What happens in a session and when, recorded into a file (proto/wire/trace_ring.h), where that is
// wanted. Whoever has something to record has a pointer to it, null where it is not: off, it costs
// a branch. On, there are no locks on the data path and no system calls but the clock.
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
  // Something that was before: nanoseconds of CLOCK_MONOTONIC; a moment, where both are the same.
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
  // Nothing when it is not wanted, or, with a line in the log, when the file cannot be.
  static std::unique_ptr<Trace> open(const TraceOptions &options, uint64_t session);
  ~Trace();

  // The number of a name. Takes a lock; not for the data path.
  uint32_t name(const std::string &text);

  // ---- for the leader --------------------------------------------------------------------------

  // A command, from here until it has been carried out, by whichever thread that is.
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
  // All that came has been taken up.
  void taken();
  // The command being taken up starts work that is measured with this group.
  void joins(LaunchGroup &group) const;

  // ---- for any thread --------------------------------------------------------------------------

  // The command that this thread carries out moves so many bytes; its answer is ready.
  static void moves(uint64_t bytes) { notes_.bytes = bytes; }
  static void answers();

  // The gate has held work since then, until now.
  void held(const LaunchGroup &group, uint64_t since);
  void measured(const LaunchGroup &group, uint64_t from, uint64_t to);
  // How exactly moments of the device are known.
  void clock(uint64_t within);

 private:
  struct Notes {
    uint64_t bytes;
    uint64_t answered;
  };
  static thread_local Notes notes_;
  static constexpr unsigned kMostOps = 2048;
  // A posted command that takes longer is worth a record.
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

// When events of the device were, by the host's clock: some are recorded while nothing delays them,
// and others are placed by how far they are from the latest of those. One thread at a time, with
// the context bound.
class DeviceClock {
 public:
  DeviceClock(const Driver &driver, Trace *trace);
  ~DeviceClock() { close(); }
  // While nobody waits for the thread: looks at both clocks again, now and then.
  void refresh();
  // Nothing when it cannot be told.
  std::optional<uint64_t> time_of(CUevent event) const;
  void close();

 private:
  bool look(uint64_t patience, uint64_t *within);

  static constexpr uint64_t kEvery = 1'000'000'000;
  static constexpr uint64_t kPatience = 200'000;
  static constexpr uint64_t kFirstPatience = 5'000'000;

  const Driver &driver_;
  Trace *const trace_;
  CUstream stream_ = nullptr;  // with nothing in it but what is looked at
  CUevent known_ = nullptr;    // was at `at_`, half a window more or less
  CUevent spare_ = nullptr;
  uint64_t at_ = 0;
  uint64_t looked_ = 0;
};

}  // namespace outboard
