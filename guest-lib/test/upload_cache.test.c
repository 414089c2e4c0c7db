// Uploads by hash: what is asked, what is sent of it, and when nobody asks.
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/part_hash.h"
#include "base/stats.h"
#include "check.h"
#include "copies/upload_cache.h"
#include "guest_calls.h"
#include "session.h"

#define MIB (1ull << 20)
#define KEPT 64

// The server's cache, as the executor has it: whole parts, by their hashes.
static struct kept {
  struct part_hash hash;
  uint64_t size;
  uint8_t *bytes;
} kept[KEPT];
static unsigned kept_count;
static struct server *server;
static CUdeviceptr device;  // 24 MiB
static uint8_t *source;

static const struct kept *find(const struct part_hash *hash, uint64_t size) {
  for (unsigned i = 0; i < kept_count; i++)
    if (!memcmp(&kept[i].hash, hash, sizeof *hash) && kept[i].size == size) return &kept[i];
  return NULL;
}

static _Bool cache(struct server *of, const struct wire_header *h, void *context) {
  (void)context;
  if (h->op == WIRE_UploadKeep) {
    const struct wire_UploadKeep *q = (const void *)h;
    memcpy(server_reach(of, q->destination, q->length), q + 1, q->length);
    CHECK(kept_count < KEPT);
    struct kept *one = &kept[kept_count++];
    one->size = q->length;
    one->bytes = malloc(q->length);
    memcpy(one->bytes, q + 1, q->length);
    part_hash(one->bytes, one->size, &one->hash);
  }
  if (h->op != WIRE_UploadAsk) return 0;
  const struct wire_UploadAsk *q = (const void *)h;
  const struct part_hash *hashes = (const void *)(q + 1);
  struct wire_UploadAsk_reply reply = {
      .reply = {{WIRE_REPLY, 0, sizeof reply}, q->request.request, 0, 0}};
  for (uint64_t at = 0, i = 0; at < q->length; at += MIB, i++) {
    uint64_t size = q->length - at < MIB ? q->length - at : MIB;
    const struct kept *one = find(&hashes[i], size);
    if (one)
      memcpy(server_reach(of, q->destination + at, size), one->bytes, size);
    else
      reply.missing |= 1ull << i;
  }
  server_send(of, &reply, sizeof reply);
  return 1;
}

static void start(uint64_t from) {
  server = session_start(64 * MIB, (struct server_hook){cache, NULL});
  upload_cache_start(session_here(), from);
  assert_int_equal(cuMemAlloc_v2(&device, 24 * MIB), CUDA_SUCCESS);
  source = malloc(24 * MIB);
  for (uint64_t i = 0; i < 24 * MIB; i++) source[i] = (uint8_t)(i * 7 + (i >> 11));
}

static uint64_t sent(void) { return atomic_load(&guest_stats->bytes_sent); }

// Uploads, and what arrived is right; how many bytes that took.
static uint64_t upload(uint64_t bytes) {
  uint64_t before = sent();
  assert_int_equal(cuMemsetD8_v2(device, 0, 24 * MIB), CUDA_SUCCESS);
  assert_int_equal(cuMemcpyHtoD_v2(device, source, bytes), CUDA_SUCCESS);
  assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
  assert_memory_equal(server_memory(server) + (device - WIRE_WINDOW_BASE), source, bytes);
  return sent() - before;
}

static void what_is_known_is_not_sent(void **state) {
  (void)state;
  start(4 * MIB);
  uint64_t bytes = 9 * MIB + 5;
  assert_true(upload(bytes) > bytes);
  assert_int_equal(server_count(server, WIRE_UploadAsk), 2);
  assert_int_equal(server_count(server, WIRE_UploadKeep), 10);
  uint64_t trips = atomic_load(&guest_stats->round_trips);
  assert_true(upload(bytes) < 4096);
  assert_int_equal(atomic_load(&guest_stats->round_trips), trips + 3);  // a group each; the end
  assert_int_equal(atomic_load(&guest_stats->cached_parts), 10);
  assert_int_equal(atomic_load(&guest_stats->cached_bytes), bytes);
  // A part that has changed is sent, and no more.
  source[3 * MIB]++;
  uint64_t again = upload(bytes);
  assert_true(again > MIB && again < MIB + 4096);
  assert_int_equal(server_count(server, WIRE_UploadKeep), 11);
  assert_int_equal(server_count(server, WIRE_Upload), 0);
}

// However a copy is described, what lies in one run at both ends is asked for.
static void a_plane_without_gaps_is_asked_for(void **state) {
  (void)state;
  start(4 * MIB);
  CUDA_MEMCPY2D plane = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                         .srcHost = source,
                         .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                         .dstDevice = device,
                         .WidthInBytes = MIB,
                         .Height = 5};
  assert_int_equal(cuMemcpy2D_v2(&plane), CUDA_SUCCESS);
  assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
  assert_memory_equal(server_memory(server) + (device - WIRE_WINDOW_BASE), source, 5 * MIB);
  assert_int_equal(server_count(server, WIRE_UploadAsk), 1);
  assert_int_equal(server_count(server, WIRE_UploadKeep), 5);
  plane.dstPitch = 2 * MIB;
  assert_int_equal(cuMemcpy2D_v2(&plane), CUDA_SUCCESS);
  assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
  assert_int_equal(server_count(server, WIRE_UploadAsk), 1);
}

static void small_ones_travel_as_ever(void **state) {
  (void)state;
  start(4 * MIB);
  upload(4 * MIB - 1);
  assert_int_equal(server_count(server, WIRE_UploadAsk), 0);
  assert_int_equal(server_count(server, WIRE_Upload), 4);
}

static void where_nothing_is_kept_nobody_asks(void **state) {
  (void)state;
  start(0);
  upload(24 * MIB);
  assert_int_equal(server_count(server, WIRE_UploadAsk), 0);
  assert_int_equal(server_count(server, WIRE_UploadKeep), 0);
}

static void what_nobody_knows_is_not_asked_for_for_ever(void **state) {
  (void)state;
  start(MIB);
  for (unsigned i = 0; i < 20; i++) {
    source[0]++;
    upload(2 * MIB - (i ? MIB : 0));
  }
  // Four, and of the sixteen that follow the eighth and the last.
  assert_int_equal(server_count(server, WIRE_UploadAsk), 6);
  source[0]++;
  for (unsigned i = 0; i < 8; i++) upload(MIB);
  assert_int_equal(server_count(server, WIRE_UploadAsk), 7);
  upload(MIB);
  assert_int_equal(server_count(server, WIRE_UploadAsk), 8);
}

static void memory_that_cannot_be_read(void **state) {
  (void)state;
  start(4 * MIB);
  uint8_t *bytes = mmap(NULL, 8 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_int_equal(mprotect(bytes + 4096, 4096, PROT_NONE), 0);
  assert_int_equal(cuMemcpyHtoD_v2(device, bytes, 8 * MIB), CUDA_ERROR_INVALID_VALUE);
  // The session goes on.
  assert_true(upload(8 * MIB) > 8 * MIB);
  assert_int_equal(server_count(server, WIRE_UploadAsk), 1);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_is_known_is_not_sent),
      cmocka_unit_test(a_plane_without_gaps_is_asked_for),
      cmocka_unit_test(small_ones_travel_as_ever),
      cmocka_unit_test(where_nothing_is_kept_nobody_asks),
      cmocka_unit_test(what_nobody_knows_is_not_asked_for_for_ever),
      cmocka_unit_test(memory_that_cannot_be_read),
  };
  RUN_ONE_TEST(tests, argc, argv);
}
