// Marks in streams, of which the guest is told when they are passed. It counts by them how many
// operations a stream has and waits where the driver would keep the leader waiting
// (guest-lib/src/streams/room.h).
//
// A thread of their own asks for all marks in turn: any stream may be kept back for long, and none
// may keep the news of another. It asks less often the longer nothing is passed.
//
// Lock: mutex_, innermost; the driver is not called and nothing is sent with it held.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "base/driver.h"

namespace outboard {

class StreamMarks {
 public:
  // The thread calls `bind` first; `passed` tells the guest that its stream has come to `place`.
  StreamMarks(const Driver &driver, std::function<void()> bind,
              std::function<void(uint64_t stream, uint64_t place)> passed)
      : driver_(driver), bind_(std::move(bind)), passed_(std::move(passed)) {}
  StreamMarks(const StreamMarks &) = delete;
  StreamMarks &operator=(const StreamMarks &) = delete;

  // ---- for the leader --------------------------------------------------------------------------

  // How many marks there are that were not passed when they were last asked for.
  size_t count();
  // Puts a mark behind what the stream has. Where there is no event or no thread to be had the
  // guest is told at once, and the driver's result is returned.
  CUresult put(CUstream stream, uint64_t handle, uint64_t place);
  // Tells the guest of all marks, when the device has come to rest, and ends the thread until there
  // is another one.
  void end();

 private:
  struct Mark {
    CUevent event;
    uint64_t stream, place;
  };
  void watch();
  void find_passed(const std::vector<Mark> &marks, std::vector<Mark> *passed) const;

  const Driver &driver_;
  const std::function<void()> bind_;
  const std::function<void(uint64_t stream, uint64_t place)> passed_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Mark> marks_;      // in the order in which they were put
  std::vector<CUevent> events_;  // for further marks
  bool over_ = false;
  std::thread thread_;
};

}  // namespace outboard
