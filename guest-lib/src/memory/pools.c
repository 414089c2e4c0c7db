#include "memory/pools.h"

const struct memory_pools *memory_pools;
