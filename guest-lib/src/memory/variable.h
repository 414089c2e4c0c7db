// Variables of modules, which lie where the driver put them.
#ifndef OUTBOARD_VARIABLE_H
#define OUTBOARD_VARIABLE_H

#include <stdint.h>

#include "cuda_driver.h"

void memory_add_variable(uint64_t address, uint64_t size, _Bool managed);
void memory_remove_variable(uint64_t address);

#endif
