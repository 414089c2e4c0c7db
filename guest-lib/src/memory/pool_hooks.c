#include "memory/pool_hooks.h"

const struct memory_pools *memory_pools;
