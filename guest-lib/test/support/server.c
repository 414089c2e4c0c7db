#include "server.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "boxes.h"
#include "check.h"
#include "cuda_driver.h"
#include "page_hash.h"

#define OPS 2048

struct server {
  int fd;
  struct server_hook hook;
  uint8_t *memory;
  uint8_t *frame;  // the one being taken
  pthread_mutex_t lock;
  pthread_cond_t changed;
  _Bool paused, send_idle, settled;
  uint64_t taken[OPS];  // before they are dealt with, and so before any answer; [0]: all
  uint64_t dealt[OPS];  // afterwards
  uint64_t idles, mapped;
  struct {
    uint64_t address, size;
    _Bool placed;  // outlives a reset
  } maps[SERVER_MAPS];
  unsigned map_count;
};

// False at the end of the stream.
static _Bool take(struct server *server, void *bytes, size_t size) {
  uint8_t *at = bytes;
  while (size) {
    ssize_t got = recv(server->fd, at, size, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return 0;
    at += got;
    size -= (size_t)got;
  }
  return 1;
}

void server_send(struct server *server, const void *bytes, uint64_t size) {
  const uint8_t *at = bytes;
  while (size) {
    ssize_t sent = send(server->fd, at, size, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return;  // the guest is gone, which the test looks at elsewhere
    at += sent;
    size -= (uint64_t)sent;
  }
}

void server_reply(struct server *server, uint64_t request, int32_t result, int32_t async) {
  // Zeros behind it stand for the results of any call; an error has none.
  struct {
    struct wire_reply reply;
    uint64_t results[4];
  } frame = {.reply = {.request = request, .result = result, .async = async}};
  frame.reply.header.op = WIRE_REPLY;
  frame.reply.header.size = result ? sizeof frame.reply : sizeof frame;
  server_send(server, &frame, frame.reply.header.size);
}

void server_data(struct server *server, uint64_t request, uint64_t offset, const void *bytes,
                 uint64_t length) {
  static const uint8_t padding[8];
  struct wire_data data = {.request = request, .offset = offset, .length = length};
  data.header.op = WIRE_DATA;
  data.header.size = (uint32_t)sizeof data + wire_round_up((uint32_t)length);
  server_send(server, &data, sizeof data);
  server_send(server, bytes, length);
  server_send(server, padding, wire_round_up((uint32_t)length) - length);
}

void server_settled(struct server *server, _Bool settled) {
  pthread_mutex_lock(&server->lock);
  server->settled = settled;
  pthread_mutex_unlock(&server->lock);
}

uint8_t *server_reach(struct server *server, uint64_t address, uint64_t size) {
  if (address >= SERVER_HOST_BASE) {
    CHECK(size <= SERVER_HOST_MEMORY && address - SERVER_HOST_BASE <= SERVER_HOST_MEMORY - size);
    return server->memory + SERVER_MEMORY + (address - SERVER_HOST_BASE);
  }
  CHECK(address >= WIRE_WINDOW_BASE && size <= SERVER_MEMORY &&
        address - WIRE_WINDOW_BASE <= SERVER_MEMORY - size);
  return server->memory + (address - WIRE_WINDOW_BASE);
}

static void map(struct server *server, uint64_t address, uint64_t size) {
  CHECK(address % WIRE_GRANULE == 0 && size % WIRE_GRANULE == 0 && size);
  CHECK(server->map_count < SERVER_MAPS);
  for (unsigned i = 0; i < server->map_count; i++)
    CHECK(address + size <= server->maps[i].address ||
          server->maps[i].address + server->maps[i].size <= address);
  server->maps[server->map_count].address = address;
  server->maps[server->map_count].placed = 0;
  server->maps[server->map_count++].size = size;
  server->mapped += size;
}

static void unmap(struct server *server, uint64_t address, uint64_t size) {
  unsigned i = 0;
  while (i < server->map_count && server->maps[i].address != address) i++;
  CHECK(i < server->map_count && server->maps[i].size == size);
  server->maps[i] = server->maps[--server->map_count];
  server->mapped -= size;
}

// Memory that the program places itself.
static void place(struct server *server, const struct wire_MemoryPlace *q) {
  map(server, q->address, q->size);
  server->maps[server->map_count - 1].placed = 1;
}

static void displace(struct server *server, uint64_t address, uint64_t size) {
  for (uint64_t end = address + size; address < end;) {
    unsigned i = 0;
    while (i < server->map_count && server->maps[i].address != address) i++;
    CHECK(i < server->map_count && server->maps[i].placed);
    uint64_t bytes = server->maps[i].size;
    unmap(server, address, bytes);
    address += bytes;
    CHECK(address <= end);
  }
}

static void reset(struct server *server) {
  for (unsigned i = server->map_count; i-- > 0;)
    if (!server->maps[i].placed) unmap(server, server->maps[i].address, server->maps[i].size);
}

static void download(struct server *server, const struct wire_Download *q) {
  const uint8_t *from = server_reach(server, q->source, q->length);
  for (uint64_t done = 0; done < q->length;) {
    uint64_t part = q->length - done < WIRE_BULK_MAX ? q->length - done : WIRE_BULK_MAX;
    server_data(server, q->request.request, done, from + done, part);
    done += part;
  }
  server_reply(server, q->request.request, 0, 0);
}

static void tell_changed(struct server *server, const struct wire_PagesChanged *q) {
  const uint8_t *from = server_reach(server, q->address, q->length);
  struct wire_PagesChanged_reply reply = {.reply = {.request = q->request.request}};
  uint64_t *changed[] = {&reply.changed0, &reply.changed1, &reply.changed2, &reply.changed3};
  reply.reply.header.op = WIRE_REPLY;
  reply.reply.header.size = sizeof reply;
  pthread_mutex_lock(&server->lock);
  reply.settled = server->settled;
  pthread_mutex_unlock(&server->lock);
  uint64_t at = 0;
  for (unsigned i = 0; at < q->length; i++) {
    uint64_t size = WIRE_PAGE - (q->address + at) % WIRE_PAGE, hash;
    if (size > q->length - at) size = q->length - at;
    CHECK(i < WIRE_PAGES_MAX);
    memcpy(&hash, (const uint8_t *)(q + 1) + i * sizeof hash, sizeof hash);
    if (!q->hashes_size || hash != wire_page_hash(from + at, size)) {
      server_data(server, q->request.request, at, from + at, size);
      *changed[i / 64] |= 1ull << i % 64;
    }
    at += size;
  }
  server_send(server, &reply, sizeof reply);
}

static void take_pages(struct server *server, const struct wire_PagesUpload *q) {
  const uint8_t *from = (const uint8_t *)(q + 1);
  const uint64_t table = q->length - q->runs * sizeof(struct wire_page_run);
  CHECK(q->header.size == sizeof *q + wire_round_up((uint32_t)q->length) && table <= q->length);
  if (!q->runs) memcpy(server_reach(server, q->address, q->length), from, q->length);
  uint64_t at = 0;
  for (uint64_t i = 0; i < q->runs; i++) {
    struct wire_page_run run;
    memcpy(&run, from + table + i * sizeof run, sizeof run);
    CHECK(run.size <= table - at);
    memcpy(server_reach(server, run.address, run.size), from + at, run.size);
    at += run.size;
  }
}

void server_describe(struct wire_description *description) {
  *description = (struct wire_description){.known = 0xffff};
  description->attributes[CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK] = 1024;
  description->attributes[CU_FUNC_ATTRIBUTE_NUM_REGS] = 32;
  description->attributes[CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES] = 49152;
  for (int i = 0; i < WIRE_OCCUPANCY_SIZES; i++)
    description->blocks[i] = (uint8_t)(WIRE_OCCUPANCY_SIZES / (i + 1));
}

static void describe(struct server *server, const struct wire_FunctionDescribe *q) {
  struct {
    struct wire_FunctionDescribe_reply reply;
    struct wire_description description;
  } answer = {0};
  answer.reply.reply.header = (struct wire_header){WIRE_REPLY, 0, sizeof answer};
  answer.reply.reply.request = q->request.request;
  answer.reply.description_size = sizeof answer.description;
  server_describe(&answer.description);
  server_send(server, &answer, sizeof answer);
}

// As many as fit with 64 KiB, and with a byte.
static void tell_occupancies(struct server *server, const struct wire_Occupancies *q) {
  struct {
    struct wire_Occupancies_reply reply;
    uint8_t blocks[WIRE_OCCUPANCY_SIZES];
  } answer = {0};
  uint32_t count = q->shapes_size / sizeof(struct wire_block_shape);
  CHECK(count <= WIRE_OCCUPANCY_SIZES);
  const struct wire_block_shape *shapes = (const void *)(q + 1);
  for (uint32_t i = 0; i < count; i++) {
    uint64_t by_shared = (64 << 10) / (shapes[i].shared + 1);
    uint64_t by_threads = 1024 / shapes[i].threads;
    answer.blocks[i] = (uint8_t)(by_shared < by_threads ? by_shared : by_threads);
  }
  answer.reply.blocks_size = count;
  answer.reply.reply.header = (struct wire_header){WIRE_REPLY, 0, sizeof answer};
  answer.reply.reply.request = q->request.request;
  server_send(server, &answer, sizeof answer);
}

// True when the frame is a round trip.
static _Bool carry_out(struct server *server, const struct wire_header *h) {
  switch (h->op) {
    case WIRE_MemoryMap:
    case WIRE_PinnedMap:
    case WIRE_MemoryUnmap: {
      const struct wire_MemoryMap *q = (const void *)h;
      pthread_mutex_lock(&server->lock);
      (h->op == WIRE_MemoryUnmap ? unmap : map)(server, q->address, q->size);
      pthread_mutex_unlock(&server->lock);
      return 0;
    }
    case WIRE_MemoryPlace:
      pthread_mutex_lock(&server->lock);
      place(server, (const void *)h);
      pthread_mutex_unlock(&server->lock);
      return 0;
    case WIRE_MemoryDisplace: {
      const struct wire_MemoryDisplace *q = (const void *)h;
      pthread_mutex_lock(&server->lock);
      displace(server, q->address, q->size);
      pthread_mutex_unlock(&server->lock);
      server_reply(server, q->request.request, 0, 0);
      return 1;
    }
    case WIRE_Upload: {
      const struct wire_Upload *q = (const void *)h;
      CHECK(h->size == sizeof *q + wire_round_up((uint32_t)q->length));
      memcpy(server_reach(server, q->destination, q->length), q + 1, q->length);
      return 0;
    }
    case WIRE_Download:
      download(server, (const void *)h);
      return 1;
    case WIRE_PagesUpload:
      take_pages(server, (const void *)h);
      return 0;
    case WIRE_PagesChanged:
      tell_changed(server, (const void *)h);
      return 1;
    case WIRE_PagesFetch: {
      const struct wire_PagesFetch *q = (const void *)h;
      const struct wire_Download as = {
          .request = q->request, .source = q->address, .length = q->length};
      download(server, &as);
      return 1;
    }
    case WIRE_cuMemcpyDtoDAsync_v2: {
      const struct wire_cuMemcpyDtoDAsync_v2 *q = (const void *)h;
      memcpy(server_reach(server, q->dstDevice, q->ByteCount),
             server_reach(server, q->srcDevice, q->ByteCount), q->ByteCount);
      return 0;
    }
    case WIRE_FunctionDescribe:
      describe(server, (const void *)h);
      return 1;
    case WIRE_Occupancies:
      tell_occupancies(server, (const void *)h);
      return 1;
    case WIRE_cuCtxSynchronize:
    case WIRE_cuStreamSynchronize:
    case WIRE_cuEventSynchronize:
    case WIRE_cuStreamQuery:
    case WIRE_cuEventQuery:
    case WIRE_cuEventElapsedTime_v2:
    case WIRE_cuFuncGetAttribute:
    case WIRE_ModuleGlobal:
    case WIRE_ContextReset:
      if (h->op == WIRE_ContextReset) {
        pthread_mutex_lock(&server->lock);
        reset(server);
        pthread_mutex_unlock(&server->lock);
      }
      server_reply(server, ((const struct wire_request *)h)->request, 0, 0);
      return 1;
    default:
      return boxes_carry_out(server, h);
  }
}

static _Bool nothing_readable(struct server *server) {
  struct pollfd polled = {.fd = server->fd, .events = POLLIN};
  return poll(&polled, 1, 0) == 0;
}

static void *serve(void *argument) {
  struct server *server = argument;
  struct wire_header *h = (struct wire_header *)server->frame;
  for (;;) {
    pthread_mutex_lock(&server->lock);
    while (server->paused) pthread_cond_wait(&server->changed, &server->lock);
    pthread_mutex_unlock(&server->lock);
    if (!take(server, h, sizeof *h)) break;
    // What the guest may send at all.
    CHECK(h->op < OPS && h->flags == 0 && h->size >= sizeof *h && h->size % 8 == 0);
    CHECK(h->size <= WIRE_FRAME_MAX || h->op == WIRE_Upload || h->op == WIRE_UploadKeep ||
          h->op == WIRE_BoxUpload || h->op == WIRE_ModulePiece || h->op == WIRE_PagesUpload);
    CHECK(h->size <= WIRE_BULK_MAX + 128);
    if (!take(server, h + 1, h->size - sizeof *h)) break;
    pthread_mutex_lock(&server->lock);
    server->taken[h->op]++;
    server->taken[0]++;
    pthread_mutex_unlock(&server->lock);
    _Bool dealt = server->hook.frame && server->hook.frame(server, h, server->hook.context);
    _Bool asked = dealt || carry_out(server, h);
    _Bool idle = !asked && nothing_readable(server);
    pthread_mutex_lock(&server->lock);
    server->dealt[h->op]++;
    server->dealt[0]++;
    idle = idle && server->send_idle;
    server->idles += idle;
    pthread_cond_broadcast(&server->changed);
    pthread_mutex_unlock(&server->lock);
    if (idle) server_send(server, &(struct wire_header){WIRE_IDLE, 0, 8}, 8);
  }
  return NULL;
}

struct server *server_start(int fd, struct server_hook hook) {
  static struct server server;  // stays reachable to the end of the process
  CHECK(!server.memory);
  server.fd = fd;
  server.hook = hook;
  server.send_idle = 1;
  server.settled = 1;
  server.memory = mmap(NULL, SERVER_MEMORY + SERVER_HOST_MEMORY, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  CHECK(server.memory != MAP_FAILED);
  server.frame = malloc(WIRE_BULK_MAX + 4096);
  pthread_mutex_init(&server.lock, NULL);
  pthread_cond_init(&server.changed, NULL);
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, serve, &server) == 0);
  pthread_detach(thread);
  return &server;
}

static void set_paused(struct server *server, _Bool paused) {
  pthread_mutex_lock(&server->lock);
  server->paused = paused;
  pthread_cond_broadcast(&server->changed);
  pthread_mutex_unlock(&server->lock);
}

void server_pause(struct server *server) { set_paused(server, 1); }
void server_resume(struct server *server) { set_paused(server, 0); }

void server_send_idle(struct server *server, _Bool send) {
  pthread_mutex_lock(&server->lock);
  server->send_idle = send;
  pthread_mutex_unlock(&server->lock);
}

static uint64_t read_locked(struct server *server, const uint64_t *value) {
  pthread_mutex_lock(&server->lock);
  uint64_t now = *value;
  pthread_mutex_unlock(&server->lock);
  return now;
}

uint64_t server_count(struct server *server, uint16_t op) {
  return read_locked(server, &server->taken[op]);
}

void server_wait(struct server *server, uint16_t op, uint64_t count) {
  pthread_mutex_lock(&server->lock);
  while (server->dealt[op] < count) pthread_cond_wait(&server->changed, &server->lock);
  pthread_mutex_unlock(&server->lock);
}

uint64_t server_idles(struct server *server) { return read_locked(server, &server->idles); }
uint64_t server_mapped(struct server *server) { return read_locked(server, &server->mapped); }
uint8_t *server_memory(struct server *server) { return server->memory; }
int server_socket(struct server *server) { return server->fd; }
void server_close(struct server *server) { shutdown(server->fd, SHUT_RDWR); }
