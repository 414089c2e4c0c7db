// A server's handshake on whatever comes from a client, received in pieces of any size. Input: a
// seed for the sizes of the pieces, then the stream.
#include "pair.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static struct outboard_tls_server *serving;
  if (!serving) {
    const struct outboard_tls_files files = {PEM(server), PEM(server_key), PEM(authority)};
    if (outboard_tls_serve(&files, &serving)) abort();
  }
  if (!size) return 0;
  unsigned seed = *data++;
  size--;
  struct outboard_tls *tls = NULL;
  if (outboard_tls_accept(serving, NOW, &tls)) abort();
  static uint8_t out[32 << 10];
  // Of its very size, so that a sanitizer sees what is read beyond it.
  uint8_t *in = malloc(size + 1);
  size_t begin = 0, end = 0, came = 0;
  for (;;) {
    struct outboard_tls_shake shake;
    const int failure = outboard_tls_shake(tls, in + begin, end - begin, out, sizeof out, &shake);
    if (shake.used > end - begin || shake.made > sizeof out) abort();
    begin += shake.used;
    // Nobody can guess what ends one.
    if (shake.done) abort();
    if (failure || came == size) break;
    size_t piece = 1 + (seed = seed * 1103515245u + 12345u) / 65536u % 512;
    if (piece > size - came) piece = size - came;
    memcpy(in + end, data + came, piece);
    end += piece;
    came += piece;
  }
  struct outboard_tls_bytes shown;
  (void)outboard_tls_shown(tls, &shown);
  free(in);
  outboard_tls_end(tls);
  return 0;
}
