// Pools as memory knows them (memory/pool_hooks.h).
#ifndef OUTBOARD_ALLOCATION_POOLS_H
#define OUTBOARD_ALLOCATION_POOLS_H

// Sets memory_pools. To be called before a session begins.
void pools_start(void);

#endif
