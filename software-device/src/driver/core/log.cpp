#include "core/log.h"

#include <atomic>
#include <cstdarg>
#include <cstdio>

#include "abi_result.h"

namespace softdev::driver {
namespace {

std::atomic<Level> threshold{Level::kError};
constexpr const char *kNames[] = {"error", "warn", "info", "debug"};

void write_line(Level level, const char *text) {
  // One call, so that lines of several threads do not mix.
  fprintf(stderr, "software-device: %s: %s\n", kNames[static_cast<int>(level)], text);
}

}  // namespace

void set_log_level(Level level) { threshold = level; }

bool log_enabled(Level level) { return level <= threshold.load(std::memory_order_relaxed); }

void log(Level level, const char *format, ...) {
  if (!log_enabled(level)) return;
  char text[2048];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  write_line(level, text);
}

CUresult refuse(Refusal refusal, const char *format, ...) {
  if (!log_enabled(Level::kInfo)) return refusal.result;
  char reason[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(reason, sizeof reason, format, arguments);
  va_end(arguments);
  const char *name = abi_result_name(refusal.result);
  char text[1280];
  snprintf(text, sizeof text, "%s: %s (%s)", refusal.where, reason, name ? name : "unknown result");
  write_line(Level::kInfo, text);
  return refusal.result;
}

}  // namespace softdev::driver
