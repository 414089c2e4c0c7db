// Which CUDA we say we are a driver of. Compilers and libraries decide by it: one that is newer
// than the driver makes machine code, as for an old driver, where it would make PTX.
//
// It is the newest toolkit whose compiler and runtime are run against us. The facts that our types
// and look-ups come from (CUDA_DRIVER_VERSION) may be older: a function that came since is not
// found, and of one that came anew the version before is handed out. So before this is raised, what
// came anew since the facts has to be looked through, or the facts are taken anew
// (proto/extract/extract.py).
#ifndef ABI_VERSION_H
#define ABI_VERSION_H

#include "cuda_driver.h"

#define ABI_DRIVER_VERSION 13050

#if ABI_DRIVER_VERSION < CUDA_DRIVER_VERSION
#error "the facts are newer than what we say we are"
#endif

#endif
