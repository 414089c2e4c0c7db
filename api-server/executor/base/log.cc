#include "base/log.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>

namespace outboard {

namespace {

std::atomic<int> threshold{static_cast<int>(LogLevel::kInfo)};

std::string json_string(const std::string &text) {
  std::string quoted = "\"";
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (byte < 0x20 || byte >= 0x7f) {
      char escape[8];
      snprintf(escape, sizeof escape, "\\u%04x", byte);
      quoted += escape;
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

}  // namespace

void log_threshold(LogLevel level) { threshold = static_cast<int>(level); }

void log_line(LogLevel level, uint64_t session, const std::string &message) {
  if (static_cast<int>(level) < threshold.load(std::memory_order_relaxed)) return;
  const auto now = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::system_clock::now().time_since_epoch());
  std::string line = "{\"level\":" + std::to_string(static_cast<int>(level)) +
                     ",\"time\":" + std::to_string(now.count()) + ",\"name\":\"executor\"";
  if (session) line += ",\"session\":\"" + std::to_string(session) + "\"";
  line += ",\"msg\":" + json_string(message) + "}\n";
  // One write, so that lines of several threads stay whole. A log that cannot be written is no
  // reason to stop serving.
  if (write(STDERR_FILENO, line.data(), line.size()) < 0) return;
}

}  // namespace outboard
