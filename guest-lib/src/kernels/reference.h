// Texture and surface references: variables of modules that programs bind to memory by name.
#ifndef OUTBOARD_REFERENCE_H
#define OUTBOARD_REFERENCE_H

#include <stdint.h>

#include "session/session.h"

// Ends the references of a module (its handle of the program) that ends. The server has been told.
void reference_forget_of(uint64_t module);
// Ends the references that the program created by itself in a context of the session that ends; 0:
// in any context of the session.
void reference_destroy_of(const struct session *session, uint64_t context);

#endif
