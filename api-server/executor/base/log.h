// The executor's log: one JSON line per entry on file descriptor 2, in the form pino writes, so
// that the lines of both go into one stream. File descriptor 1 is not for logs (output.h).
#pragma once

#include <cstdint>
#include <string>

namespace outboard {

enum class LogLevel { kInfo = 30, kWarn = 40, kError = 50 };

// Writes a line. `session` is the number of the session that it is about; 0: none.
void log_line(LogLevel level, uint64_t session, const std::string &message);

// Drops lines below this level from now on. Tests that provoke errors by the thousand raise it.
void log_threshold(LogLevel level);

}  // namespace outboard
