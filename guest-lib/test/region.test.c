// Memory shared with the server: what goes through it, what does not, and what a server may not do.
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/stats.h"
#include "check.h"
#include "guest_calls.h"
#include "log_capture.h"
#include "session.h"
#include "wire/region.h"

#define MIB (1ull << 20)
#define SLOT (256u << 10)
#define UPLOADS 8u
#define DOWNLOADS 8u
#define SIZE (SLOT * (uint64_t)(UPLOADS + DOWNLOADS))
#define DEVICE (48 * MIB)

// The server's side, as the executor has it, and what a test makes it do otherwise.
static struct {
  _Bool unsealed;
  uint64_t size, slot;
  _Bool alone;      // no descriptor comes along
  _Bool none;       // it refuses
  _Bool stuck;      // copies are not made
  uint32_t place;   // added to the slots that it names
  uint64_t excess;  // added to their lengths
} way;
static int shared;  // descriptor
static uint8_t *region;
static uint64_t pending;    // slots for uploads whose copies are not made
static uint64_t with_them;  // slots for downloads that the guest has
static struct server *server;
static CUdeviceptr device;

static void open_region(struct server *of, int fd, const struct wire_RegionOpen *q) {
  struct wire_RegionOpen_reply reply = {
      .reply = {{WIRE_REPLY, 0, sizeof reply}, q->request.request, 0, 0},
      .slot = way.slot,
      .uploads = UPLOADS,
      .downloads = DOWNLOADS};
  if (way.none) {
    server_reply(of, q->request.request, CUDA_ERROR_NOT_SUPPORTED, 0);
    return;
  }
  shared = memfd_create("region", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  CHECK(shared >= 0 && !ftruncate(shared, (off_t)way.size));
  region = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, shared, 0);
  CHECK(region != MAP_FAILED);
  const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  CHECK(way.unsealed || !fcntl(shared, F_ADD_SEALS, seals));
  struct iovec part = {&reply, sizeof reply};
  union {
    struct cmsghdr head;
    char bytes[CMSG_SPACE(sizeof shared)];
  } beside = {.head = {CMSG_LEN(sizeof shared), SOL_SOCKET, SCM_RIGHTS}};
  memcpy(CMSG_DATA(&beside.head), &shared, sizeof shared);
  struct msghdr message = {.msg_iov = &part,
                           .msg_iovlen = 1,
                           .msg_control = way.alone ? NULL : &beside,
                           .msg_controllen = way.alone ? 0 : sizeof beside};
  CHECK(sendmsg(fd, &message, MSG_NOSIGNAL) == (ssize_t)sizeof reply);
}

static void download(struct server *of, const struct wire_RegionDownload *q) {
  uint64_t offset = 0;
  for (uint32_t slot = 0; offset < q->length; slot = (slot + 1) % DOWNLOADS) {
    uint64_t length = q->length - offset < SLOT ? q->length - offset : SLOT;
    const uint8_t *from = server_reach(of, q->source + offset, length);
    if (with_them >> slot & 1) {
      // It does not wait for slots.
      server_data(of, q->request.request, offset, from, length);
    } else {
      with_them |= 1ull << slot;
      memcpy(region + (UPLOADS + slot) * SLOT, from, length);
      struct wire_placed placed = {.header = {WIRE_PLACED, 0, sizeof placed},
                                   .request = q->request.request,
                                   .offset = offset,
                                   .length = length + way.excess,
                                   .slot = slot + way.place};
      server_send(of, &placed, sizeof placed);
    }
    offset += length;
  }
  server_reply(of, q->request.request, 0, 0);
}

static _Bool share(struct server *of, const struct wire_header *h, void *context) {
  switch (h->op) {
    case WIRE_RegionOpen:
      open_region(of, *(int *)context, (const void *)h);
      return 1;
    case WIRE_RegionUpload: {
      const struct wire_RegionUpload *q = (const void *)h;
      CHECK(q->slot < UPLOADS && q->length && q->length <= SLOT);
      CHECK(!(pending >> q->slot & 1));
      memcpy(server_reach(of, q->destination, q->length), region + q->slot * SLOT, q->length);
      if (way.stuck) pending |= 1ull << q->slot;
      return 0;
    }
    case WIRE_RegionSettle: {
      struct wire_RegionSettle_reply reply = {
          .reply = {{WIRE_REPLY, 0, sizeof reply}, ((const struct wire_request *)h)->request, 0, 0},
          .busy = pending};
      server_send(of, &reply, sizeof reply);
      return 1;
    }
    case WIRE_RegionDownload:
      download(of, (const void *)h);
      return 1;
    case WIRE_RegionTaken: {
      const struct wire_RegionTaken *q = (const void *)h;
      CHECK((q->slots & ~with_them) == 0);
      with_them &= ~q->slots;
      return 0;
    }
    default:
      return 0;
  }
}

