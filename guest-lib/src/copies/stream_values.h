// Values in memory that streams, and nodes of graphs, wait for and write.
#pragma once

#include "cuda_driver.h"
#include "wire_calls.h"

// Of a CU_STREAM_MEM_OP_....
_Bool value_waits(uint32_t operation);
// One entry of a batch. `*made` is whether it makes a value: a barrier leaves none, for operations
// of a stream are ordered anyhow.
CUresult value_read(const CUstreamBatchMemOpParams *entry, struct wire_value *value, _Bool *made);
// Flags, alignment, and that the memory is there.
CUresult value_check(struct wire_value *value);
