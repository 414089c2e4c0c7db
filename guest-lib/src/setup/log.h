// The guest's log: silent unless OUTBOARD_LOG asks for it, and then only to stderr or a file. The
// program may ask for lines, too (kept_log.c).
#ifndef OUTBOARD_LOG_H
#define OUTBOARD_LOG_H

#include <stddef.h>

enum log_level { LOG_OFF, LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG, LOG_TRACE };

// Of the lines that somebody wants.
extern _Atomic enum log_level log_level;

// OUTBOARD_LOG: LEVEL or LEVEL:FILE. Returns a sentence on what is wrong, or NULL.
const char *log_configure(const char *value);
// The same with what the environment says, if anything; what is wrong with it is said in the log.
void log_open(void);

// From now on it gets each line of level error and warn, without the time and a line's end, on the
// thread that found what it says, which may hold locks.
void log_observe(void (*observer)(enum log_level level, const char *text, size_t length));

// From now on it gets each error likewise, until NULL.
void log_tell(void (*teller)(const char *text, size_t length));

// Puts a question mark in place of each control character: what is said comes from servers, modules
// and the environment, too, and must neither lead a terminal nor pass for a line of its own.
void log_clean(char *text, size_t length);

// The calling thread says nothing while it is set.
extern __thread _Bool log_hushed;

// Writes a line, cleaned.
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
