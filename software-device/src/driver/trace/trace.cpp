#include "trace/trace.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <string_view>

#include "abi_descriptor.h"
#include "abi_result.h"
#include "streams/context.h"

namespace softdev::driver::trace {

std::atomic<bool> enabled{false};

namespace {

std::mutex mutex;
FILE *file = nullptr;
bool json = false;
int64_t began_at = 0;

double us(int64_t ns) { return static_cast<double>(ns) / 1e3; }

// Names and arguments are text of the program's: nothing of it may end the string.
std::string escaped(std::string_view text) {
  std::string out;
  for (char letter : text) {
    if (letter == '"' || letter == '\\') {
      out += '\\';
      out += letter;
    } else if (static_cast<unsigned char>(letter) < 0x20) {
      out += ' ';
    } else {
      out += letter;
    }
  }
  return out;
}

// One event of the trace format that Chrome and Perfetto read. The list needs no end, so that the
// trace of a program that was killed can be read too.
void event(int process, uint64_t row, std::string_view name, int64_t began, int64_t ended,
           std::string_view key, std::string_view detail) {
  std::lock_guard guard(mutex);
  fprintf(file,
          "{\"ph\":\"X\",\"pid\":%d,\"tid\":%" PRIu64
          ",\"ts\":%.3f,\"dur\":%.3f,\"name\":\"%s\",\"args\":{\"%s\":\"%s\"}},\n",
          process, row, us(began - began_at), us(ended - began), escaped(name).c_str(),
          std::string(key).c_str(), escaped(detail).c_str());
}

void name_row(int process, const char *name) {
  fprintf(file, "{\"ph\":\"M\",\"pid\":%d,\"name\":\"process_name\",\"args\":{\"name\":\"%s\"}},\n",
          process, name);
}

// A child has our file and none of our devices.
void in_child() { enabled.store(false, std::memory_order_relaxed); }

constexpr int kHost = 0;  // processes of the timeline: the program, and the devices behind it
constexpr int kFirstDevice = 1;

}  // namespace

bool open(const char *path, std::string *problem) {
  std::string_view name = path;
  json = name.ends_with(".json");
  const int fd = descriptor_above(
      name == "-" ? dup(STDERR_FILENO)
                  : ::open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644));
  file = fd < 0 ? nullptr : fdopen(fd, "w");
  if (!file) {
    *problem = std::string(path) + " cannot be written: " + std::strerror(errno);
    return false;
  }
  setvbuf(file, nullptr, _IOLBF, 0);
  began_at = now_ns();
  if (json) {
    fputs("[\n", file);
    name_row(kHost, "calls");
    name_row(kFirstDevice, "device 0");
  }
  pthread_atfork(nullptr, nullptr, in_child);
  enabled.store(true, std::memory_order_relaxed);
  return true;
}

std::unique_ptr<Span> span(const char *format, ...) {
  if (!on()) return nullptr;
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  auto made = std::make_unique<Span>();
  made->what = text;
  return made;
}

void finished(const Span &span, int64_t ended) {
  if (!on() || span.started_ns == 0) return;
  if (json) {
    std::string_view what = span.what;
    event(kFirstDevice + span.device, span.stream, what.substr(0, what.find(" <")), span.started_ns,
          ended, "what", what);
    return;
  }
  std::lock_guard guard(mutex);
  fprintf(file, "%12.3f device %d stream %" PRIu64 ": %s [%.1f us]\n",
          us(span.started_ns - began_at), span.device, span.stream, span.what.c_str(),
          us(ended - span.started_ns));
}

void called(const char *name, const std::string &arguments, CUresult result, int64_t began,
            int64_t ended) {
  const char *known = abi_result_name(result);
  std::string outcome = known ? known : std::to_string(result);
  if (json) {
    event(kHost, thread_number(), name, began, ended, "call",
          std::string(name) + arguments + " = " + outcome);
    return;
  }
  std::lock_guard guard(mutex);
  fprintf(file, "%12.3f thread %" PRIu64 ": %s%s = %s [%.1f us]\n", us(began - began_at),
          thread_number(), name, arguments.c_str(), outcome.c_str(), us(ended - began));
}

}  // namespace softdev::driver::trace
