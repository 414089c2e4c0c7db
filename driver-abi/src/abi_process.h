// Whether this is the process in which the driver was started, or a child of it, which has its
// memory and none of its threads. pthread_atfork tells of children that fork() makes, and of no
// others: a child of the system call clone() hears nothing, and would wait in exit() for threads
// that only its parent has.
#ifndef ABI_PROCESS_H
#define ABI_PROCESS_H

#ifdef __cplusplus
extern "C" {
#else
#include <stdbool.h>
#endif

// The driver is started here: from now on children are told from this process. May be called again,
// in a child, too, that starts a driver of its own. Safe from any thread.
void abi_process_begin(void);

// Whether the driver was started in a parent of this process and not here. Costs two loads. Always
// false where the kernel (before Linux 4.14) does not tell.
bool abi_process_is_child(void);

#ifdef __cplusplus
}
#endif
#endif
