// What the server sends that nobody waits for, and that is about streams, events and functions.
#ifndef OUTBOARD_LISTEN_H
#define OUTBOARD_LISTEN_H

// Makes this folder the listener for it (answer_listen, wire/answer.h). To be called before a
// session begins.
void streams_listen(void);

#endif
