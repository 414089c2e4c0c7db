#include "base/part_hash.h"

#include <sodium/crypto_generichash_blake2b.h>
#include <stdlib.h>
#include <string.h>

// Two functions that libsodium's BLAKE2b calls. Its own lie in files that also bring what needs a
// newer glibc, and keeps state; there is nothing secret here. sodium_init is not called either: it
// would open the system's source of random numbers, and choose code that is slower.
void sodium_memzero(void *bytes, size_t size);
void sodium_memzero(void *bytes, size_t size) { memset(bytes, 0, size); }
_Noreturn void sodium_misuse(void);
_Noreturn void sodium_misuse(void) { abort(); }

void part_hash(const void *bytes, size_t size, struct part_hash *hash) {
  crypto_generichash_blake2b((unsigned char *)hash->words, sizeof hash->words, bytes, size, NULL,
                             0);
}
