// What the environment says: see the table in guest-lib/README.md.
#ifndef OUTBOARD_CONFIG_H
#define OUTBOARD_CONFIG_H

#include <stdint.h>

#include "cuda_driver.h"

#define CONFIG_SERVERS_MAX 8
#define CONFIG_ACCESS_TOKEN_MAX 4096
#define CONFIG_NAME_MAX 128
#define CONFIG_GPU_MODEL_MAX 96

struct config {
  int server_count;
  struct server_name {
    char host[256];  // or the path of a Unix socket, where port is empty
    char port[8];
    _Bool tls;  // tls://
  } servers[CONFIG_SERVERS_MAX];
  char access_token[CONFIG_ACCESS_TOKEN_MAX];
  char name[CONFIG_NAME_MAX];            // of the function; empty: not said
  char session_class[16];                // empty: not said
  char gpu_model[CONFIG_GPU_MODEL_MAX];  // part of the names of its GPUs; empty: any
  char traceparent[56];                  // W3C trace context; empty: none
  char ticket[80];                       // of a GPU that was promised to the session; empty: none
  uint32_t gpus;                         // 0: not said
  uint64_t memory;                       // bytes; 0: not said
  uint32_t share_request;                // percent; 0: not said
  uint32_t share_limit;
  uint32_t connect_timeout_ms;
  uint32_t network_timeout_ms;
  const char *visible_devices;  // CUDA_VISIBLE_DEVICES, or NULL
  // Files for TLS; NULL: this system's authorities; no certificate. Key and certificate are both
  // there or neither is.
  const char *authorities, *certificate, *key;
};

// A server as people write it: HOST:PORT, tls://HOST:PORT, or unix: and the path.
#define SERVER_TEXT 288
void server_write(const struct server_name *server, char text[SERVER_TEXT]);

// A program with several GPUs has them from as many servers as are named: they share them out as
// evenly as it goes, in that order. How many servers that is, and how many GPUs of one of them.
unsigned config_parts(const struct config *config);
unsigned config_gpus_of(const struct config *config, unsigned part);

// Reads and checks the environment. On a bad value, logs what is wrong and returns
// CUDA_ERROR_INVALID_VALUE; without a server, CUDA_ERROR_SYSTEM_NOT_READY.
CUresult config_read(struct config *config);

#endif
