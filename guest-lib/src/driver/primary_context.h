// Primary contexts, as the library itself asks for their end.
#ifndef OUTBOARD_PRIMARY_CONTEXT_H
#define OUTBOARD_PRIMARY_CONTEXT_H

// Where the program holds nothing of its session, brings the server to rest, forgets everything
// that ends with a context, and returns what `then` returns. Nothing is held where no primary
// context is retained but those that were reset, no other context is there, and no memory of
// cuMemCreate. Else `then` is not called, and a clause is returned that says what is held. NULL
// stands for success. No primary context is retained or reset meanwhile. The library is attached.
const char *primary_contexts_leave(const char *(*then)(void));

#endif
