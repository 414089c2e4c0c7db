#include "device/output.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/library_at_work.h"
#include "base/log.h"
#include "base/session_limits.h"

namespace outboard {

namespace {

std::atomic<Output *> the_output{nullptr};

bool is_assertion(std::string_view text) {
  const size_t place = text.find(": block: [");
  return place != text.npos && text.find("] Assertion `", place) != text.npos;
}

// A guest decides how often a library complains.
void log_complaint(std::string_view text) {
  constexpr unsigned kMost = 100;
  static std::atomic<unsigned> said{0};
  const unsigned before = said.fetch_add(1, std::memory_order_relaxed);
  if (before >= kMost) return;
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  while (!text.empty() && (text.front() == '*' || text.front() == ' ')) text.remove_prefix(1);
  log_line(LogLevel::kWarn, 0,
           "cuBLAS refuses a call: " + std::string(text) +
               (before + 1 == kMost ? " (what else it refuses is not said any more)" : ""));
}

bool write_all(std::string_view text) {
  while (!text.empty()) {
    const ssize_t done = write(STDOUT_FILENO, text.data(), text.size());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return false;
    text.remove_prefix(static_cast<size_t>(done));
  }
  return true;
}

}  // namespace

Output *Output::installed() { return the_output.load(std::memory_order_acquire); }

Output &Output::install() {
  if (Output *already = installed()) return *already;
  fflush(stdout);
  int ends[2] = {-1, -1};
  // Only the end to read from does not wait: drivers do not expect that of standard output.
  if (pipe2(ends, O_CLOEXEC) < 0 || fcntl(ends[0], F_SETFL, O_NONBLOCK) < 0 ||
      dup2(ends[1], STDOUT_FILENO) < 0) {
    const std::string why = strerror(errno);
    for (int end : ends) {
      if (end >= 0) close(end);
    }
    throw Error("OB_INTERNAL", "standard output cannot be redirected: " + why);
  }
  close(ends[1]);
  // Lives as long as the process, like the file descriptor it stands for.
  auto *output = new Output(ends[0]);
  std::thread([output] { output->watch(); }).detach();
  cookie_io_functions_t functions{};
  functions.write = write_error;
  if (FILE *errors = fopencookie(output, "w", functions)) {
    setvbuf(errors, nullptr, _IONBF, 0);
    fflush(stderr);
    stderr = errors;
  }
  functions.write = write_printed;
  if (FILE *printed = fopencookie(output, "w", functions)) {
    // A complaint is one line, so that the thread that makes it also writes it.
    setvbuf(printed, nullptr, _IOLBF, 64 << 10);
    stdout = printed;
  }
  the_output.store(output, std::memory_order_release);
  return *output;
}

ssize_t Output::write_error(void *output, const char *text, size_t length) {
  auto *const self = static_cast<Output *>(output);
  if (!is_assertion({text, length})) return write(STDERR_FILENO, text, length);
  std::lock_guard lock(self->mutex_);
  if (self->assertions_.size() + length <= session_limits.assertion_bytes) {
    self->assertions_.append(text, length);
  }
  return static_cast<ssize_t>(length);
}

ssize_t Output::write_printed(void *, const char *printed, size_t length) {
  const std::string_view text(printed, length);
  const size_t begin = LibraryAtWork::here() ? text.find(" ** On entry to ") : text.npos;
  if (begin == text.npos) return write_all(text) ? static_cast<ssize_t>(length) : 0;
  const size_t end = std::min(text.find('\n', begin), length - 1) + 1;
  log_complaint(text.substr(begin, end - begin));
  // What kernels have printed stands around it.
  const bool done = write_all(text.substr(0, begin)) && write_all(text.substr(end));
  return done ? static_cast<ssize_t>(length) : 0;
}

std::string Output::take_assertions() {
  std::lock_guard lock(mutex_);
  return std::move(assertions_);
}

// Whoever prints never waits for a guest.
void Output::watch() {
  pthread_setname_np(pthread_self(), "outboard-output");
  pollfd readable{pipe_, POLLIN, 0};
  for (;;) {
    if (poll(&readable, 1, -1) < 0) continue;
    std::lock_guard lock(mutex_);
    take_in();
  }
}

// All that has been printed so far, with the lock.
void Output::take_in() {
  for (;;) {
    const ssize_t got = ::read(pipe_, part_.data(), part_.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return;
    text_.append(part_.data(), static_cast<size_t>(got));
    if (text_.size() - begin_ > session_limits.printed_bytes)
      begin_ = text_.size() - session_limits.printed_bytes;
    // What is gone gives its memory back now and then.
    if (begin_ > session_limits.printed_bytes / 4) {
      text_.erase(0, begin_);
      begin_ = 0;
    }
  }
}

void Output::skip() {
  take_assertions();
  fflush(stdout);
  std::lock_guard lock(mutex_);
  take_in();
  text_ = {};
  begin_ = 0;
}

size_t Output::read(char *to, size_t room) {
  fflush(stdout);
  std::lock_guard lock(mutex_);
  take_in();
  const size_t length = std::min(room, text_.size() - begin_);
  memcpy(to, text_.data() + begin_, length);
  begin_ += length;
  if (begin_ == text_.size()) {
    text_.clear();
    begin_ = 0;
    if (text_.capacity() > session_limits.printed_bytes / 4) text_.shrink_to_fit();
  }
  return length;
}

}  // namespace outboard
