// What this library tells and does for the other libraries of ours in the process
// (libnvidia-ml.so.1, libcublas.so.13): a table behind cuGetExportTable, as drivers tell theirs.
// Whatever else is called libcuda.so.1 does not know its name.
#ifndef OUTBOARD_COMPANION_H
#define OUTBOARD_COMPANION_H

#include <stddef.h>
#include <stdint.h>

#include "cuda_driver.h"
#include "setup/config.h"

#define COMPANION_TABLE \
  ((CUuuid){            \
      .bytes = {'O', 'U', 'T', 'B', 'O', 'A', 'R', 'D', ' ', 's', 'e', 's', 's', 'i', 'o', 'n'}})

struct companion_session {
  uint64_t session;       // as the server numbers it
  uint64_t memory_total;  // its limit
  uint64_t memory_free;
};

// A device of the program. Devices are in the order in which CUDA numbers all of them.
struct companion_device {
  struct companion_session session;  // the session that leads to it
  unsigned first;                    // of the devices that its server was asked for together
  struct server_name server;
};

struct remote_call;
struct remote_answer;

struct companion_table {
  size_t size;  // of the table: entries are only ever added
  // False while there is no session: before cuInit, after a fork, once the connection is lost,
  // while it is released.
  _Bool (*session)(struct companion_session *session);
  // How many devices there are, and what is known of the first `room` of them; 0 as above.
  unsigned (*devices)(struct companion_device *devices, unsigned room);
  // For libcublas.so.13: those of kernels/remote_call.h.
  CUresult (*remote_begin)(uint64_t *handle, uint32_t *version);
  CUresult (*remote_call)(const struct remote_call *call, struct remote_answer *answer);
  void (*remote_end)(uint64_t handle);
  // A number that is another one on another device, in another session and after a reset of the
  // context: what a library has said before may not hold then. 0: there is no current context.
  uint64_t (*remote_era)(void);
  // learnt_take of kernels/learnt.h, of the session of the current context.
  _Bool (*remote_learnt)(uint32_t library,
                         void (*each)(void *context, uint64_t key, int32_t status,
                                      const void *results, uint32_t size),
                         void *context);
  // To be called after a descriptor that the guest keeps was made, told, asked or ended: waits for
  // an echo of the server where base/ablation.h does without descriptors of the guest's own.
  void (*remote_descriptor)(void);
  // Tells the server that the program has called a function of a library that is not served; false
  // where there is nobody to tell yet.
  _Bool (*remote_unserved)(void);
};

struct session;
// Makes what this file keeps for a session (sessions_make); false when there is no memory.
_Bool companion_make(struct session *session);

// Notes what the Welcome of `session` said: its number on the server, the first session
// of those that its server was asked for together, and which server that is. To be called at
// attach.
void companion_start(struct session *session, uint64_t number, unsigned first,
                     const struct server_name *server);
// Returns the number that the server has given the session.
uint64_t companion_number(const struct session *session);
// Returns the table for cuGetExportTable; NULL when `id` is another table's.
const struct companion_table *companion_table(const CUuuid *id);

#endif
