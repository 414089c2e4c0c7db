#include "wire/region.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "abi_descriptor.h"
#include "base/ablation.h"
#include "base/populate.h"
#include "guest_calls.h"
#include "setup/log.h"
#include "wire/answer.h"
#include "wire/batch.h"
#include "wire/connection.h"

// Headers of old systems do not have these.
#ifndef F_GET_SEALS
#define F_GET_SEALS 1034
#define F_SEAL_SHRINK 2
#endif

#define PAGE 4096u
// Copies from this size on go through the region, once so much has been copied by the socket that
// mapping it is little beside that. What is smaller takes as long either way.
#define COPY_LEAST (256u << 10)
#define OPEN_AFTER (16u << 20)
// More than this is nothing that a server of ours offers.
#define SLOT_MOST (4u << 20)
#define REGION_MOST (24u << 20)
// So many parts of uploads go by the socket after slots could not be had.
#define PARTS_WITHOUT 64u

struct region {
  pthread_mutex_t lock;  // of opening, and of the slots for uploads
  _Atomic uint64_t copied;
  _Atomic int descriptor;  // one more than it is
  unsigned char *bytes;
  uint64_t slot;
  uint32_t uploads, downloads;
  uint64_t free, posted;  // slots for uploads; the others are being filled
  uint64_t asked;         // posted before the question that is open; 0: none is
  struct answer answer;   // to it
  unsigned without;
  _Atomic uint64_t took;  // slots for downloads
};

_Bool region_make(struct session *session) {
  if (session->region) return 1;
  if (!session_part(session->region)) return 0;
  pthread_mutex_init(&session->region->lock, NULL);
  return 1;
}

void region_offered(struct session *session) {
  int family = 0;
  socklen_t size = sizeof family;
  if (getsockopt(connection_fd(session), SOL_SOCKET, SO_DOMAIN, &family, &size) ||
      family != AF_UNIX)
    return;
  session->region_state = REGION_OFFERED;
}

static _Bool can(const void *at, uint64_t bytes, int advice) {
  const uintptr_t begin = (uintptr_t)at & -(uintptr_t)PAGE;
  const uintptr_t end = ((uintptr_t)at + bytes + PAGE - 1) & -(uintptr_t)PAGE;
  return madvise((void *)begin, end - begin, advice) == 0;
}
_Bool region_can_read(const void *at, uint64_t bytes) { return can(at, bytes, MADV_POPULATE_READ); }
_Bool region_can_write(void *at, uint64_t bytes) { return can(at, bytes, MADV_POPULATE_WRITE); }

// ---- opening -----------------------------------------------------------------------------------

ssize_t region_receive(struct session *session, int fd, void *to, size_t size, int flags) {
  if (session->region_state != REGION_OFFERED) return recv(fd, to, size, flags);
  struct iovec part = {to, size};
  union {
    struct cmsghdr head;
    char bytes[CMSG_SPACE(sizeof(int))];
  } beside;
  struct msghdr message = {
      .msg_iov = &part, .msg_iovlen = 1, .msg_control = &beside, .msg_controllen = sizeof beside};
  ssize_t got = recvmsg(fd, &message, flags | MSG_CMSG_CLOEXEC);
  struct cmsghdr *head = got > 0 ? CMSG_FIRSTHDR(&message) : NULL;
  if (head && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS &&
      head->cmsg_len == CMSG_LEN(sizeof(int))) {
    int descriptor;
    memcpy(&descriptor, CMSG_DATA(head), sizeof descriptor);
    descriptor = descriptor_above(descriptor);
    int before = atomic_exchange(&session->region->descriptor, descriptor + 1);
    if (before) close(before - 1);
  }
  return got;
}

// Maps what came if it is what was said. Memory that could shrink would be the end of the process.
static const char *map(struct region *region, int descriptor,
                       const struct wire_RegionOpen_reply *told) {
  if (told->slot % PAGE || !told->slot || told->slot > SLOT_MOST || told->uploads < 2 ||
      told->uploads > WIRE_REGION_SLOTS || told->downloads < 2 ||
      told->downloads > WIRE_REGION_SLOTS)
    return "its slots make no sense";
  const uint64_t size = told->slot * (told->uploads + told->downloads);
  if (size > REGION_MOST) return "it is too large";
  struct stat status;
  const int seals = fcntl(descriptor, F_GET_SEALS);
  if (seals < 0 || !(seals & F_SEAL_SHRINK)) return "it might shrink";
  if (fstat(descriptor, &status) || (uint64_t)status.st_size != size)
    return "it has not the size that the server says";
  void *mapped = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, descriptor, 0);
  if (mapped == MAP_FAILED) return strerror(errno);
  // A child has no session, and a dump no use for it.
  madvise(mapped, size, MADV_DONTFORK);
  madvise(mapped, size, MADV_DONTDUMP);
  region->bytes = mapped;
  region->slot = told->slot;
  region->uploads = told->uploads;
  region->downloads = told->downloads;
  region->free = UINT64_MAX >> (64 - told->uploads);
  return NULL;
}

