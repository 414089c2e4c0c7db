// What the library found wrong, for programs that ask (cuLogs*; PyTorch does): the last lines of
// levels error and warn. Nothing is kept before a program asks.
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "abi_descriptor.h"
#include "guest_calls.h"
#include "setup/log.h"

enum { MOST_LINES = 100, LINE_SIZE = 512, MOST_CALLBACKS = 32 };

struct callback {
  CUlogsCallback function;
  void *data;
  uintptr_t number;  // 0: the place is free
};

static struct {
  pthread_mutex_t lock;
  char (*lines)[LINE_SIZE];  // the last MOST_LINES, each at its number modulo that
  unsigned end;              // number of the next line; numbers are what iterators are
  struct callback callbacks[MOST_CALLBACKS];
  uintptr_t last_number;
} kept = {.lock = PTHREAD_MUTEX_INITIALIZER};

static unsigned first_kept(void) { return kept.end > MOST_LINES ? kept.end - MOST_LINES : 0; }

static void keep(enum log_level level, const char *text, size_t length) {
  char line[LINE_SIZE];
  int size = snprintf(line, sizeof line, "[%s] %.*s", level == LOG_ERROR ? "ERROR" : "WARN",
                      (int)length, text);
  if (size >= LINE_SIZE) size = LINE_SIZE - 1;
  struct callback callbacks[MOST_CALLBACKS];
  pthread_mutex_lock(&kept.lock);
  memcpy(kept.lines[kept.end++ % MOST_LINES], line, (size_t)size + 1);
  memcpy(callbacks, kept.callbacks, sizeof callbacks);
  pthread_mutex_unlock(&kept.lock);
  for (int i = 0; i < MOST_CALLBACKS; i++)
    if (callbacks[i].number)
      callbacks[i].function(callbacks[i].data,
                            level == LOG_ERROR ? CU_LOG_LEVEL_ERROR : CU_LOG_LEVEL_WARNING, line,
                            (size_t)size);
}

// With the lock held.
static CUresult begin(void) {
  if (kept.lines) return CUDA_SUCCESS;
  kept.lines = calloc(MOST_LINES, sizeof *kept.lines);
  if (!kept.lines) return CUDA_ERROR_OUT_OF_MEMORY;
  log_observe(keep);
  return CUDA_SUCCESS;
}

CUresult guest_cuLogsRegisterCallback(CUlogsCallback callbackFunc, void *userData,
                                      CUlogsCallbackHandle *callback_out) {
  if (!callbackFunc) return CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_lock(&kept.lock);
  CUresult result = begin();
  int place = 0;
  while (place < MOST_CALLBACKS && kept.callbacks[place].number) place++;
  if (!result && place == MOST_CALLBACKS) result = CUDA_ERROR_OUT_OF_MEMORY;
  if (!result) {
    kept.callbacks[place] = (struct callback){callbackFunc, userData, ++kept.last_number};
    if (callback_out) *callback_out = (CUlogsCallbackHandle)kept.last_number;
  }
  pthread_mutex_unlock(&kept.lock);
  return result;
}

CUresult guest_cuLogsUnregisterCallback(CUlogsCallbackHandle callback) {
  CUresult result = CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_lock(&kept.lock);
  for (int i = 0; callback && i < MOST_CALLBACKS; i++) {
    if (kept.callbacks[i].number != (uintptr_t)callback) continue;
    kept.callbacks[i].number = 0;
    result = CUDA_SUCCESS;
  }
  pthread_mutex_unlock(&kept.lock);
  return result;
}

CUresult guest_cuLogsCurrent(CUlogIterator *iterator_out, unsigned int flags) {
  if (!iterator_out || flags) return CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_lock(&kept.lock);
  CUresult result = begin();
  if (!result) *iterator_out = kept.end;
  pthread_mutex_unlock(&kept.lock);
  return result;
}

// The lines from `iterator` on, or all, each with its end; as they are at most this long, `text`
// has room for them. The iterator moves behind them.
#define MOST_TEXT (MOST_LINES * (LINE_SIZE + 1) + 1)
static size_t lines_from(CUlogIterator *iterator, char *text) {
  size_t size = 0;
  pthread_mutex_lock(&kept.lock);
  unsigned from = iterator && *iterator > first_kept() ? *iterator : first_kept();
  for (; from < kept.end; from++)
    size += (size_t)sprintf(text + size, "%s\n", kept.lines[from % MOST_LINES]);
  if (iterator) *iterator = kept.end;
  pthread_mutex_unlock(&kept.lock);
  text[size] = 0;
  return size;
}

CUresult guest_cuLogsDumpToFile(CUlogIterator *iterator, const char *pathToFile,
                                unsigned int flags) {
  if (!pathToFile || flags) return CUDA_ERROR_INVALID_VALUE;
  char *text = malloc(MOST_TEXT);
  if (!text) return CUDA_ERROR_OUT_OF_MEMORY;
  int file = descriptor_above(open(pathToFile, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  CUresult result = file < 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
  size_t size = result ? 0 : lines_from(iterator, text);
  for (size_t done = 0; done < size && !result;) {
    ssize_t part = write(file, text + done, size - done);
    if (part > 0)
      done += (size_t)part;
    else if (errno != EINTR)
      result = CUDA_ERROR_OPERATING_SYSTEM;
  }
  if (file >= 0) close(file);
  free(text);
  return result;
}

CUresult guest_cuLogsDumpToMemory(CUlogIterator *iterator, char *buffer, size_t *size,
                                  unsigned int flags) {
  if (!buffer || !size || flags) return CUDA_ERROR_INVALID_VALUE;
  char *text = malloc(MOST_TEXT);
  if (!text) return CUDA_ERROR_OUT_OF_MEMORY;
  CUlogIterator moved = iterator ? *iterator : 0;
  size_t length = lines_from(iterator ? &moved : NULL, text);
  CUresult result = length < *size ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  if (!result) {
    memcpy(buffer, text, length + 1);
    *size = length;
    if (iterator) *iterator = moved;
  }
  free(text);
  return result;
}
