// What streams hear from the server that nobody waits for.
#ifndef OUTBOARD_LISTEN_H
#define OUTBOARD_LISTEN_H

// From now on they hear it (wire/answer.h). To be called before a session begins.
void streams_listen(void);

#endif
