#include "setup/tls.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "abi_descriptor.h"
#include "kept_bytes.h"
#include "outboard_tls.h"
#include "setup/clock.h"
#include "setup/dial.h"
#include "setup/log.h"
#include "setup/wait.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

// Records that leave together. The kernel copies to where contents begin, and is fast only if that
// is the beginning of a line of the cache; headers, and a change of keys, are in front of it.
#define OUT_RECORDS 8
#define LINE 64
#define OUT_STRIDE (OUTBOARD_TLS_CONTENT + LINE)
#define OUT_BYTES (LINE + OUT_RECORDS * OUT_STRIDE)
_Static_assert(OUTBOARD_TLS_UPDATE + OUTBOARD_TLS_HEADER <= LINE, "room in front");
_Static_assert(OUTBOARD_TLS_OVERHEAD <= LINE, "room between");
// A server's whole handshake has room in it, chains of certificates included.
#define IN_BYTES (128u << 10)

struct tls {
  struct outboard_tls *connection;
  struct outboard_tls_content content;  // what is there of a record that was opened
  size_t begin, end;                    // of what has come and was not opened
  int failed;                           // an errno value: nothing is received any more
  uint8_t in[IN_BYTES];
  struct iovec sealed[OUT_RECORDS];  // what of `out` is to be sent
  _Alignas(LINE) uint8_t out[OUT_BYTES];
};

// ---- files -------------------------------------------------------------------------------------

// Certificates of all authorities of a system have some 200 KiB.
#define FILE_MAX_BYTES (4u << 20)

// The file's bytes, to be freed; NULL and errno where it cannot be read.
static uint8_t *read_file(const char *path, size_t *size) {
  FILE *file = stream_above(path, "r");
  if (!file) return NULL;
  size_t room = 64 << 10, have = 0;
  uint8_t *bytes = malloc(room);
  while (bytes) {
    have += fread(bytes + have, 1, room - have, file);
    if (have < room) break;
    uint8_t *larger = room < FILE_MAX_BYTES ? realloc(bytes, room *= 2) : NULL;
    if (!larger) free(bytes), errno = EFBIG;
    bytes = larger;
  }
  if (bytes && ferror(file)) free(bytes), bytes = NULL;
  fclose(file);
  *size = have;
  return bytes;
}

static uint8_t *read_named(const char *variable, const char *path, size_t *size) {
  uint8_t *bytes = read_file(path, size);
  if (!bytes)
    log_error("%s=\"%s\" cannot be read: %s. Name a file in PEM", variable, path, strerror(errno));
  return bytes;
}

// Where systems have the authorities that they trust: Debian, Fedora and Amazon Linux, SUSE,
// Alpine.
static const char *const system_authorities[] = {"/etc/ssl/certs/ca-certificates.crt",
                                                 "/etc/pki/tls/certs/ca-bundle.crt",
                                                 "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"};

static uint8_t *read_authorities(const struct config *config, size_t *size) {
  if (config->authorities) return read_named("OUTBOARD_CA", config->authorities, size);
  for (unsigned i = 0; i < sizeof system_authorities / sizeof *system_authorities; i++) {
    uint8_t *bytes = read_file(system_authorities[i], size);
    if (bytes) return bytes;
  }
  log_error(
      "this system has no file of authorities to know a server by. Name one with OUTBOARD_CA, "
      "as the server's own certificate, or install the package ca-certificates");
  return NULL;
}

// ---- the handshake -----------------------------------------------------------------------------

