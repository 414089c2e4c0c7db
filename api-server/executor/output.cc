#include "output.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <utility>

#include "error.h"

namespace outboard {

namespace {

std::atomic<Output *> the_output{nullptr};

// A program that asserts in a loop of launches cannot make us keep more.
constexpr size_t kMostAssertions = 1 << 20;

bool is_assertion(std::string_view text) {
  const size_t place = text.find(": block: [");
  return place != text.npos && text.find("] Assertion `", place) != text.npos;
}

}  // namespace

Output *Output::installed() { return the_output.load(std::memory_order_acquire); }

Output &Output::install() {
  if (Output *already = installed()) return *already;
  fflush(stdout);
  const int fd = memfd_create("outboard-output", MFD_CLOEXEC);
  if (fd < 0 || fcntl(fd, F_SETFL, O_APPEND) < 0 || dup2(fd, STDOUT_FILENO) < 0) {
    const std::string why = strerror(errno);
    if (fd >= 0) close(fd);
    throw Error("OB_INTERNAL", "standard output cannot be redirected: " + why);
  }
  // Lives as long as the process, like the file descriptor it stands for.
  auto *output = new Output(fd);
  cookie_io_functions_t functions{};
  functions.write = write_error;
  if (FILE *errors = fopencookie(output, "w", functions)) {
    setvbuf(errors, nullptr, _IONBF, 0);
    fflush(stderr);
    stderr = errors;
  }
  the_output.store(output, std::memory_order_release);
  return *output;
}

ssize_t Output::write_error(void *output, const char *text, size_t length) {
  auto *const self = static_cast<Output *>(output);
  if (!is_assertion({text, length})) return write(STDERR_FILENO, text, length);
  std::lock_guard lock(self->mutex_);
  if (self->assertions_.size() + length <= kMostAssertions) {
    self->assertions_.append(text, length);
  }
  return static_cast<ssize_t>(length);
}

std::string Output::take_assertions() {
  std::lock_guard lock(mutex_);
  return std::move(assertions_);
}

void Output::skip() {
  take_assertions();
  fflush(stdout);
  const off_t end = lseek(fd_, 0, SEEK_END);
  if (end > 0) position_ = static_cast<uint64_t>(end);
}

size_t Output::read(char *to, size_t room) {
  fflush(stdout);
  const ssize_t got = pread(fd_, to, room, static_cast<off_t>(position_));
  if (got <= 0) return 0;
  position_ += static_cast<uint64_t>(got);
  // Gives back the memory of what was read; a truncation could lose what is being written now.
  constexpr uint64_t kStep = 1 << 20;
  if (position_ - freed_ >= kStep) {
    const uint64_t whole = (position_ - freed_) / kStep * kStep;
    fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(freed_),
              static_cast<off_t>(whole));
    freed_ += whole;
  }
  return static_cast<size_t>(got);
}

}  // namespace outboard
