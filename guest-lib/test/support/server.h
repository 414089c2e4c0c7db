// The other end of a session, in a thread: takes frames, keeps the device's memory as plain bytes,
// answers and says when it is idle. What a test needs otherwise, it does in a hook.
#ifndef TEST_SERVER_H
#define TEST_SERVER_H

#include <stdint.h>

#include "wire.h"
#include "wire_calls.h"

// Bytes that are backed of the window, and of its part for pinned host memory.
#define SERVER_MEMORY (64ull << 20)
#define SERVER_HOST_MEMORY (32ull << 20)
#define SERVER_HOST_BASE (WIRE_WINDOW_BASE + WIRE_WINDOW_SIZE / 4 * 3)
#define SERVER_MAPS 256

struct server;

struct server_hook {
  // Called by the server's thread for each frame, with its payload behind it. True: it was dealt
  // with, and no answer is sent.
  _Bool (*frame)(struct server *server, const struct wire_header *frame, void *context);
  void *context;
};

struct server *server_start(int fd, struct server_hook hook);

// While paused it takes nothing: the socket fills up.
void server_pause(struct server *server);
void server_resume(struct server *server);

// Frames taken so far: of one kind, or of any (op 0). server_wait returns once `count` have been
// dealt with, hook and all.
uint64_t server_count(struct server *server, uint16_t op);
void server_wait(struct server *server, uint16_t op, uint64_t count);
// How often it said that it is idle; how often it found the socket empty.
uint64_t server_idles(struct server *server);
// Bytes mapped now and ever at once. Maps that overlap, and unmaps of what is not mapped, abort.
uint64_t server_mapped(struct server *server);

// Without IDLE, what nobody waits for stays in the guest.
void server_send_idle(struct server *server, _Bool send);

// Whether work is said to be done, when pages are asked for.
void server_settled(struct server *server, _Bool settled);

uint8_t *server_memory(struct server *server);  // at WIRE_WINDOW_BASE
// Of a range, which is in that memory.
uint8_t *server_reach(struct server *server, uint64_t address, uint64_t size);

// What it says of every kernel: up to 1024 threads, 48 KiB of dynamic shared memory.
void server_describe(struct wire_description *description);

// For hooks, and for tests that speak for a paused server.
void server_send(struct server *server, const void *bytes, uint64_t size);
void server_reply(struct server *server, uint64_t request, int32_t result, int32_t async);
void server_data(struct server *server, uint64_t request, uint64_t offset, const void *bytes,
                 uint64_t length);
void server_close(struct server *server);
int server_socket(struct server *server);

#endif