static void explain(int failure, const struct server_name *server, const struct config *config) {
  char now[32] = "";
  const time_t seconds = time(NULL);
  struct tm parts;
  if (gmtime_r(&seconds, &parts)) strftime(now, sizeof now, "%Y-%m-%d %H:%M:%S UTC", &parts);
  const char *host = server->host, *port = server->port;
  const char *authorities = config->authorities ? config->authorities : "this system's authorities";
  switch (failure) {
    case OUTBOARD_TLS_CLOSED:
      log_error("tls://%s:%s has ended the connection. See the server's log", host, port);
      return;
    case OUTBOARD_TLS_NOT_TLS:
      log_error(
          "what answers at %s:%s speaks no TLS. Name the server's --tls-listen, or leave tls:// "
          "away",
          host, port);
      return;
    case OUTBOARD_TLS_OLD:
      log_error(
          "what answers at %s:%s does not speak TLS 1.3, and nothing older is spoken here. Is it "
          "an Outboard server, and nothing in between that ends TLS?",
          host, port);
      return;
    case OUTBOARD_TLS_EXPIRED:
      log_error(
          "the certificate of tls://%s:%s has expired: here it is %s. Give the server a new one, "
          "or set this machine's clock",
          host, port, now);
      return;
    case OUTBOARD_TLS_NOT_YET:
      log_error(
          "the certificate of tls://%s:%s is not valid yet: here it is %s. Set this machine's "
          "clock, or the one where the certificate was made",
          host, port, now);
      return;
    case OUTBOARD_TLS_WRONG_NAME:
      log_error(
          "the certificate of tls://%s:%s is not of %s. Name the server as its certificate does, "
          "or give it one with that name (subjectAltName)",
          host, port, host);
      return;
    case OUTBOARD_TLS_UNKNOWN:
      log_error(
          "the certificate of tls://%s:%s is signed by nobody in %s. Name the authority's file, or "
          "the server's own certificate, with OUTBOARD_CA",
          host, port, authorities);
      return;
    case OUTBOARD_TLS_BAD_PEER:
      log_error(
          "the certificate of tls://%s:%s is no server's: it is of version 1, as `openssl x509 "
          "-req` "
          "makes it without -extfile, or is for other uses. Give the server one with its name "
          "(subjectAltName)",
          host, port);
      return;
    case OUTBOARD_TLS_BAD_HOST:
      log_error(
          "tls://%s:%s: that is no name that a certificate could have. Name the server by letters, "
          "digits, dashes and dots, or by its address",
          host, port);
      return;
    case OUTBOARD_TLS_NO_AUTHORITY:
      log_error("%s holds no certificate that can be read. Name a file in PEM with OUTBOARD_CA",
                authorities);
      return;
    case OUTBOARD_TLS_BAD_CERTIFICATE:
      log_error("OUTBOARD_CERT=\"%s\" holds no certificates that can be used. Name a file in PEM",
                config->certificate);
      return;
    case OUTBOARD_TLS_BAD_KEY:
      log_error("OUTBOARD_KEY=\"%s\" holds no key. Name a file in PEM, without a password",
                config->key);
      return;
    case OUTBOARD_TLS_BAD_PAIR:
      log_error(
          "OUTBOARD_CERT=\"%s\" and OUTBOARD_KEY=\"%s\" do not belong together. Name the "
          "certificate of that key",
          config->certificate, config->key);
      return;
    default:
      if (failure >= OUTBOARD_TLS_ALERT)
        log_error(
            "tls://%s:%s refuses: alert %d of TLS. Where that is about a certificate, see "
            "OUTBOARD_CERT and OUTBOARD_KEY, and the server's --tls-client-ca and log",
            host, port, failure - OUTBOARD_TLS_ALERT);
      else
        log_error("no connection to tls://%s:%s: failure %d of TLS. See the server's log", host,
                  port, failure);
  }
}

// A compiler would leave a memset away whose result nobody reads.
static void forget(uint8_t *secret, size_t size) {
  volatile uint8_t *at = secret;
  for (size_t i = 0; i < size; i++) at[i] = 0;
}

// 0, or a failure that has been explained: -1.
static int begin(struct tls *tls, const struct server_name *server, const struct config *config) {
  struct outboard_tls_client client = {
      .host = {(const uint8_t *)server->host, strlen(server->host)}, .now = (uint64_t)time(NULL)};
  uint8_t *authorities = NULL, *certificate = NULL, *key = NULL;
  int result = -1;
  if (!(authorities = read_authorities(config, &client.authorities.size))) goto end;
  if (config->certificate) {
    certificate = read_named("OUTBOARD_CERT", config->certificate, &client.certificate.size);
    if (!certificate) goto end;
    key = read_named("OUTBOARD_KEY", config->key, &client.key.size);
    if (!key) goto end;
    client.certificate.at = certificate, client.key.at = key;
    // An empty file is not the same as none.
    if (!client.certificate.size) {
      explain(OUTBOARD_TLS_BAD_CERTIFICATE, server, config);
      goto end;
    }
  }
  client.authorities.at = authorities;
  result = outboard_tls_begin(&client, &tls->connection);
  if (result) explain(result, server, config), result = -1;
end:
  if (key) forget(key, client.key.size);
  free(authorities), free(certificate), free(key);
  return result;
}

