// Values in device memory that streams, and nodes of graphs, wait for and write.
#pragma once

#include "cuda_driver.h"
#include "wire_calls.h"

// Whether an operation (a CU_STREAM_MEM_OP_...) waits for a value; the others write one.
_Bool value_waits(uint32_t operation);
// Reads one entry of the program's list into *value, unchecked. A barrier makes no value, because
// the operations of a stream are ordered anyhow: *made is false then, and *value is left alone.
// CUDA_ERROR_NOT_SUPPORTED for a flush of remote writes, CUDA_ERROR_INVALID_VALUE for what is no
// operation.
CUresult value_read(const CUstreamBatchMemOpParams *entry, struct wire_value *value, _Bool *made);
// Checks a value's flags and alignment, and that its 4 or 8 bytes are device memory that may be
// used (memory_check). Cuts the value of a narrow operation to 32 bits. CUDA_ERROR_INVALID_VALUE,
// or CUDA_ERROR_NOT_SUPPORTED for a wait that is to flush.
CUresult value_check(struct wire_value *value);
