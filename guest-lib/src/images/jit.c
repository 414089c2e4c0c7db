#include "images/jit.h"

#include <string.h>

#include "setup/clock.h"
#include "setup/log.h"

void jit_go_on(struct jit *jit) { jit->began_ns = clock_ns() - jit->spent_ns; }
void jit_pause(struct jit *jit) { jit->spent_ns = clock_ns() - jit->began_ns; }

struct jit jit_begin(unsigned count, CUjit_option *options, void **values) {
  return (struct jit){count, options, values, count ? clock_ns() : 0, 0};
}

void jit_read(const struct jit *jit, struct jit_options *options) {
  options->count = 0;
  for (unsigned i = 0; i < jit->count && options->count < WIRE_JIT_OPTIONS; i++) {
    uint64_t value = (uint64_t)(uintptr_t)jit->values[i];
    switch (jit->options[i]) {
      case CU_JIT_MAX_REGISTERS:
      // How many threads it took account of is left at what was asked for.
      case CU_JIT_THREADS_PER_BLOCK:
      case CU_JIT_OPTIMIZATION_LEVEL:
      case CU_JIT_TARGET:
      case CU_JIT_FALLBACK_STRATEGY:
      case CU_JIT_GENERATE_DEBUG_INFO:
      case CU_JIT_LOG_VERBOSE:
      case CU_JIT_GENERATE_LINE_INFO:
      case CU_JIT_CACHE_MODE:
      case CU_JIT_OPTIMIZE_UNUSED_DEVICE_VARIABLES:
      case CU_JIT_POSITION_INDEPENDENT_CODE:
      case CU_JIT_MIN_CTA_PER_SM:
      case CU_JIT_MAX_THREADS_PER_BLOCK:
      case CU_JIT_OVERRIDE_DIRECTIVE_VALUES:
      // Room for messages: the buffers themselves stay here.
      case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
      case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
        options->travel[options->count++] =
            (struct wire_jit_option){(uint32_t)jit->options[i], 0, value & UINT32_MAX};
        break;
      default:
        break;
    }
  }
}

uint64_t jit_read_texts(const void *tail, uint64_t room, uint32_t errors, uint32_t info,
                        struct jit_texts *texts) {
  uint64_t behind = ((uint64_t)errors + 7) & ~7ull;
  uint64_t whole = behind + (((uint64_t)info + 7) & ~7ull);
  *texts = (struct jit_texts){0};
  if (whole > room) return UINT64_MAX;
  texts->errors = (struct jit_text){tail, errors};
  texts->info = (struct jit_text){(const char *)tail + behind, info};
  return whole;
}

// Sizes lie in the pointers themselves, and the used size goes back the same way.
static void fill(const struct jit *jit, CUjit_option buffer_option, CUjit_option size_option,
                 struct jit_text text) {
  char *buffer = NULL;
  void **size = NULL;
  for (unsigned i = 0; i < jit->count; i++) {
    if (jit->options[i] == buffer_option) buffer = jit->values[i];
    if (jit->options[i] == size_option) size = &jit->values[i];
  }
  if (!size) return;
  size_t room = (uintptr_t)*size & UINT32_MAX, used = 0;
  if (buffer && room) {
    used = text.length < room ? text.length : room - 1;
    if (used) memcpy(buffer, text.start, used);
    buffer[used] = 0;
  }
  *size = (void *)(uintptr_t)used;
}

void jit_say_refused(CUresult result, struct jit_text errors) {
  // Its first line: the log has one line for each thing.
  const char *end = errors.length ? memchr(errors.start, '\n', errors.length) : NULL;
  const int length = (int)(end ? (size_t)(end - errors.start) : errors.length);
  log_error("the driver refused a module, or a part of a link: error %d%s%.*s", result,
            length ? ": " : "", length, length ? errors.start : "");
}

void jit_report(const struct jit *jit, struct jit_text errors, struct jit_text info) {
  if (!jit->count) return;
  fill(jit, CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, errors);
  fill(jit, CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, info);
  float milliseconds = (float)(clock_ns() - jit->began_ns) / 1e6f;
  for (unsigned i = 0; i < jit->count; i++)
    if (jit->options[i] == CU_JIT_WALL_TIME) memcpy(&jit->values[i], &milliseconds, 4);
}
