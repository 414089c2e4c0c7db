// The guest's log: silent unless OUTBOARD_LOG asks for it, and then only to stderr or a file.
#ifndef OUTBOARD_LOG_H
#define OUTBOARD_LOG_H

enum log_level { LOG_OFF, LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG, LOG_TRACE };

extern enum log_level log_level;

// OUTBOARD_LOG: LEVEL or LEVEL:FILE. Returns a sentence on what is wrong, or NULL.
const char *log_configure(const char *value);

void log_write(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define LOG(level, ...)                                                             \
  do {                                                                              \
    if (__builtin_expect((level) <= log_level, 0)) log_write((level), __VA_ARGS__); \
  } while (0)
#define log_error(...) LOG(LOG_ERROR, __VA_ARGS__)
#define log_warn(...) LOG(LOG_WARN, __VA_ARGS__)
#define log_info(...) LOG(LOG_INFO, __VA_ARGS__)
#define log_debug(...) LOG(LOG_DEBUG, __VA_ARGS__)
#define log_trace(...) LOG(LOG_TRACE, __VA_ARGS__)

#endif
