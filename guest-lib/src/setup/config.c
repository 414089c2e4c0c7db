#include "setup/config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "abi_descriptor.h"
#include "setup/device_description.h"
#include "setup/environment.h"
#include "setup/log.h"
#include "setup/size.h"

#define CONNECT_TIMEOUT_DEFAULT_MS 10000
#define NETWORK_TIMEOUT_DEFAULT_MS 60000
#define TIMEOUT_MAX_S 3600
// Where `outboard serve` listens unless it is told otherwise (monitor/src/options/values.ts).
#define USUAL_PORT "4460"
// Where its pages let it listen for TLS (docs/operating.md).
#define USUAL_TLS_PORT "4462"
#define TLS_SCHEME "tls://"

static const char expected_servers[] =
    "expected HOST:PORT, [IPV6]:PORT, tls://HOST:PORT or unix:/PATH, several separated by commas; "
    "without a port it is " USUAL_PORT ", with TLS " USUAL_TLS_PORT;

static _Bool bad(const char *variable, const char *value, const char *expected) {
  log_error("%s=\"%s\" is not understood: %s", variable, value, expected);
  return 0;
}

// unix:/path, which is `length` bytes of the variable's value.
static _Bool read_path(struct server_name *server, const char *value, const char *at,
                       size_t length) {
  size_t scheme = strlen("unix:");
  struct sockaddr_un address;
  if (length - scheme >= sizeof address.sun_path)
    return bad("OUTBOARD_SERVER", value, "the path of a Unix socket has at most 107 bytes");
  memcpy(server->host, at + scheme, length - scheme);
  server->host[length - scheme] = 0;
  server->port[0] = 0;
  return 1;
}

// host, host:port, [v6] or [v6]:port, which is `length` bytes of the variable's value; behind
// tls:// perhaps.
static _Bool read_address(struct server_name *server, const char *value, const char *at,
                          size_t length) {
  static const char in_brackets[] = "an IPv6 address stands in brackets: [::1]:4460";
  size_t scheme = strlen(TLS_SCHEME);
  server->tls = length >= scheme && strncmp(at, TLS_SCHEME, scheme) == 0;
  if (server->tls) at += scheme, length -= scheme;
  if (memmem(at, length, "://", strlen("://")))
    return bad("OUTBOARD_SERVER", value, expected_servers);
  const char *usual_port = server->tls ? USUAL_TLS_PORT : USUAL_PORT;
  const char *end = at + length, *host = at, *host_end, *behind;
  if (length > 0 && at[0] == '[') {
    host++;
    host_end = memchr(at, ']', length);
    if (!host_end) return bad("OUTBOARD_SERVER", value, in_brackets);
    behind = host_end + 1;
  } else {
    const char *colon = memchr(at, ':', length);
    host_end = behind = colon ? colon : end;
    if (colon && memchr(colon + 1, ':', (size_t)(end - colon - 1)))
      return bad("OUTBOARD_SERVER", value, in_brackets);
  }
  size_t host_length = (size_t)(host_end - host);
  const char *port = behind == end ? usual_port : behind + 1;
  size_t port_length = behind == end ? strlen(usual_port) : (size_t)(end - port);
  if (host_length == 0 || host_length >= sizeof server->host || port_length == 0 ||
      port_length >= sizeof server->port || (behind != end && *behind != ':'))
    return bad("OUTBOARD_SERVER", value, expected_servers);
  memcpy(server->host, host, host_length);
  server->host[host_length] = 0;
  memcpy(server->port, port, port_length);
  server->port[port_length] = 0;
  char *stop;
  unsigned long number = strtoul(server->port, &stop, 10);
  if (*stop || server->port[0] < '0' || server->port[0] > '9' || number == 0 || number > 65535)
    return bad("OUTBOARD_SERVER", value, "a port is a number from 1 to 65535");
  return 1;
}

static _Bool read_tls_files(struct config *config) {
  config->authorities = environment("OUTBOARD_CA");
  config->certificate = environment("OUTBOARD_CERT");
  config->key = environment("OUTBOARD_KEY");
  if (!config->certificate == !config->key) return 1;
  log_error("%s is set and %s is not: a certificate is of no use without its key. Set both or none",
            config->key ? "OUTBOARD_KEY" : "OUTBOARD_CERT",
            config->key ? "OUTBOARD_CERT" : "OUTBOARD_KEY");
  return 0;
}

