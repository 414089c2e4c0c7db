// Records behind a handshake, by somebody who can change, cut, repeat and leave out what is under
// way. Input: the state of the connection, then commands of two bytes each, which begin with what
// is done; only what was sent, in its order, may come out. What lies there as a whole is opened in
// parts where the command is above 127.
#include "pair.h"

enum { SEND, FLIP, CUT, AGAIN, LEAVE_OUT, RAW, COMMANDS };

// As outboard_tls_open, by the other function where that can be.
static int open(struct outboard_tls *tls, uint8_t *bytes, size_t size, bool apart,
                struct outboard_tls_content *content) {
  const size_t most = size - OUTBOARD_TLS_OVERHEAD;
  if (!apart || size < OUTBOARD_TLS_OVERHEAD) return outboard_tls_open(tls, bytes, size, content);
  uint8_t header[OUTBOARD_TLS_HEADER], trailer[OUTBOARD_TLS_TRAILER];
  memcpy(header, bytes, sizeof header);
  memcpy(trailer, bytes + sizeof header + most, sizeof trailer);
  uint8_t *const sealed = bytes + sizeof header, behind = sealed[most];
  const int failure = outboard_tls_open_apart(tls, header, sealed, most, trailer, content);
  if (sealed[most] != behind) abort();
  return failure;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < OUTBOARD_TLS_STATE) return 0;
  struct outboard_tls *to = NULL, *from = NULL;
  if (outboard_tls_restore(data, OUTBOARD_TLS_STATE, &to)) return 0;
  uint8_t other[OUTBOARD_TLS_STATE], here[OUTBOARD_TLS_STATE];
  if (outboard_tls_save(to, here) || memcmp(here, data, sizeof here)) abort();
  memcpy(other, data, 8);
  memcpy(other + 8, data + 16, 8);
  memcpy(other + 16, data + 8, 8);
  const size_t half = (OUTBOARD_TLS_STATE - 24) / 2;
  memcpy(other + 24, data + 24 + half, half);
  memcpy(other + 24 + half, data + 24, half);
  if (outboard_tls_restore(other, sizeof other, &from)) abort();
  static uint8_t record[OUTBOARD_TLS_RECORD], before[OUTBOARD_TLS_RECORD];
  size_t last = 0;
  bool whole = true;
  data += OUTBOARD_TLS_STATE;
  size -= OUTBOARD_TLS_STATE;
  for (; size >= 2; data += 2, size -= 2) {
    const uint8_t what = data[0] % COMMANDS, how = data[1];
    const size_t content = (size_t)how * 64;
    memset(record + OUTBOARD_TLS_HEADER, how, content);
    size_t sealed = outboard_tls_update(from, record);
    if (!sealed) sealed = outboard_tls_seal(from, record, content);
    if (!sealed) break;
    // Of its very size, so that a sanitizer sees what is read beyond it.
    uint8_t *bytes = malloc(sealed > last ? sealed : last);
    size_t have = sealed;
    memcpy(bytes, record, sealed);
    if (what == FLIP) bytes[(size_t)how * 5 % sealed] ^= (uint8_t)(1 + how % 255);
    if (what == CUT) have = (size_t)how * 3 % sealed;
    if (what == AGAIN && last) memcpy(bytes, before, have = last);
    if (what == RAW) memcpy(bytes, data, have = size < sealed ? size : sealed);
    memcpy(before, record, last = sealed);
    if (what == LEAVE_OUT) {
      whole = false;
    } else {
      struct outboard_tls_content out;
      const int failure = open(to, bytes, have, data[0] > 127, &out);
      if (out.used > have || (out.size && (out.at < bytes || out.at + out.size > bytes + have)))
        abort();
      const bool good = !failure && out.used;
      if (good && (!whole || what != SEND) && what != AGAIN) abort();
      if (good && what == AGAIN && !whole) abort();
      if (what == SEND && whole && !good) abort();
      if (what != SEND) whole = false;
    }
    free(bytes);
  }
  outboard_tls_end(from);
  outboard_tls_end(to);
  return 0;
}
