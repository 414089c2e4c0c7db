// A client's handshake (tls/), on whatever comes from the other side, received in pieces of any
// size. What follows a handshake is under keys that nobody can guess; of that only where records
// end is looked at here. Input: a seed for the sizes of the pieces, then the stream.
#include <stdlib.h>
#include <string.h>

#include "outboard_tls.h"

// An authority, so that there is one; nothing is signed by it.
static const char authority[] =
    "-----BEGIN CERTIFICATE-----\n"
    "MIIBdjCCARugAwIBAgIUbHGGkplTIfTajTvZk8wRFNSHKLIwCgYIKoZIzj0EAwIw\n"
    "DzENMAsGA1UEAwwEZnV6ejAgFw0yNjExMjcxODQzMzRaGA8yMTI2MTEwMzE4NDMz\n"
    "NFowDzENMAsGA1UEAwwEZnV6ejBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABA4c\n"
    "krRVOwp/nc40XCd5y/iapn9Q0PGT6JKu+VCVerUo7IGrydvrQeLRv5xD3GBUUZtq\n"
    "sB1NBr+OP/uTq7VUen6jUzBRMB0GA1UdDgQWBBQg+B6lw7Xoud20whKFI8EEZ+8E\n"
    "mDAfBgNVHSMEGDAWgBQg+B6lw7Xoud20whKFI8EEZ+8EmDAPBgNVHRMBAf8EBTAD\n"
    "AQH/MAoGCCqGSM49BAMCA0kAMEYCIQC/CLvCaYSlVt2Ko1MU7yuPjHgP7dhHc3K/\n"
    "rBAeqCgf0QIhAPhi6Xaf1Mv8uUDl3kjW9KpO/0G48N9N/mIAhuqziqK0\n"
    "-----END CERTIFICATE-----\n";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (!size) return 0;
  unsigned seed = *data++;
  size--;
  const struct outboard_tls_client client = {
      .host = {(const uint8_t *)"gpu1", 4},
      .authorities = {(const uint8_t *)authority, sizeof authority - 1},
      .now = 1800000000,
  };
  struct outboard_tls *tls = NULL;
  if (outboard_tls_begin(&client, &tls)) abort();
  static uint8_t out[32 << 10];
  // Of its very size, so that a sanitizer sees what is read beyond it.
  uint8_t *in = malloc(size + 1);
  size_t begin = 0, end = 0, came = 0;
  for (;;) {
    struct outboard_tls_shake shake;
    const int failure = outboard_tls_shake(tls, in + begin, end - begin, out, sizeof out, &shake);
    if (shake.used > end - begin || shake.made > sizeof out) abort();
    begin += shake.used;
    if (failure || shake.done || came == size) break;
    size_t piece = 1 + (seed = seed * 1103515245u + 12345u) / 65536u % 512;
    if (piece > size - came) piece = size - came;
    memcpy(in + end, data + came, piece);
    end += piece;
    came += piece;
  }
  free(in);
  outboard_tls_end(tls);
  (void)outboard_tls_has_record(data, size);
  return 0;
}
