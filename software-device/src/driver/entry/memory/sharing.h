// What the families that share memory with other processes have in common.
#pragma once

#include "core/driver.h"
#include "memory/shared.h"

namespace softdev::driver {

Device *device_of(const CUuuid &uuid);  // nullptr when it is not visible

// Why a share name was not opened, as a result.
CUresult refuse_ticket(Opened opened);

// Maps the memory of a share name for a context; what it has open already is counted once more.
CUresult open_memory(const ShareName &name, SharedKind kind,
                     const std::shared_ptr<Context> &context, uint64_t pool, CUdeviceptr *address);
// Undoes it, and unmaps the memory at the last time.
CUresult close_memory(CUdeviceptr address);

}  // namespace softdev::driver
