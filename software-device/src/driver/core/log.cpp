#include "core/log.h"

#include <dlfcn.h>
#include <execinfo.h>

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "abi_result.h"

namespace softdev::driver {
namespace {

std::atomic<Level> threshold{Level::kError};
std::atomic<LogObserver> observer{nullptr};
constexpr const char *kNames[] = {"error", "warn", "info", "debug"};

void write_line(Level level, const char *text) {
  // One call, so that lines of several threads do not mix.
  fprintf(stderr, "software-device: %s: %s\n", kNames[static_cast<int>(level)], text);
}

// The entry point that the program called. Refusals come from deep inside, so the stack is asked:
// entry points are the only functions of this library that have a name in it.
const char *entry_point() {
  void *frames[24];
  int count = backtrace(frames, 24);
  for (int i = 0; i < count; i++) {
    Dl_info symbol;
    if (dladdr(frames[i], &symbol) && symbol.dli_sname && strncmp(symbol.dli_sname, "cu", 2) == 0)
      return symbol.dli_sname;
  }
  return "a call";
}

}  // namespace

void set_log_level(Level level) { threshold = level; }

void observe_log(LogObserver with) { observer = with; }

bool log_enabled(Level level) { return level <= threshold.load(std::memory_order_relaxed); }

void log(Level level, const char *format, ...) {
  LogObserver observing = observer.load(std::memory_order_acquire);
  if (!log_enabled(level) && !observing) return;
  char text[2048];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  if (observing) observing(level, text);
  if (log_enabled(level)) write_line(level, text);
}

CUresult refuse(CUresult result, const char *format, ...) {
  LogObserver observing = observer.load(std::memory_order_acquire);
  if (!log_enabled(Level::kInfo) && !observing) return result;
  char reason[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(reason, sizeof reason, format, arguments);
  va_end(arguments);
  const char *name = abi_result_name(result);
  char text[1280];
  snprintf(text, sizeof text, "%s: %s (%s)", entry_point(), reason, name ? name : "unknown result");
  if (observing) observing(Level::kError, text);
  if (log_enabled(Level::kInfo)) write_line(Level::kInfo, text);
  return result;
}

}  // namespace softdev::driver