static void start(void) {
  static int fd;
  if (!way.size) way.size = SIZE;
  if (!way.slot) way.slot = SLOT;
  server = session_start(DEVICE + 2 * MIB, (struct server_hook){share, &fd});
  fd = server_socket(server);
  region_offered(session_here());
  assert_int_equal(cuMemAlloc_v2(&device, DEVICE), CUDA_SUCCESS);
}

static uint8_t *random_bytes(uint64_t size, unsigned seed) {
  uint8_t *bytes = malloc(size);
  for (uint64_t i = 0; i < size; i++)
    bytes[i] = (uint8_t)((seed = seed * 1664525 + 1013904223) >> 24);
  return bytes;
}

// Enough for the region to be opened.
static void warm(void) {
  uint8_t *bytes = random_bytes(20 * MIB, 1);
  assert_int_equal(cuMemcpyHtoD_v2(device, bytes, 20 * MIB), CUDA_SUCCESS);
  assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
  free(bytes);
}

static uint64_t uploads(void) { return server_count(server, WIRE_RegionUpload); }
static uint64_t downloads(void) { return server_count(server, WIRE_RegionDownload); }

// All bytes of the device, there and back, whatever way they take.
static void all_is_right(void) {
  uint8_t *there = random_bytes(DEVICE, 7), *back = calloc(1, DEVICE);
  assert_int_equal(cuMemcpyHtoD_v2(device, there, DEVICE), CUDA_SUCCESS);
  assert_int_equal(cuMemcpyDtoH_v2(back, device, DEVICE), CUDA_SUCCESS);
  assert_memory_equal(back, there, DEVICE);
  free(there);
  free(back);
}

static void it_is_opened_when_much_is_copied(void **state) {
  (void)state;
  start();
  uint8_t *bytes = random_bytes(20 * MIB, 3);
  assert_int_equal(cuMemcpyHtoD_v2(device, bytes, 4 * MIB), CUDA_SUCCESS);
  assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
  assert_int_equal(server_count(server, WIRE_RegionOpen), 0);
  for (int i = 0; i < 4; i++)
    assert_int_equal(cuMemcpyHtoD_v2(device, bytes, 4 * MIB), CUDA_SUCCESS);
  assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
  assert_int_equal(server_count(server, WIRE_RegionOpen), 1);
  assert_true(uploads() > 0);
  all_is_right();
  assert_int_equal(server_count(server, WIRE_RegionOpen), 1);
  assert_int_equal(downloads(), 0);  // what the slots do not hold at once travels as ever
  assert_int_equal(cuMemcpyDtoH_v2(bytes, device, MIB), CUDA_SUCCESS);
  assert_int_equal(downloads(), 1);
  free(bytes);
}

static void small_copies_travel_as_ever(void **state) {
  (void)state;
  start();
  warm();
  uint64_t before = uploads();
  uint8_t *bytes = random_bytes(64 << 10, 3), back[1000];
  assert_int_equal(cuMemcpyHtoD_v2(device, bytes, 64 << 10), CUDA_SUCCESS);
  assert_int_equal(cuMemcpyDtoH_v2(back, device, sizeof back), CUDA_SUCCESS);
  assert_memory_equal(back, bytes, sizeof back);
  assert_int_equal(uploads(), before);
  assert_int_equal(downloads(), 0);
  free(bytes);
}

