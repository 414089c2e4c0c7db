// What the library writes into its log.
#ifndef TEST_LOG_CAPTURE_H
#define TEST_LOG_CAPTURE_H

// From now on the log goes to memory, from `level` ("error", "debug", ...) on.
void log_capture(const char *level);
// What was logged since the last call, NUL-terminated; valid until the next.
const char *log_captured(void);

#endif
