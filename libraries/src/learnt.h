// Which calls have succeeded, so that the same need not be waited for again. Any thread.
#ifndef LIBRARIES_LEARNT_H
#define LIBRARIES_LEARNT_H

#include <stdint.h>

// What a call is, without its addresses, as one number; never 0.
struct learnt_key {
  uint64_t value;
};
static inline void learnt_add(struct learnt_key *key, uint64_t word) {
  // The finaliser of MurmurHash3, over what came before as well.
  uint64_t h = (key->value ^ word) * 0xff51afd7ed558ccdull;
  h ^= h >> 33;
  h *= 0xc4ceb9fe1a85ec53ull;
  key->value = (h ^ h >> 33) + 0x9e3779b97f4a7c15ull;
}

// The key in the current context: another device may do otherwise, and algorithms are a session's.
struct learnt_key learnt_here(struct learnt_key key);
_Bool learnt(struct learnt_key key);
// Whether it has succeeded, or one of which the same is `widely` known; the call itself is then,
// too.
_Bool learnt_alike(struct learnt_key key, struct learnt_key widely);
// Notes it. With very many, older ones are forgotten.
void learn(struct learnt_key key);

#endif