// Addresses and unix:/path, separated by commas.
static _Bool read_servers(struct config *config, const char *value) {
  const char *at = value;
  while (*at) {
    size_t length = strcspn(at, ",");
    if (config->server_count == CONFIG_SERVERS_MAX)
      return bad("OUTBOARD_SERVER", value, "at most 8 servers can be named");
    struct server_name *server = &config->servers[config->server_count];
    // With the slash: a host may be called unix.
    _Bool is_path = strncmp(at, "unix:/", strlen("unix:/")) == 0;
    if (!(is_path ? read_path : read_address)(server, value, at, length)) return 0;
    config->server_count++;
    at += length;
    if (*at == ',') at++;
  }
  if (config->server_count == 0) return bad("OUTBOARD_SERVER", value, expected_servers);
  return 1;
}

// The number from `text` to `stop`, which is all or part of the variable's value.
static _Bool read_number(const char *variable, const char *value, const char *text,
                         const char *stop, unsigned long long max, const char *expected,
                         unsigned long long *number) {
  char *end;
  errno = 0;
  unsigned long long parsed = strtoull(text, &end, 10);
  if (end == text || end != stop || text[0] < '0' || text[0] > '9' || errno || parsed > max)
    return bad(variable, value, expected);
  *number = parsed;
  return 1;
}

// Where the variable says nothing, *ms stays as it is.
static _Bool read_seconds(const char *variable, uint32_t *ms) {
  static const char expected[] = "expected seconds, from 1 to 3600";
  const char *value = environment(variable);
  if (!value) return 1;
  unsigned long long number;
  if (!read_number(variable, value, value, value + strlen(value), TIMEOUT_MAX_S, expected, &number))
    return 0;
  if (number == 0) return bad(variable, value, expected);
  *ms = (uint32_t)number * 1000;
  return 1;
}

static _Bool read_memory(struct config *config, const char *value) {
  return size_read(value, &config->memory) || bad("OUTBOARD_MEMORY", value, SIZE_EXPECTED);
}

static _Bool read_share(struct config *config, const char *value) {
  const char *expected = "expected percent of a GPU as REQUEST or REQUEST:LIMIT, from 1 to 100";
  const char *colon = strchr(value, ':');
  const char *stop = colon ? colon : value + strlen(value);
  unsigned long long request, limit;
  if (!read_number("OUTBOARD_SHARE", value, value, stop, 100, expected, &request)) return 0;
  limit = request;
  if (colon && !read_number("OUTBOARD_SHARE", value, colon + 1, colon + 1 + strlen(colon + 1), 100,
                            expected, &limit))
    return 0;
  if (request == 0 || limit < request)
    return bad("OUTBOARD_SHARE", value, "the limit is at least the request, and both at least 1");
  config->share_request = (uint32_t)request;
  config->share_limit = (uint32_t)limit;
  return 1;
}

static _Bool read_access_token(struct config *config) {
  const char *token = environment("OUTBOARD_TOKEN");
  const char *path = environment("OUTBOARD_TOKEN_FILE");
  if (token) {
    if (strlen(token) >= sizeof config->access_token) {
      log_error("OUTBOARD_TOKEN is longer than %d bytes", CONFIG_ACCESS_TOKEN_MAX - 1);
      return 0;
    }
    strcpy(config->access_token, token);
    return 1;
  }
  if (!path) return 1;
  FILE *file = stream_above(path, "r");
  if (!file) {
    log_error("OUTBOARD_TOKEN_FILE=\"%s\" cannot be read: %s", path, strerror(errno));
    return 0;
  }
  size_t length = fread(config->access_token, 1, sizeof config->access_token, file);
  fclose(file);
  if (length == sizeof config->access_token) {
    log_error("OUTBOARD_TOKEN_FILE=\"%s\" holds more than %d bytes", path,
              CONFIG_ACCESS_TOKEN_MAX - 1);
    return 0;
  }
  while (length && strchr("\r\n\t ", config->access_token[length - 1])) length--;
  config->access_token[length] = 0;
  if (!length) log_error("OUTBOARD_TOKEN_FILE=\"%s\" is empty: it holds no access token", path);
  return length != 0;
}

static _Bool read_name(struct config *config, const char *value) {
  const char *expected = "expected 1 to 127 printable characters of ASCII";
  size_t length = strlen(value);
  if (length >= sizeof config->name) return bad("OUTBOARD_NAME", value, expected);
  for (size_t i = 0; i < length; i++)
    if (value[i] < ' ' || value[i] > '~') return bad("OUTBOARD_NAME", value, expected);
  strcpy(config->name, value);
  return 1;
}

