// Devices of one server whose kernels reach each other's memory (docs/several-devices.md). Each has
// a process of its own there, which lends what it has to the others: what is open to a peer has the
// same addresses there.
#ifndef OUTBOARD_PEER_H
#define OUTBOARD_PEER_H

#include <stdint.h>

#include "memory/window.h"
#include "session/device.h"
#include "session/session.h"

// Lets the kernels of a session into the plain memory of another, now and later, until it has been
// closed as often. Without locks.
CUresult peer_open(struct session *borrower, struct session *owner);
void peer_close(struct session *borrower, struct session *owner);
// The two are in touch, so that peer_lend may follow. Without locks.
CUresult peer_join(struct session *borrower, struct session *owner);
// The same for all whose devices reach the owner's, as far as it goes.
void peer_join_all(struct session *owner);

// With the memory lock held: the memory of a holding, at the same addresses for a session that has
// joined its owner's, which may do there what `flags` say; for those of several, a bit each, that
// do not have it yet; for all that its owner is open to, or is in touch with; and no more.
void peer_lend(struct holding *holding, struct session *borrower, CUmemAccess_flags flags);
void peer_lend_to(struct holding *holding, unsigned borrowers);
void peer_lend_to_all(struct holding *holding);
void peer_lend_to_joined(struct holding *holding);
void peer_end(struct holding *holding, struct session *borrower);
void peer_end_all(struct holding *holding);
// The thread's session's memory is about to go, and the access that its contexts have; or a
// context.
void peer_reset(struct session *session);
void peer_forget_context(uint64_t context);

#endif
