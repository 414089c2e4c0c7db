#include "call.h"

#include <string.h>

#include "cublas_calls.h"
#include "door.h"
#include "handle.h"
#include "learnt.h"
#include "setup/log.h"
#include "status.h"
#include "sure.h"
#include "told.h"

// The words of a call and its scalars behind them.
struct packed {
  uint64_t words[LIBRARY_PARAMETERS_MAX + LIBRARY_SCALARS_MAX / sizeof(uint64_t)];
  uint32_t count;
  _Bool answers;  // it has results for the host's memory
  struct learnt_key key;
};

static uint32_t words_of(uint32_t bytes) { return (bytes + 7) / 8; }

// STATUS_NOT_SUPPORTED for a type of which nobody knows how large it is.
static int pack(const struct library_call *call, uint32_t function, uint32_t mode,
                const uint64_t *words, struct packed *packed) {
  uint32_t at = call->count;
  packed->answers = 0;
  packed->key.value = function;
  learnt_add(&packed->key, mode);
  for (uint32_t i = 0; i < call->count; i++) {
    const struct library_argument *argument = &call->arguments[i];
    const _Bool here = library_in_host(argument, mode);
    const _Bool number = argument->kind == LIBRARY_VALUE;
    packed->words[i] = here ? 0 : words[i];
    learnt_add(&packed->key, number ? words[i] : words[i] != 0);
    if (!here) continue;
    const uint32_t bytes = library_element(argument, words) * argument->count;
    if (!bytes) return STATUS_NOT_SUPPORTED;
    const void *pointer = (const void *)(uintptr_t)words[i];
    if (!pointer && argument->optional) {
      packed->words[i] = LIBRARY_NONE;
      continue;
    }
    if (!pointer) return STATUS_INVALID_VALUE;
    packed->answers |= library_receives(argument, mode);
    if (!library_sends(argument, mode)) continue;
    packed->words[at + words_of(bytes) - 1] = 0;
    memcpy(&packed->words[at], pointer, bytes);
    at += words_of(bytes);
  }
  packed->count = at;
  return STATUS_SUCCESS;
}

// Puts results where the program wants them; STATUS_INTERNAL_ERROR where they are not those that
// were asked for.
static int unpack(const struct library_call *call, uint32_t mode, const uint64_t *words,
                  const struct remote_answer *answer) {
  uint32_t at = 0;
  for (uint32_t i = 0; i < call->count; i++) {
    const struct library_argument *argument = &call->arguments[i];
    if (!library_receives(argument, mode)) continue;
    const uint32_t bytes = library_element(argument, words) * argument->count;
    if (at + bytes > answer->size) return STATUS_INTERNAL_ERROR;
    memcpy((void *)(uintptr_t)words[i], &answer->results[at / 8], bytes);
    at += (bytes + 15) & ~15u;
  }
  return STATUS_SUCCESS;
}

static struct remote_call remote(const struct cublas_handle *handle, uint32_t function,
                                 const uint64_t *words, uint32_t count) {
  return (struct remote_call){.library = LIBRARY_CUBLAS,
                              .handle = handle->wire,
                              .stream = handle->stream,
                              .function = function,
                              .mode = (uint32_t)handle->pointer_mode,
                              .arguments = words,
                              .size = count * 8};
}