static _Bool read_gpu_model(struct config *config, const char *value) {
  const char *expected =
      "expected part of the name of a GPU, as in H100: 1 to 95 printable characters of ASCII";
  size_t length = strlen(value);
  if (length >= sizeof config->gpu_model) return bad("OUTBOARD_GPU_MODEL", value, expected);
  for (size_t i = 0; i < length; i++)
    if (value[i] < ' ' || value[i] > '~') return bad("OUTBOARD_GPU_MODEL", value, expected);
  strcpy(config->gpu_model, value);
  return 1;
}

static _Bool read_class(struct config *config, const char *value) {
  if (strcmp(value, "latency-strict") != 0 && strcmp(value, "best-effort") != 0)
    return bad("OUTBOARD_CLASS", value, "expected latency-strict or best-effort");
  strcpy(config->session_class, value);
  return 1;
}

// 00-<32 hexadecimal digits>-<16>-<2>. It is not ours, so a bad one is only left out, as the W3C
// has it.
static void read_traceparent(struct config *config, const char *value) {
  static const char form[] = "00-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx-xxxxxxxxxxxxxxxx-xx";
  size_t i = 0;
  for (; i < sizeof form - 1; i++) {
    _Bool digit = (value[i] >= '0' && value[i] <= '9') || (value[i] >= 'a' && value[i] <= 'f');
    if (form[i] == 'x' ? !digit : value[i] != form[i]) break;
  }
  if (i < sizeof form - 1 || value[i]) {
    log_warn("TRACEPARENT is no W3C trace context of version 00: left out");
    return;
  }
  strcpy(config->traceparent, value);
}

static _Bool read_all(struct config *config, const char *servers) {
  if (!read_servers(config, servers)) return 0;
  if (!read_access_token(config)) return 0;
  if (!read_tls_files(config)) return 0;

  unsigned long long number;
  const char *value = environment("OUTBOARD_GPUS");
  if (value) {
    if (!read_number("OUTBOARD_GPUS", value, value, value + strlen(value), DEVICES_MAX,
                     "expected how many GPUs, from 1 to 8", &number))
      return 0;
    if (number == 0) return bad("OUTBOARD_GPUS", value, "expected how many GPUs, from 1 to 8");
    config->gpus = (uint32_t)number;
  }
  value = environment("OUTBOARD_MEMORY");
  if (value && !read_memory(config, value)) return 0;
  value = environment("OUTBOARD_SHARE");
  if (value && !read_share(config, value)) return 0;
  value = environment("OUTBOARD_NAME");
  if (value && !read_name(config, value)) return 0;
  value = environment("OUTBOARD_CLASS");
  if (value && !read_class(config, value)) return 0;
  value = environment("OUTBOARD_GPU_MODEL");
  if (value && !read_gpu_model(config, value)) return 0;
  value = environment("TRACEPARENT");
  if (value) read_traceparent(config, value);
  return read_seconds("OUTBOARD_CONNECT_TIMEOUT", &config->connect_timeout_ms) &&
         read_seconds("OUTBOARD_NETWORK_TIMEOUT", &config->network_timeout_ms);
}

CUresult config_read(struct config *config) {
  memset(config, 0, sizeof *config);
  config->connect_timeout_ms = CONNECT_TIMEOUT_DEFAULT_MS;
  config->network_timeout_ms = NETWORK_TIMEOUT_DEFAULT_MS;
  config->visible_devices = environment_or_empty("CUDA_VISIBLE_DEVICES");
  const char *servers = environment("OUTBOARD_SERVER");
  if (!servers) {
    log_error("OUTBOARD_SERVER is not set: name the GPU server, as in OUTBOARD_SERVER=gpu1:4460");
    return CUDA_ERROR_SYSTEM_NOT_READY;
  }
  return read_all(config, servers) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

void server_write(const struct server_name *server, char text[SERVER_TEXT]) {
  const char *host = server->host, *port = server->port;
  const char *form = !*port ? "%sunix:%s" : strchr(host, ':') ? "%s[%s]:%s" : "%s%s:%s";
  snprintf(text, SERVER_TEXT, form, server->tls ? TLS_SCHEME : "", host, port);
}

unsigned config_parts(const struct config *config) {
  unsigned servers = (unsigned)config->server_count, gpus = config->gpus ? config->gpus : 1;
  return servers < gpus ? servers : gpus;
}

unsigned config_gpus_of(const struct config *config, unsigned part) {
  unsigned parts = config_parts(config), gpus = config->gpus ? config->gpus : 1;
  return gpus / parts + (part < gpus % parts);
}
