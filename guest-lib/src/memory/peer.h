// Devices of one server whose kernels reach each other's memory (docs/several-devices.md). Each has
// a process of its own there, which lends what it has to the others: what is open to a peer has the
// same addresses there.
#ifndef OUTBOARD_PEER_H
#define OUTBOARD_PEER_H

#include <stdint.h>

#include "memory/window.h"
#include "session/device.h"
#include "session/session.h"

// ---- called without a lock ---------------------------------------------------------------------

// Lets kernels of `borrower` into all plain memory of `owner`, now and later, until peer_close was
// called as often. Returns the errors of peer_join.
CUresult peer_open(struct session *borrower, struct session *owner);
// Undoes one peer_open. Waits for the work of `borrower` first.
void peer_close(struct session *borrower, struct session *owner);
// Puts two sessions in touch, so that peer_lend may follow. Asks the server of each the first time,
// and returns the errors of that.
CUresult peer_join(struct session *borrower, struct session *owner);
// Does so for every session whose device can be let into the owner's memory, once for each. Where
// it fails, the two stay apart.
void peer_join_all(struct session *owner);

// ---- the caller holds the memory lock ----------------------------------------------------------

// Lends the memory of a holding to a session that is in touch with its owner (peer_join). That has
// it at the same addresses, and may do there what `flags` say.
void peer_lend(struct holding *holding, struct session *borrower, CUmemAccess_flags flags);
// Lends it, to read and write, to those of a set of sessions, a bit each, that do not have it yet.
void peer_lend_to(struct holding *holding, unsigned borrowers);
// Lends it to all sessions that memory of its owner is open to (peer_open).
void peer_lend_to_all(struct holding *holding);
// Lends it to all sessions that are in touch with its owner.
void peer_lend_to_joined(struct holding *holding);
// Takes it from one session that it may be lent to, or from all.
void peer_end(struct holding *holding, struct session *borrower);
void peer_end_all(struct holding *holding);

// ---- called without a lock, when contexts end --------------------------------------------------

// To be called before a reset of the context: ends the access that contexts of the session's device
// have to other devices, and that other sessions have to memory of this one.
void peer_reset(struct session *session);
// Ends the access to other devices that a context has, which ends.
void peer_forget_context(uint64_t context);

#endif