// 0, or an errno value.
static int shake_hands(struct tls *tls, int fd, const struct server_name *server,
                       const struct config *config, int64_t deadline) {
  for (;;) {
    struct outboard_tls_shake shake;
    int failure = outboard_tls_shake(tls->connection, tls->in + tls->begin, tls->end - tls->begin,
                                     tls->out, sizeof tls->out, &shake);
    tls->begin += shake.used;
    int64_t left = deadline - clock_ms();
    int error = dial_write(fd, NULL, tls->out, shake.made, left > 1 ? (int)left : 1);
    if (failure) {
      explain(failure, server, config);
      return EPROTO;
    }
    if (!error && shake.done) return 0;
    if (!error && tls->begin) {
      memmove(tls->in, tls->in + tls->begin, tls->end - tls->begin);
      tls->end -= tls->begin;
      tls->begin = 0;
    }
    if (!error && tls->end == sizeof tls->in) error = EMSGSIZE;
    if (!error) error = wait_for(fd, POLLIN, deadline);
    if (error == EINTR) return error;
    if (!error) {
      ssize_t got = recv(fd, tls->in + tls->end, sizeof tls->in - tls->end, MSG_DONTWAIT);
      if (got > 0) tls->end += (size_t)got;
      if (got < 0 && errno != EAGAIN && errno != EINTR) error = errno;
      if (got == 0) {
        explain(OUTBOARD_TLS_CLOSED, server, config);
        return ECONNRESET;
      }
    }
    if (error) {
      log_error("no TLS with %s:%s: %s. Is its --tls-listen there?", server->host, server->port,
                strerror(error));
      return error;
    }
  }
}

struct tls *tls_open(int fd, const struct server_name *server, const struct config *config,
                     int64_t deadline, int *error) {
  struct tls *tls =
      mmap(NULL, sizeof *tls, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (tls == MAP_FAILED) {
    *error = errno;
    log_error("there is no memory for TLS: %s", strerror(errno));
    return NULL;
  }
  *error = begin(tls, server, config) ? EPROTO : shake_hands(tls, fd, server, config, deadline);
  if (!*error) return tls;
  tls_close(tls);
  return NULL;
}

void tls_close(struct tls *tls) {
  if (!tls) return;
  outboard_tls_end(tls->connection);
  munmap(tls, sizeof *tls);
}

// ---- records -----------------------------------------------------------------------------------

// False also where the kernel does not tell, as before 5.14.
static _Bool is_unreadable(const struct iovec *part) {
  const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)part->iov_base;
  const uintptr_t begin = at & -page, end = (at + part->iov_len + page - 1) & -page;
  return madvise((void *)begin, end - begin, MADV_POPULATE_READ) != 0 && errno != EINVAL;
}

// What is the program's and cannot be read is found out by the kernel, which copies it to our
// memory: that way round it looks up pages of ours alone, which are in the cache.
static _Bool copy(const struct iovec *to, int count, const struct iovec *from, _Bool ours) {
  ssize_t copied = ours ? -1 : process_vm_writev(getpid(), from, 1, to, (unsigned long)count, 0);
  if (copied == (ssize_t)from->iov_len) return 1;
  // Sandboxes forbid it.
  const _Bool forbidden = copied < 0 && errno != EFAULT;
  const _Bool by_us = ours || (forbidden && !is_unreadable(from));
  const char *at = from->iov_base;
  size_t there = by_us ? from->iov_len : copied < 0 ? 0 : (size_t)copied;
  for (int i = 0; i < count; i++) {
    const size_t piece = there < to[i].iov_len ? there : to[i].iov_len;
    if (by_us) memcpy(to[i].iov_base, at, piece);
    memset((char *)to[i].iov_base + piece, 0, to[i].iov_len - piece);
    at += piece, there -= piece;
  }
  return by_us;
}

static uint8_t *content_of(struct tls *tls, size_t record) {
  return tls->out + LINE + record * OUT_STRIDE;
}

// Where `size` bytes lie from a byte of a record's content on.
static int places(struct tls *tls, size_t record, size_t within, size_t size, struct iovec *out) {
  int count = 0;
  for (; size; record++, within = 0) {
    const size_t room = OUTBOARD_TLS_CONTENT - within, piece = size < room ? size : room;
    out[count++] = (struct iovec){content_of(tls, record) + within, piece};
    size -= piece;
  }
  return count;
}

