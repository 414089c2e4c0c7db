// TLS 1.3 of either side: bytes in, bytes out. Sockets, files and waiting are the caller's. Nothing
// here keeps anything outside of what it hands out, writes or starts a thread.
#ifndef OUTBOARD_TLS_H
#define OUTBOARD_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// What a record has beside its content, and the most that content can be. A whole record has at
// most OUTBOARD_TLS_RECORD bytes, whoever made it.
#define OUTBOARD_TLS_HEADER 5
#define OUTBOARD_TLS_TRAILER 17
#define OUTBOARD_TLS_OVERHEAD (OUTBOARD_TLS_HEADER + OUTBOARD_TLS_TRAILER)
#define OUTBOARD_TLS_CONTENT 16384
#define OUTBOARD_TLS_RECORD (OUTBOARD_TLS_HEADER + OUTBOARD_TLS_CONTENT + 256)
// Of a record that changes the keys.
#define OUTBOARD_TLS_UPDATE 27
// Of one that says that no more is sent.
#define OUTBOARD_TLS_LAST 24
// Of a connection that was saved.
#define OUTBOARD_TLS_STATE 120

// Why something has failed: src/lib.rs numbers them.
enum outboard_tls_failure {
  OUTBOARD_TLS_CLOSED = 1,       // the other side has said that it sends no more
  OUTBOARD_TLS_DAMAGED,          // a record that is not the other side's next one
  OUTBOARD_TLS_NOT_TLS,          // what came is no TLS
  OUTBOARD_TLS_OLD,              // the other side does not speak TLS 1.3, or nothing that we do
  OUTBOARD_TLS_EXPIRED,          // the other side's certificate: its time is over
  OUTBOARD_TLS_NOT_YET,          // ... has not begun
  OUTBOARD_TLS_WRONG_NAME,       // ... is of others
  OUTBOARD_TLS_UNKNOWN,          // ... is signed by none of the authorities
  OUTBOARD_TLS_BAD_PEER,         // ... is wrong otherwise
  OUTBOARD_TLS_BAD_HOST,         // no name or address of a host
  OUTBOARD_TLS_NO_AUTHORITY,     // no certificate is among the authorities
  OUTBOARD_TLS_BAD_CERTIFICATE,  // our own: cannot be read, or is too long
  OUTBOARD_TLS_BAD_KEY,          // our own key cannot be read
  OUTBOARD_TLS_BAD_PAIR,         // key and certificate are not of each other
  OUTBOARD_TLS_OTHER,
  OUTBOARD_TLS_VERSION_1,  // a client's certificate is of version 1, of which nothing is said here
  OUTBOARD_TLS_BAD_STATE,  // no state of a connection, or the connection has none
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

// Begins a client's connection. 0, or a failure.
int outboard_tls_begin(const struct outboard_tls_client *client, struct outboard_tls **tls);

// What connections of a server have in common.
struct outboard_tls_server;
struct outboard_tls_files {
  struct outboard_tls_bytes certificate, key;  // PEM
  struct outboard_tls_bytes authorities;       // PEM; of size 0: clients are not asked who they are
};
// 0, or a failure. Any number of threads may use it at the same time.
int outboard_tls_serve(const struct outboard_tls_files *files, struct outboard_tls_server **server);
// Its connections go on. NULL is fine.
void outboard_tls_server_end(struct outboard_tls_server *server);
// Begins a server's connection; `now` are seconds since 1970. 0, or a failure.
int outboard_tls_accept(const struct outboard_tls_server *server, uint64_t now,
                        struct outboard_tls **tls);
// Behind the handshake of a server that asks: the client's certificate in DER, which stays as long
// as the connection; of size 0 where it has none. It has the certificate's key. What is returned is
// what there is to say against the certificate: 0, or a failure; nothing was done about it. Names
// in it are not looked at.
int outboard_tls_shown(const struct outboard_tls *tls, struct outboard_tls_bytes *certificate);

// Takes back what a connection has, in any state, and overwrites its keys. NULL is fine.
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
// The same of a record in three parts, of which the first and the last one have places of their
// own, of OUTBOARD_TLS_HEADER and OUTBOARD_TLS_TRAILER bytes; the content is sealed in place. The
// byte behind it must be there, and nobody may use it meanwhile: it is as it was afterwards. False:
// nothing can be sent any more, and what the content is now is of no use.
bool outboard_tls_seal_apart(struct outboard_tls *tls, uint8_t *header, uint8_t *content,
                             size_t size, uint8_t *trailer);
// To be called between records, often: where the keys have been used enough, or the other side
// wants others, makes a record that says so, changes them, and returns the record's size; else 0.
size_t outboard_tls_update(struct outboard_tls *tls, uint8_t *record);

// Makes the record that says that no more is sent, OUTBOARD_TLS_LAST bytes, and returns its size.
size_t outboard_tls_close(struct outboard_tls *tls, uint8_t *record);

// Opens the record at the start of `bytes`, in place. 0, or a failure; `used` is 0 where more bytes
// are needed, and `size` where the record brought nothing for the caller; more than 32 of these in
// a row are damage.
struct outboard_tls_content {
  size_t used;
  const uint8_t *at;
  size_t size;
};
int outboard_tls_open(struct outboard_tls *tls, uint8_t *bytes, size_t size,
                      struct outboard_tls_content *content);
// The same of a whole record in three parts, as outboard_tls_seal_apart has them; of one that its
// header does not say to have `size` bytes between header and trailer, that is a failure. What is
// in place of the content may be used when this has returned 0, and so much of it as it says.
int outboard_tls_open_apart(struct outboard_tls *tls, const uint8_t *header, uint8_t *sealed,
                            size_t size, const uint8_t *trailer,
                            struct outboard_tls_content *content);
// Whether outboard_tls_open would not ask for more bytes.
bool outboard_tls_has_record(const uint8_t *bytes, size_t size);

// Writes down where the connection is, OUTBOARD_TLS_STATE bytes, while nobody uses it: by them
// another process goes on with it, and this one may use it no more. Whoever has them can read and
// forge what is sent. 0, or OUTBOARD_TLS_BAD_STATE where one of its directions has ended.
int outboard_tls_save(const struct outboard_tls *tls, uint8_t *state);
// Makes a connection, behind its handshake, of such bytes. 0, or OUTBOARD_TLS_BAD_STATE.
int outboard_tls_restore(const uint8_t *state, size_t size, struct outboard_tls **tls);

#ifdef __cplusplus
}
#endif

#endif
