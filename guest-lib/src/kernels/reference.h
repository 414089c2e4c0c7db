// Texture and surface references: variables of modules that programs bind to memory by name.
#ifndef OUTBOARD_REFERENCE_H
#define OUTBOARD_REFERENCE_H

#include <stdint.h>

// The end of a module, whose references end with it. The server has been told.
void reference_forget_of(uint64_t module);
// Those that programs created in a context that ends; 0: in any.
void reference_destroy_of(uint64_t context);

#endif