// The status of a call that the server has not answered.
static int not_answered(CUresult result, uint32_t function) {
  if (result == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
    door_say_captured(cublas_calls[function].name);
  return status_of(result);
}

int call_plain(struct cublas_handle *handle, uint32_t function, const uint64_t *words,
               uint32_t count, _Bool wait) {
  const struct remote_call call = remote(handle, function, words, count);
  struct remote_answer answer;
  const CUresult result = door()->remote_call(&call, wait ? &answer : NULL);
  return result ? not_answered(result, function) : wait ? answer.status : STATUS_SUCCESS;
}

// Sends what was set since the last call.
static int send_set(struct cublas_handle *handle) {
  const struct {
    unsigned bit;
    uint32_t function, count;
    uint64_t words[2];
  } all[] = {
      {SET_STREAM, CUBLAS_cublasSetStream_v2, 1, {0}},
      {SET_WORKSPACE,
       CUBLAS_cublasSetWorkspace_v2,
       2,
       {(uintptr_t)handle->workspace, handle->workspace_size}},
      {SET_ATOMICS, CUBLAS_cublasSetAtomicsMode, 1, {(uint64_t)(int64_t)handle->atomics}},
      {SET_MATH, CUBLAS_cublasSetMathMode, 1, {(uint64_t)(int64_t)handle->math}},
      {SET_SM_COUNT, CUBLAS_cublasSetSmCountTarget, 1, {(uint64_t)(int64_t)handle->sm_count}},
      {SET_EMULATION, CUBLAS_cublasSetEmulationStrategy, 1, {(uint64_t)handle->emulation}},
      {SET_ENVIRONMENT, CUBLAS_cublasSetEnvironmentMode, 1, {(uint64_t)handle->environment}},
  };
  for (size_t i = 0; handle->set && i < sizeof all / sizeof *all; i++) {
    if (!(handle->set & all[i].bit)) continue;
    const int status = call_plain(handle, all[i].function, all[i].words, all[i].count, 0);
    if (status) return status;
    handle->set &= ~all[i].bit;
  }
  return STATUS_SUCCESS;
}

// What the handle was told may decide whether the library can do it.
static struct learnt_key with_settings(struct learnt_key key, const struct cublas_handle *handle) {
  learnt_add(&key, (uint64_t)(uint32_t)handle->math << 32 | (uint32_t)handle->atomics);
  learnt_add(&key, (uint64_t)(uint32_t)handle->sm_count);
  learnt_add(&key, (uint64_t)handle->emulation << 32 | (uint32_t)handle->environment);
  learnt_add(&key, handle->workspace ? handle->workspace_size : UINT64_MAX);
  return key;
}

static int send_call(struct cublas_handle *handle, uint32_t function, const uint64_t *words,
                     const struct packed *packed) {
  const struct library_call *row = &cublas_calls[function];
  struct remote_call call = remote(handle, function, packed->words, packed->count);
  struct learnt_key key = with_settings(packed->key, handle), alike = {0};
  const struct learnt_key here = learnt_here(key);
  // What is known of it is not looked at again.
  const _Bool is_sure = !learnt(here) && sure(row, function, words, &alike);
  if (is_sure) key = with_settings(alike, handle);
  const struct learnt_key widely = learnt_here(key);
  if (!packed->answers && (learnt_alike(here, widely) ||
                           (told_take(LIBRARY_CUBLAS, NULL) && learnt_alike(here, widely))))
    return not_answered(door()->remote_call(&call, NULL), function);
  // What has results for the host is waited for each time.
  call.key = packed->answers ? 0 : key.value;
  struct remote_answer answer;
  const CUresult result = door()->remote_call(&call, &answer);
  if (result) return not_answered(result, function);
  if (answer.status) {
    log_debug("%s: the server's library says %d", row->name, answer.status);
    return answer.status;
  }
  learn(here);
  learn(widely);
  return unpack(row, call.mode, words, &answer);
}

int cublas_call(struct cublas_handle *given, uint32_t function, const uint64_t *words) {
  struct cublas_handle *handle = handle_use(given);
  if (!handle) return STATUS_NOT_INITIALIZED;
  struct packed packed;
  int status =
      pack(&cublas_calls[function], function, (uint32_t)handle->pointer_mode, words, &packed);
  if (!status) status = send_set(handle);
  if (!status) status = send_call(handle, function, words, &packed);
  handle_used(handle);
  log_trace("%s: %d", cublas_calls[function].name, status);
  return status;
}
