// The raw side: the same payloads over a plain TCP connection to bench-peer, another process on the
// same machine.
#ifndef BENCH_RAW_H
#define BENCH_RAW_H

#include <stddef.h>
#include <stdint.h>

// What the peer is asked for: `count` times it gets `in` bytes and answers with `out` bytes, then
// it sends one more byte.
struct raw_request {
  uint64_t count;
  uint64_t in;
  uint64_t out;
};

#define RAW_MOST (256ull << 20)

// All end the program when something fails.
int raw_connect(const char *port);
void raw_send(int fd, const void *bytes, size_t size);
void raw_receive(int fd, void *bytes, size_t size);
void raw_ask(int fd, struct raw_request request);
void raw_finished(int fd);  // receives that last byte

#endif