static void any_size_anywhere(void **state) {
  (void)state;
  start();
  warm();
  uint8_t *mirror = random_bytes(DEVICE, 11), *pinned;
  assert_int_equal(cuMemcpyHtoD_v2(device, mirror, DEVICE), CUDA_SUCCESS);
  assert_int_equal(cuMemHostAlloc((void **)&pinned, 8 * MIB, 0), CUDA_SUCCESS);
  unsigned seed = 5;
  for (int round = 0; round < 200; round++) {
    seed = seed * 1664525 + 1013904223;
    const uint64_t size = 1 + seed % (round % 4 ? 700000 : 7000000);
    const uint64_t at = (seed >> 3) % (DEVICE - size), skew = seed % 97;
    uint8_t *own = round % 3 ? malloc(size + skew) : pinned, *bytes = own + skew;
    CUresult result;
    if (round % 2) {
      for (uint64_t i = 0; i < size; i += 64) bytes[i] = (uint8_t)(seed >> (i % 24));
      result = round % 3 ? cuMemcpyHtoD_v2(device + at, bytes, size)
                         : cuMemcpyHtoDAsync_v2(device + at, bytes, size, NULL);
      memcpy(mirror + at, bytes, size);
    } else {
      memset(bytes, 0, size);
      result = round % 3 ? cuMemcpyDtoH_v2(bytes, device + at, size)
                         : cuMemcpyDtoHAsync_v2(bytes, device + at, size, NULL);
      if (!result) result = cuCtxSynchronize();
      assert_memory_equal(bytes, mirror + at, size);
    }
    assert_int_equal(result, CUDA_SUCCESS);
    if (own != pinned) free(own);
  }
  assert_true(uploads() > 200 && downloads() > 30);
  free(mirror);
}

struct worker {
  unsigned number;
  _Bool right;
};

static void *work(void *of) {
  struct worker *worker = of;
  session_enter();
  const uint64_t share = DEVICE / 8 / 4096 * 4096;
  const CUdeviceptr mine = device + worker->number * share;
  uint8_t *there = random_bytes(share, worker->number), *back = malloc(share);
  worker->right = 1;
  for (int round = 0; round < 6; round++) {
    const uint64_t size = share - 1000 * (worker->number + (unsigned)round);
    there[round] ^= 0x55;
    worker->right &= cuMemcpyHtoD_v2(mine, there, size) == CUDA_SUCCESS;
    worker->right &= cuMemcpyDtoH_v2(back, mine, size) == CUDA_SUCCESS;
    worker->right &= !memcmp(there, back, size);
  }
  free(there);
  free(back);
  return NULL;
}

static void eight_threads_at_once(void **state) {
  (void)state;
  start();
  warm();
  struct worker workers[8];
  pthread_t threads[8];
  for (unsigned i = 0; i < 8; i++) {
    workers[i].number = i;
    assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
  }
  for (unsigned i = 0; i < 8; i++) {
    pthread_join(threads[i], NULL);
    assert_true(workers[i].right);
  }
}

// Slots whose copies are not made are not filled again: the socket takes what comes.
static void a_device_that_does_not_come_to_it(void **state) {
  (void)state;
  start();
  warm();
  way.stuck = 1;
  const uint64_t before = uploads(), sent = server_count(server, WIRE_Upload);
  all_is_right();
  assert_in_range(uploads() - before, 1, UPLOADS);
  assert_true(server_count(server, WIRE_Upload) - sent >= DEVICE / MIB - UPLOADS);
}

