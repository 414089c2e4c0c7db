#include "core/time_slices.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <thread>

#include "abi_descriptor.h"
#include "core/log.h"

namespace softdev::driver {
namespace {

// As long as NVIDIA's are by default.
constexpr std::chrono::milliseconds kSlice{2};

// Bytes of the file that are locked: by whom it is the turn of, and by whom it is next.
constexpr off_t kNow = 0, kNext = 1;

flock of_process(short type, off_t byte) {
  flock lock{};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = byte;
  lock.l_len = 1;
  return lock;
}

// The kernel says EDEADLK where processes wait for one another's turns on several devices, though
// they have threads that go on; and EINTR for a signal.
void wait_for(int file, off_t byte) {
  flock lock = of_process(F_WRLCK, byte);
  while (fcntl(file, F_SETLKW, &lock) < 0)
    if (errno != EINTR) std::this_thread::sleep_for(kSlice / 2);
}

void unlock(int file, off_t byte) {
  flock lock = of_process(F_UNLCK, byte);
  fcntl(file, F_SETLK, &lock);
}

}  // namespace

std::unique_ptr<TimeSlices> TimeSlices::open(const std::string &path) {
  const int file = descriptor_above(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (file < 0) {
    log(Level::kError, "%s: %s", path.c_str(), strerror(errno));
    return nullptr;
  }
  return std::unique_ptr<TimeSlices>(new TimeSlices(file));
}

TimeSlices::~TimeSlices() { close(file_); }

void TimeSlices::enter() {
  std::unique_lock lock(mutex_);
  enter(lock);
}

void TimeSlices::enter(std::unique_lock<std::mutex> &lock) {
  while (turn_ != Turn::kOurs || over_) {
    if (turn_ != Turn::kOthers) {
      changed_.wait(lock);
      continue;
    }
    turn_ = Turn::kAwaited;
    lock.unlock();
    wait_for(file_, kNext);
    wait_for(file_, kNow);
    unlock(file_, kNext);
    lock.lock();
    turn_ = Turn::kOurs;
    over_ = false;
    until_ = (Clock::now() + kSlice).time_since_epoch().count();
    changed_.notify_all();
  }
  ++inside_;
}

void TimeSlices::leave() {
  std::lock_guard lock(mutex_);
  if (--inside_ == 0) give_back();
}

void TimeSlices::glance() {
  const auto now = [] { return Clock::now().time_since_epoch().count(); };
  if (now() < until_.load(std::memory_order_relaxed)) return;
  std::unique_lock lock(mutex_);
  if (now() < until_) return;
  if (!over_ && !somebody_waits()) {
    until_ = (Clock::now() + kSlice).time_since_epoch().count();
    return;
  }
  over_ = true;
  if (--inside_ == 0) give_back();
  enter(lock);
}

void TimeSlices::give_back() {
  unlock(file_, kNow);
  turn_ = Turn::kOthers;
  over_ = false;
  changed_.notify_all();
}

bool TimeSlices::somebody_waits() const {
  flock lock = of_process(F_WRLCK, kNext);
  return fcntl(file_, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

}  // namespace softdev::driver