// With the lock held. Errors of earlier work are for the next call that waits.
static const char *ask_for_it(struct session *session) {
  struct region *region = session->region;
  if (!region_can_read(region, 1)) return "the system does not tell what memory can be read";
  struct answer answer;
  answer_init(&answer);
  if (!batch_ask(session, WIRE_RegionOpen, sizeof(struct wire_RegionOpen), &answer)) return "";
  batch_leave(session, BATCH_NO_STREAM);
  CUresult result = batch_collect(session, &answer, sizeof(struct wire_RegionOpen_reply));
  const char *why = result ? "the server shares none" : NULL;
  int descriptor = atomic_exchange(&region->descriptor, 0) - 1;
  if (!why && descriptor < 0) why = "no descriptor came with it";
  if (!why) why = map(region, descriptor, answer.reply);
  if (descriptor >= 0) close(descriptor);
  answer_free(&answer);
  return why;
}

static void open_region(struct session *session) {
  struct region *region = session->region;
  _Atomic int *state = &session->region_state;
  pthread_mutex_lock(&region->lock);
  if (*state == REGION_OFFERED) {
    const char *why = ask_for_it(session);
    *state = why ? REGION_NONE : REGION_OPEN;
    if (why)
      log_info("no memory is shared with the server: %s", why);
    else
      log_info("large copies go through memory shared with the server");
  }
  pthread_mutex_unlock(&region->lock);
}

_Bool region_wants_slow(struct session *session, uint64_t bytes) {
  struct region *region = session->region;
  const _Atomic int *state = &session->region_state;
  if (bytes < COPY_LEAST || ablated(ABLATE_REGION)) return 0;
  if (*state == REGION_OFFERED && atomic_fetch_add(&region->copied, bytes) + bytes > OPEN_AFTER)
    open_region(session);
  return *state == REGION_OPEN;
}

// ---- uploads -----------------------------------------------------------------------------------

// Asks which of the slots that were posted so far are free again. With the lock held, here and
// below.
static void ask_for_slots(struct session *session) {
  struct region *region = session->region;
  answer_init(&region->answer);
  if (!batch_ask(session, WIRE_RegionSettle, sizeof(struct wire_RegionSettle), &region->answer))
    return;
  region->asked = region->posted;
  batch_leave(session, BATCH_NO_STREAM);
}

static void collect_slots(struct session *session) {
  struct region *region = session->region;
  if (!region->asked) ask_for_slots(session);
  if (!region->asked) return;
  if (!batch_collect(session, &region->answer, sizeof(struct wire_RegionSettle_reply))) {
    const struct wire_RegionSettle_reply *told = region->answer.reply;
    const uint64_t done = region->asked & ~told->busy;
    region->posted &= ~done;
    region->free |= done;
  }
  answer_free(&region->answer);
  region->asked = 0;
}

// The number of a free slot, or -1: the device does not come to it.
static int take_slot(struct session *session) {
  struct region *region = session->region;
  int slot = -1;
  pthread_mutex_lock(&region->lock);
  if (region->without) {
    region->without--;
  } else {
    if (!region->free) collect_slots(session);
    if (region->free) {
      slot = __builtin_ctzll(region->free);
      region->free &= region->free - 1;
    } else {
      region->without = PARTS_WITHOUT;
    }
  }
  pthread_mutex_unlock(&region->lock);
  return slot;
}

// It is in the batch. Half of the slots are asked for while the others are filled.
static void post_slot(struct session *session, int slot) {
  struct region *region = session->region;
  pthread_mutex_lock(&region->lock);
  region->posted |= 1ull << slot;
  if (!region->asked && (unsigned)__builtin_popcountll(region->free) <= region->uploads / 2)
    ask_for_slots(session);
  pthread_mutex_unlock(&region->lock);
  batch_send(session);
}

CUresult region_upload(struct session *session, uint64_t *destination, const char **at,
                       uint64_t *bytes, uint64_t stream) {
  struct region *region = session->region;
  if (!region_can_read(*at, *bytes)) return CUDA_SUCCESS;
  while (*bytes) {
    int slot = take_slot(session);
    if (slot < 0) break;
    const uint64_t part = *bytes < region->slot ? *bytes : region->slot;
    memcpy(region->bytes + (uint64_t)slot * region->slot, *at, part);
    CUresult result = put_RegionUpload(session, *destination, stream, part, (uint32_t)slot);
    if (result) return result;
    post_slot(session, slot);
    *destination += part;
    *at += part;
    *bytes -= part;
  }
  return CUDA_SUCCESS;
}

// ---- downloads ---------------------------------------------------------------------------------

_Bool region_holds(struct session *session, uint64_t bytes) {
  const struct region *region = session->region;
  return bytes <= region->downloads * region->slot;
}

const unsigned char *region_placed(struct session *session, const struct wire_placed *placed) {
  const struct region *region = session->region;
  if (session->region_state != REGION_OPEN || placed->slot >= region->downloads ||
      !placed->length || placed->length > region->slot)
    return NULL;
  return region->bytes + (region->uploads + placed->slot) * region->slot;
}

void region_took(struct session *session, uint32_t slot) {
  atomic_fetch_or(&session->region->took, 1ull << slot);
}

_Bool region_owes(struct session *session) {
  if (session->region_state != REGION_OPEN) return 0;
  const struct region *region = session->region;
  return (unsigned)__builtin_popcountll(region->took) >= region->downloads / 2;
}

void region_give_back(struct session *session) {
  uint64_t took = atomic_exchange(&session->region->took, 0);
  if (took) put_RegionTaken(session, took);
}