static void memory_that_cannot_be_reached(void **state) {
  (void)state;
  start();
  warm();
  uint8_t *bytes = mmap(NULL, 4 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  // In the middle of what one frame carries, as small parts are moved out of a buffer.
  assert_int_equal(mprotect(bytes + 5 * MIB / 2, 4096, PROT_NONE), 0);
  log_capture("error");
  assert_int_equal(cuMemcpyHtoD_v2(device, bytes, 4 * MIB), CUDA_ERROR_INVALID_VALUE);
  assert_non_null(strstr(log_captured(), "not readable memory"));
  // The session goes on, and does so behind a destination that is none.
  assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
  assert_int_equal(cuMemcpyDtoH_v2(bytes, device, 4 * MIB), CUDA_ERROR_INVALID_VALUE);
  assert_non_null(strstr(log_captured(), "is not writable memory"));
  assert_int_equal(downloads(), 0);
  assert_int_equal(mprotect(bytes + MIB, 3 * MIB, PROT_READ), 0);
  for (uint64_t size = MIB; size <= 2 * MIB; size += MIB)
    for (int beside = -1; beside <= 1; beside++) {
      uint8_t *to = bytes + MIB - size / 2 + beside;
      assert_int_equal(cuMemcpyDtoH_v2(to, device, size), CUDA_ERROR_INVALID_VALUE);
      assert_non_null(strstr(log_captured(), "is not writable memory"));
      assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
    }
  assert_int_equal(mprotect(bytes + MIB, 3 * MIB, PROT_READ | PROT_WRITE), 0);
  // Nor one that is none in its middle.
  assert_int_equal(mprotect(bytes + MIB, 4096, PROT_READ), 0);
  assert_int_equal(cuMemcpyDtoH_v2(bytes + MIB / 2, device, MIB), CUDA_ERROR_INVALID_VALUE);
  assert_non_null(strstr(log_captured(), "is not writable memory"));
  assert_int_equal(mprotect(bytes + MIB, 4096, PROT_READ | PROT_WRITE), 0);
  all_is_right();
}

static void a_child_has_nothing_of_it(void **state) {
  (void)state;
  start();
  warm();
  all_is_right();
  // The descriptor is gone, too.
  assert_int_equal(fcntl(shared, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  pid_t child = fork();
  if (child == 0) {
    char maps[1 << 16] = {0};
    int fd = open("/proc/self/maps", O_RDONLY);
    size_t size = 0;
    for (ssize_t got; (got = read(fd, maps + size, sizeof maps - 1 - size)) > 0;)
      size += (size_t)got;
    // The server's own mapping, in this process by chance, is the only one.
    const char *first = strstr(maps, "memfd:region");
    _exit(!(first && !strstr(first + 1, "memfd:region") &&
            cuMemcpyHtoD_v2(device, maps, 1) == CUDA_ERROR_NOT_INITIALIZED));
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  all_is_right();
}

// What is not as it was said is not mapped, and everything goes by the socket.
static void not_shared(const char *why) {
  start();
  log_capture("info");
  warm();
  all_is_right();
  assert_non_null(strstr(log_captured(), why));
  assert_int_equal(server_count(server, WIRE_RegionOpen), 1);
  assert_int_equal(uploads() + downloads(), 0);
}
static void a_server_that_shares_none(void **state) {
  (void)state;
  way.none = 1;
  not_shared("shares none");
}
static void a_region_that_might_shrink(void **state) {
  (void)state;
  way.unsealed = 1;
  not_shared("might shrink");
}
static void a_region_of_another_size(void **state) {
  (void)state;
  way.size = SIZE - 4096;
  not_shared("not the size");
}
static void slots_that_make_no_sense(void **state) {
  (void)state;
  way.slot = SLOT + 8;
  not_shared("make no sense");
}
static void a_region_that_does_not_come(void **state) {
  (void)state;
  way.alone = 1;
  not_shared("no descriptor");
}

static void outside(void) {
  log_capture("error");
  uint8_t *back = malloc(MIB);
  assert_int_equal(cuMemcpyDtoH_v2(back, device, MIB), CUDA_ERROR_DEVICE_UNAVAILABLE);
  assert_non_null(strstr(log_captured(), "in shared memory that nobody asked for"));
  assert_int_equal(cuCtxSynchronize(), CUDA_ERROR_DEVICE_UNAVAILABLE);
  free(back);
}
static void a_server_that_names_no_slot(void **state) {
  (void)state;
  start();
  warm();
  way.place = DOWNLOADS;
  outside();
}
static void a_server_that_names_too_much(void **state) {
  (void)state;
  start();
  warm();
  way.excess = 1;
  outside();
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(it_is_opened_when_much_is_copied),
      cmocka_unit_test(small_copies_travel_as_ever),
      cmocka_unit_test(any_size_anywhere),
      cmocka_unit_test(eight_threads_at_once),
      cmocka_unit_test(a_device_that_does_not_come_to_it),
      cmocka_unit_test(memory_that_cannot_be_reached),
      cmocka_unit_test(a_child_has_nothing_of_it),
      cmocka_unit_test(a_server_that_shares_none),
      cmocka_unit_test(a_region_that_might_shrink),
      cmocka_unit_test(a_region_of_another_size),
      cmocka_unit_test(slots_that_make_no_sense),
      cmocka_unit_test(a_region_that_does_not_come),
      cmocka_unit_test(a_server_that_names_no_slot),
      cmocka_unit_test(a_server_that_names_too_much),
  };
  RUN_ONE_TEST(tests, argc, argv);
}
