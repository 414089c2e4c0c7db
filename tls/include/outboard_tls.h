// TLS 1.3 of a client: bytes in, bytes out. Sockets, files and waiting are the caller's. Nothing
// here keeps anything outside of a connection, writes or starts a thread.
#ifndef OUTBOARD_TLS_H
#define OUTBOARD_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// What a record has beside its content, and the most that content can be. A whole record has at
// most OUTBOARD_TLS_RECORD bytes, whoever made it.
#define OUTBOARD_TLS_HEADER 5
#define OUTBOARD_TLS_OVERHEAD 22
#define OUTBOARD_TLS_CONTENT 16384
#define OUTBOARD_TLS_RECORD (OUTBOARD_TLS_HEADER + OUTBOARD_TLS_CONTENT + 256)
// Of a record that changes the keys.
#define OUTBOARD_TLS_UPDATE 27

// Why something has failed: src/lib.rs numbers them.
enum outboard_tls_failure {
  OUTBOARD_TLS_CLOSED = 1,       // the other side has said that it sends no more
  OUTBOARD_TLS_DAMAGED,          // a record that is not the other side's next one
  OUTBOARD_TLS_NOT_TLS,          // what came is no TLS
  OUTBOARD_TLS_OLD,              // the other side does not speak TLS 1.3, or nothing that we do
  OUTBOARD_TLS_EXPIRED,          // the server's certificate: its time is over
  OUTBOARD_TLS_NOT_YET,          // ... has not begun
  OUTBOARD_TLS_WRONG_NAME,       // ... is of others
  OUTBOARD_TLS_UNKNOWN,          // ... is signed by none of the authorities
  OUTBOARD_TLS_BAD_SERVER,       // ... is wrong otherwise
  OUTBOARD_TLS_BAD_HOST,         // no name or address of a host
  OUTBOARD_TLS_NO_AUTHORITY,     // no certificate is among the authorities
  OUTBOARD_TLS_BAD_CERTIFICATE,  // the client's: cannot be read, or is too long
  OUTBOARD_TLS_BAD_KEY,          // the client's key cannot be read
  OUTBOARD_TLS_BAD_PAIR,         // key and certificate are not of each other
  OUTBOARD_TLS_OTHER,
  OUTBOARD_TLS_ALERT = 256,  // and above: the number of the alert that came
};

struct outboard_tls;

struct outboard_tls_bytes {
  const uint8_t *at;
  size_t size;
};

struct outboard_tls_client {
  struct outboard_tls_bytes host;              // name or address, as in the certificate
  struct outboard_tls_bytes authorities;       // PEM
  struct outboard_tls_bytes certificate, key;  // PEM; of size 0: the client shows none
  uint64_t now;                                // seconds since 1970
};

// Begins a connection. 0, or a failure.
int outboard_tls_begin(const struct outboard_tls_client *client, struct outboard_tls **tls);
// Takes back what it has, in either state. NULL is fine.
void outboard_tls_end(struct outboard_tls *tls);

// The handshake, step by step: first with nothing, then with all that has come and was not used.
// `incoming` is changed, and neither pointer is NULL. What was made is to be sent, also after a
// failure: it says why. 0, or a failure, after which there is only outboard_tls_end.
struct outboard_tls_shake {
  size_t used, made;
  bool done;  // what was not used are records
};
int outboard_tls_shake(struct outboard_tls *tls, uint8_t *incoming, size_t size, uint8_t *outgoing,
                       size_t room, struct outboard_tls_shake *shake);

// Behind the handshake. One thread may send while another receives.

// Makes a record of `size` bytes at record + OUTBOARD_TLS_HEADER, at most OUTBOARD_TLS_CONTENT.
// Returns its size, which is OUTBOARD_TLS_OVERHEAD more; 0: nothing can be sent any more.
size_t outboard_tls_seal(struct outboard_tls *tls, uint8_t *record, size_t size);
// To be called between records, often: where the keys have been used enough, or the other side
// wants others, makes a record that says so, changes them, and returns the record's size; else 0.
size_t outboard_tls_update(struct outboard_tls *tls, uint8_t *record);

// Opens the record at the start of `bytes`, in place. 0, or a failure; `used` is 0 where more bytes
// are needed, and `size` where the record brought nothing for the caller.
struct outboard_tls_content {
  size_t used;
  const uint8_t *at;
  size_t size;
};
int outboard_tls_open(struct outboard_tls *tls, uint8_t *bytes, size_t size,
                      struct outboard_tls_content *content);
// Whether outboard_tls_open would not ask for more bytes.
bool outboard_tls_has_record(const uint8_t *bytes, size_t size);

#endif