int tls_seal(struct tls *tls, struct iovec **parts, int *count, const void *ours, _Bool *unreadable,
             struct kept_bytes *kept, struct iovec **sealed) {
  size_t sizes[OUT_RECORDS], record = 0, have = 0;  // of the record
  while (*count && record < OUT_RECORDS) {
    struct iovec *part = *parts, piece = *part, to[OUT_RECORDS];
    // A payload begins a record, so that the server can receive it where it belongs.
    if (have && piece.iov_len > OUTBOARD_TLS_CONTENT) {
      sizes[record++] = have, have = 0;
      continue;
    }
    const size_t room = (OUT_RECORDS - record) * OUTBOARD_TLS_CONTENT - have;
    if (piece.iov_len > room) piece.iov_len = room;
    const _Bool is_ours = piece.iov_base == ours;
    if (piece.iov_len && !copy(to, places(tls, record, have, piece.iov_len, to), &piece, is_ours))
      *unreadable = 1;
    for (have += piece.iov_len; have >= OUTBOARD_TLS_CONTENT; have -= OUTBOARD_TLS_CONTENT)
      sizes[record++] = OUTBOARD_TLS_CONTENT;
    if (is_ours) ours = (char *)ours + piece.iov_len;
    part->iov_base = (char *)part->iov_base + piece.iov_len;
    part->iov_len -= piece.iov_len;
    if (!part->iov_len) ++*parts, --*count;
  }
  if (have) sizes[record++] = have;
  for (size_t i = 0; kept && i < record; i++) kept_add(kept, content_of(tls, i), sizes[i]);
  // In front of the first header, which it leaves room for.
  uint8_t *const update = content_of(tls, 0) - OUTBOARD_TLS_HEADER - OUTBOARD_TLS_UPDATE;
  const size_t before = outboard_tls_update(tls->connection, update);
  for (size_t i = 0; i < record; i++) {
    uint8_t *const at = content_of(tls, i) - OUTBOARD_TLS_HEADER;
    const size_t size = outboard_tls_seal(tls->connection, at, sizes[i]);
    if (!size) return 0;
    const size_t front = i ? 0 : before;
    tls->sealed[i] = (struct iovec){at - front, size + front};
  }
  *sealed = tls->sealed;
  return (int)record;
}

static void fail(struct tls *tls, int failure) {
  if (failure >= OUTBOARD_TLS_ALERT) {
    log_error(
        "the server has ended TLS with alert %d. Where that is about a certificate, see "
        "OUTBOARD_CERT and OUTBOARD_KEY, and the server's --tls-client-ca and log",
        failure - OUTBOARD_TLS_ALERT);
    tls->failed = ECONNABORTED;
  } else {
    log_error(
        "what came is not what the server has sent: a record of TLS was changed, cut, left out or "
        "sent twice on the way. Look for what is in between, and start the program again");
    tls->failed = EBADMSG;
  }
}

_Bool tls_has(const struct tls *tls) {
  return !tls->failed && (tls->content.size ||
                          outboard_tls_has_record(tls->in + tls->begin, tls->end - tls->begin));
}

size_t tls_ahead(const struct tls *tls) { return tls->end - tls->begin; }

ssize_t tls_receive(struct tls *tls, int fd, int flags, const uint8_t **at) {
  for (;;) {
    if (tls->content.size) {
      *at = tls->content.at;
      return (ssize_t)tls->content.size;
    }
    if (tls->failed) {
      errno = tls->failed;
      return -1;
    }
    int failure = outboard_tls_open(tls->connection, tls->in + tls->begin, tls->end - tls->begin,
                                    &tls->content);
    tls->begin += tls->content.used;
    if (failure == OUTBOARD_TLS_CLOSED) return 0;
    if (failure) {
      fail(tls, failure);
      continue;
    }
    if (tls->content.used) continue;
    // The rest of a record has room behind what is there of it.
    if (tls->begin == tls->end || sizeof tls->in - tls->begin < OUTBOARD_TLS_RECORD) {
      memmove(tls->in, tls->in + tls->begin, tls->end - tls->begin);
      tls->end -= tls->begin;
      tls->begin = 0;
    }
    ssize_t got = recv(fd, tls->in + tls->end, sizeof tls->in - tls->end, flags);
    if (got <= 0) return got;
    tls->end += (size_t)got;
  }
}

void tls_took(struct tls *tls, size_t size) {
  tls->content.at += size;
  tls->content.size -= size;
}
