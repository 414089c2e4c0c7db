// A client and a server in one process, for tests and fuzz targets.
#ifndef OUTBOARD_TLS_TEST_PAIR_H
#define OUTBOARD_TLS_TEST_PAIR_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "certificates.h"
#include "outboard_tls.h"

// A day within the time of all certificates.
#define NOW (BRIEF_BEGIN + 3600u)

#define PEM(text) \
  { (const uint8_t *)(text), sizeof(text) - 1 }

struct side {
  struct outboard_tls *tls;
  int failure;
  bool done;
  uint8_t in[64 << 10];  // what has come and was not used
  size_t have;
};

struct pair {
  struct side client, server;
};

// One step of a side; what it made goes to the other one, `piece` bytes at a time.
static inline bool pair_step(struct side *side, struct side *other) {
  static uint8_t out[32 << 10];
  struct outboard_tls_shake shake;
  side->failure = outboard_tls_shake(side->tls, side->in, side->have, out, sizeof out, &shake);
  side->done = shake.done;
  memmove(side->in, side->in + shake.used, side->have - shake.used);
  side->have -= shake.used;
  memcpy(other->in + other->have, out, shake.made);
  other->have += shake.made;
  return shake.made != 0 || shake.used != 0;
}

// Until both are done, or one has failed. The client goes first.
static inline void pair_shake(struct pair *pair) {
  bool goes_on = true;
  while (goes_on && !pair->client.failure && !pair->server.failure) {
    goes_on = false;
    if (!pair->client.done) goes_on |= pair_step(&pair->client, &pair->server);
    if (!pair->client.failure && !pair->server.done)
      goes_on |= pair_step(&pair->server, &pair->client);
  }
}

static inline void pair_end(struct pair *pair) {
  outboard_tls_end(pair->client.tls);
  outboard_tls_end(pair->server.tls);
  free(pair);
}

#endif
