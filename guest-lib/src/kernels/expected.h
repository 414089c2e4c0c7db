// Expected modules: the server loads them before they are asked for, because the program's last
// session used them (Welcome.expected).
#ifndef OUTBOARD_EXPECTED_H
#define OUTBOARD_EXPECTED_H

#include "control.pb.h"
#include "images/image.h"
#include "session/session.h"
#include "wire/answer.h"

// Makes what this file keeps for a session (sessions_make); false when there is no memory.
_Bool expected_make(struct session *session);

// To be called with each Welcome: notes which modules it names. False when there is no memory for
// that; there can be no session then, as their answers come all the same.
_Bool expected_told(struct session *session, const outboard_Welcome *welcome);
// Registers their answers. To be called when all sessions are attached, before anything is read.
void expected_start(struct session *session);

// Takes the module of an image if it is expected and not taken yet, and waits for the server's
// answer about it. True when the server has loaded it: *answer is a wire_ModuleOpen_reply, which
// the caller frees (answer_free), and *index is what the caller tells the server with ModuleTake,
// so that the module is the program's. False: the module has to be asked for.
_Bool expected_take(struct session *session, const struct image *image, struct answer **answer,
                    uint32_t *index);

// To be called after a reset of the context, which has unloaded all modules: expects nothing more.
void expected_forget(struct session *session);

#endif
