// In place of tls.c where tls/ was not built: there was no Rust, or only the demo was set up.
#include <errno.h>

#include "setup/log.h"
#include "setup/tls.h"

struct tls *tls_open(int fd, const struct server_name *server, const struct config *config,
                     int64_t deadline, int *error) {
  (void)fd, (void)config, (void)deadline;
  log_error(
      "no connection to tls://%s:%s: this library was built without TLS, by `npm run demo` alone "
      "or where there was no cargo (Debian: cargo-web). Use one of `npm run build` with cargo, "
      "or `outboard agent`",
      server->host, server->port);
  *error = EPROTONOSUPPORT;
  return NULL;
}

void tls_close(struct tls *tls) { (void)tls; }

int tls_seal(struct tls *tls, struct iovec **parts, int *count, const void *ours, _Bool *unreadable,
             struct kept_bytes *kept, struct iovec **sealed) {
  (void)tls, (void)parts, (void)count, (void)ours, (void)unreadable, (void)kept, (void)sealed;
  return 0;
}

ssize_t tls_receive(struct tls *tls, int fd, int flags, const uint8_t **at) {
  (void)tls, (void)fd, (void)flags, (void)at;
  errno = EPROTONOSUPPORT;
  return -1;
}

void tls_took(struct tls *tls, size_t size) { (void)tls, (void)size; }

_Bool tls_has(const struct tls *tls) {
  (void)tls;
  return 0;
}

size_t tls_ahead(const struct tls *tls) {
  (void)tls;
  return 0;
}
