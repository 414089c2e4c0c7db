#include "allocation/pools.h"

#include "allocation/internal.h"
#include "memory/pool_hooks.h"

static const struct memory_pools pools = {
    .count_free = pool_count_free,
    .release_settled = pool_release_settled,
    .waits = pool_waits,
    .forget_all = pool_forget_all,
};

void pools_start(void) { memory_pools = &pools; }
