// Uploads travel in parts of a mebibyte. Stretches of these are hashed and asked for; the server
// copies the parts that it has at once, and says which it has not: these are sent, and it keeps
// them under a hash of its own. A stretch is asked for while the answer of the one before it is on
// its way.
//
// Each byte reaches the device as it was when it was read: in a part that is known, by its hash; in
// one that is sent, by the socket. So a program that changes its memory meanwhile gets what it
// would get from any asynchronous copy.
#include "copies/upload_cache.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/part_hash.h"
#include "base/stats.h"
#include "guest_calls.h"
#include "memory/host_memory.h"
#include "setup/log.h"
#include "streams/room.h"
#include "wire/answer.h"
#include "wire/batch.h"
#include "wire/enter.h"

#define STRETCH_PARTS 8u
#define STRETCH_BYTES (STRETCH_PARTS * (uint64_t)WIRE_BULK_MAX)

// Hashing what nobody has seen before is time lost: after TRIES stretches in a row of which the
// server had nothing, only one in EACH is asked for, until it has something again. All are kept
// there.
#define TRIES 4u
#define EACH 8u

void upload_cache_start(struct session *session, uint64_t from) {
  session->upload_cache_from = from ? from : UINT64_MAX;
  atomic_store(&session->upload_cache_misses, 0);
}

static _Bool worth_asking(const struct session *session) {
  unsigned unknown = atomic_load_explicit(&session->upload_cache_misses, memory_order_relaxed);
  return unknown < TRIES || (unknown - TRIES) % EACH == EACH - 1;
}

static void note_stretch(struct session *session, _Bool known) {
  _Atomic unsigned *unknown = &session->upload_cache_misses;
  if (known)
    atomic_store_explicit(unknown, 0, memory_order_relaxed);
  else
    atomic_fetch_add_explicit(unknown, 1, memory_order_relaxed);
}

struct stretch {
  uint64_t destination, bytes;
  const char *source;  // the program's
  const char *at;      // where it is read
  _Bool asked;
  struct answer answer;
};

static uint64_t part_bytes(const struct stretch *stretch, unsigned part) {
  uint64_t left = stretch->bytes - (uint64_t)part * WIRE_BULK_MAX;
  return left < WIRE_BULK_MAX ? left : WIRE_BULK_MAX;
}

// Whether the program's memory can be read: what sends it is told by the system when it cannot, but
// what hashes it would crash. Where the system does not say, there is no cache.
#define PAGE 4096u
static _Bool can_be_read(struct session *session, const char *at, uint64_t bytes) {
  char read[WIRE_BULK_MAX / PAGE + 2];
  struct iovec pages[sizeof read], here = {read, 0};
  const char *end = at + bytes;
  for (const char *page = at; page < end;
       page = (const char *)(((uintptr_t)page / PAGE + 1) * PAGE))
    pages[here.iov_len++] = (struct iovec){(void *)page, 1};
  ssize_t got = process_vm_readv(getpid(), &here, 1, pages, here.iov_len, 0);
  if (got < 0 && errno != EFAULT) {
    log_info("uploads are not asked for by hash: process_vm_readv: %s", strerror(errno));
    upload_cache_start(session, 0);
  }
  return got == (ssize_t)here.iov_len;
}

static _Bool hash_stretch(struct session *session, const struct stretch *stretch,
                          struct part_hash *hashes, unsigned *count) {
  for (*count = 0; (uint64_t)*count * WIRE_BULK_MAX < stretch->bytes; ++*count) {
    const char *at = stretch->at + (uint64_t)*count * WIRE_BULK_MAX;
    uint64_t bytes = part_bytes(stretch, *count);
    if (!can_be_read(session, at, bytes)) return 0;
    part_hash(at, bytes, &hashes[*count]);
  }
  return 1;
}

static CUresult ask_for(struct session *session, struct stretch *stretch, uint64_t stream) {
  struct part_hash hashes[STRETCH_PARTS];
  unsigned count;
  stretch->asked = 0;
  if (!worth_asking(session)) return CUDA_SUCCESS;
  CUresult result =
      stream_await_operations(session, stream, STRETCH_PARTS * STREAM_OPERATIONS_OF_UPLOAD);
  if (result) return result;
  stretch->at = host_use(stretch->source);
  const _Bool hashed = hash_stretch(session, stretch, hashes, &count);
  host_used();
  if (!hashed) return CUDA_SUCCESS;
  uint32_t size = count * (uint32_t)sizeof *hashes;
  answer_init(&stretch->answer);
  struct wire_UploadAsk *frame =
      batch_ask(session, WIRE_UploadAsk, sizeof *frame + size, &stretch->answer);
  if (!frame) return guest_lost();
  frame->destination = stretch->destination;
  frame->length = stretch->bytes;
  frame->stream = stream;
  frame->hashes_size = size;
  batch_blob((unsigned char *)(frame + 1), hashes, size);
  batch_leave(session, stream);
  stretch->asked = 1;
  return CUDA_SUCCESS;
}

// Which parts are to be sent.
static CUresult collect(struct session *session, struct stretch *stretch, uint64_t *missing) {
  *missing = UINT64_MAX;
  CUresult result = CUDA_SUCCESS;
  if (stretch->asked) {
    result = batch_collect(session, &stretch->answer, sizeof(struct wire_UploadAsk_reply));
    if (!result) *missing = ((struct wire_UploadAsk_reply *)stretch->answer.reply)->missing;
    answer_free(&stretch->answer);
    stretch->asked = 0;
  }
  return result;
}

static CUresult send_rest(struct session *session, struct stretch *stretch, uint64_t stream,
                          uint64_t missing) {
  CUresult result = CUDA_SUCCESS;
  _Bool known = 0;
  for (unsigned part = 0; (uint64_t)part * WIRE_BULK_MAX < stretch->bytes && !result; part++) {
    uint64_t offset = (uint64_t)part * WIRE_BULK_MAX, bytes = part_bytes(stretch, part);
    if (missing >> part & 1) {
      result = stream_await_operations(session, stream, STREAM_OPERATIONS_OF_UPLOAD);
      stretch->at = host_use(stretch->source);
      if (!result)
        result = put_UploadKeep(session, stretch->destination + offset, stream, bytes,
                                stretch->at + offset);
      host_used();
      continue;
    }
    known = 1;
    stats_add(&guest_stats->cached_parts, 1);
    stats_add(&guest_stats->cached_bytes, bytes);
  }
  note_stretch(session, known);
  return result;
}

CUresult upload_cache_copy(const struct copy *copy) {
  struct session *session = copy->session;
  struct stretch stretches[2], *before = NULL;
  const char *source = box_pointer(&copy->from);
  uint64_t destination = copy->to.address, bytes = copy->bytes;
  CUresult result = CUDA_SUCCESS;
  for (unsigned turn = 0; before || bytes; turn ^= 1) {
    struct stretch *stretch = NULL;
    if (bytes && !result) {
      uint64_t part = bytes < STRETCH_BYTES ? bytes : STRETCH_BYTES;
      stretch = &stretches[turn];
      *stretch = (struct stretch){.destination = destination, .bytes = part, .source = source};
      destination += part;
      source += part;
      bytes -= part;
      result = ask_for(session, stretch, copy->stream);
    }
    if (before) {
      // Its answer has to come, whatever has failed.
      uint64_t missing;
      CUresult failed = collect(session, before, &missing);
      if (!result) result = failed;
      if (!result) result = send_rest(session, before, copy->stream, missing);
    }
    before = stretch;
    if (result) bytes = 0;
  }
  return result;
}
