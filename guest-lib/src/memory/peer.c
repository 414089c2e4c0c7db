#include "memory/peer.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "guest_calls.h"
#include "memory/share_name.h"
#include "session/context.h"
#include "session/handle.h"
#include "wire/answer.h"
#include "wire/order.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;  // before the memory lock

// Access to the memory of another context's device that cuCtxEnablePeerAccess gave a context.
struct grant {
  uint64_t context, peer;
  struct session *borrower, *owner;
  struct grant *next;
};
static struct grant *grants;

// ---- one holding -------------------------------------------------------------------------------

void peer_lend(struct holding *holding, struct session *borrower, CUmemAccess_flags flags) {
  struct session *owner = holding->session;
  if (!holding->loan) {
    holding->loan = atomic_fetch_add(&owner->peer_loans, 1) + 1;
    put_PeerLend(owner, holding->address, holding->size, holding->loan);
  }
  put_PeerMap(borrower, holding->address, holding->size, holding->loan, owner->number, flags);
  holding->borrowers |= session_bit(borrower);
  atomic_fetch_or(&owner->borrowers, holding->borrowers);
}

void peer_lend_to(struct holding *holding, unsigned borrowers) {
  borrowers &= ~(unsigned)holding->borrowers;
  for (struct session *borrower; sessions_take(&borrowers, &borrower);)
    peer_lend(holding, borrower, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
}

void peer_lend_to_all(struct holding *holding) {
  if (sessions_many()) peer_lend_to(holding, holding->session->peer_open_to);
}

void peer_lend_to_joined(struct holding *holding) {
  if (sessions_many()) peer_lend_to(holding, holding->session->peer_joined);
}

void peer_end(struct holding *holding, struct session *borrower) {
  if (!sessions_have(holding->borrowers, borrower)) return;
  put_PeerUnmap(borrower, holding->address, holding->size);
  holding->borrowers &= (uint8_t)~session_bit(borrower);
}

void peer_end_all(struct holding *holding) {
  struct session *borrower;
  for (unsigned left = holding->borrowers; sessions_take(&left, &borrower);)
    peer_end(holding, borrower);
}

// ---- sessions ----------------------------------------------------------------------------------

static CUresult offer(struct session *owner, struct share_name *share_name) {
  struct answer answer;
  answer_init(&answer);
  CUresult result = answer_own_result(ask_PeerOffer(owner, &answer), &answer);
  if (!result) {
    const struct wire_PeerOffer_reply *reply = answer.reply;
    memcpy(share_name, &reply->name0, sizeof *share_name);
  }
  answer_free(&answer);
  return result;
}

static CUresult join(struct session *borrower, struct session *owner) {
  if (sessions_have(owner->peer_joined, borrower)) return CUDA_SUCCESS;
  struct share_name share_name;
  CUresult result = offer(owner, &share_name);
  if (!result) {
    struct answer answer;
    answer_init(&answer);
    result = ask_PeerJoin(borrower, owner->number, SHARE_NAME_ARGUMENTS(share_name), &answer);
    result = answer_own_result(result, &answer);
    answer_free(&answer);
  }
  if (!result) atomic_fetch_or(&owner->peer_joined, session_bit(borrower));
  return result;
}

CUresult peer_join(struct session *borrower, struct session *owner) {
  pthread_mutex_lock(&lock);
  CUresult result = join(borrower, owner);
  pthread_mutex_unlock(&lock);
  return result;
}

void peer_join_all(struct session *owner) {
  pthread_mutex_lock(&lock);
  for (struct session *borrower = sessions; borrower < sessions_end(); borrower++) {
    if (borrower == owner || sessions_have(owner->peer_tried, borrower)) continue;
    owner->peer_tried |= session_bit(borrower);
    if (device_peer(device_of_session(borrower), device_of_session(owner))) join(borrower, owner);
  }
  pthread_mutex_unlock(&lock);
}

static _Bool opens(const struct holding *holding, struct session *borrower) {
  return holding->kind->opens && holding->kind->opens(holding, borrower);
}

static void lend_to(struct holding *holding, void *context) {
  struct session *borrower = *(struct session **)context;
  if (opens(holding, borrower)) peer_lend_to(holding, session_bit(borrower));
}

static void end_for(struct holding *holding, void *context) {
  struct session *borrower = *(struct session **)context;
  if (opens(holding, borrower)) peer_end(holding, borrower);
}

static CUresult open_to(struct session *borrower, struct session *owner) {
  CUresult result = join(borrower, owner);
  if (result || borrower->peer_opened[owner->number]++) return result;
  pthread_mutex_lock(&memory_lock);
  atomic_fetch_or(&owner->peer_open_to, session_bit(borrower));
  window_each(owner, lend_to, &borrower);
  pthread_mutex_unlock(&memory_lock);
  return CUDA_SUCCESS;
}

static void close_to(struct session *borrower, struct session *owner) {
  if (--borrower->peer_opened[owner->number]) return;
  pthread_mutex_lock(&memory_lock);
  atomic_fetch_and(&owner->peer_open_to, (uint8_t)~session_bit(borrower));
  window_each(owner, end_for, &borrower);
  pthread_mutex_unlock(&memory_lock);
}

CUresult peer_open(struct session *borrower, struct session *owner) {
  pthread_mutex_lock(&lock);
  CUresult result = open_to(borrower, owner);
  pthread_mutex_unlock(&lock);
  return result;
}

void peer_close(struct session *borrower, struct session *owner) {
  sessions_settle(session_bit(borrower));  // kernels that were launched before may use it
  pthread_mutex_lock(&lock);
  close_to(borrower, owner);
  pthread_mutex_unlock(&lock);
}

// ---- contexts ----------------------------------------------------------------------------------

// Returns the link to a grant, or the last link of the list when there is none.
static struct grant **grant_at(uint64_t context, uint64_t peer) {
  struct grant **link = &grants;
  while (*link && !((*link)->context == context && (*link)->peer == peer)) link = &(*link)->next;
  return link;
}

static void end_grant(struct grant **link) {
  struct grant *ended = *link;
  *link = ended->next;
  close_to(ended->borrower, ended->owner);
  free(ended);
}

static void end_of_session(struct holding *holding, void *context) {
  (void)context;
  if (holding->kind->forget) peer_end_all(holding);
}

void peer_reset(struct session *session) {
  if (!sessions_many()) return;
  pthread_mutex_lock(&lock);
  for (struct grant **link = &grants; *link;)
    if ((*link)->borrower == session)
      end_grant(link);
    else
      link = &(*link)->next;
  pthread_mutex_lock(&memory_lock);
  window_each(session, end_of_session, NULL);
  pthread_mutex_unlock(&memory_lock);
  pthread_mutex_unlock(&lock);
}

void peer_forget_context(uint64_t context) {
  if (!sessions_many()) return;
  pthread_mutex_lock(&lock);
  for (struct grant **link = &grants; *link;)
    if ((*link)->context == context)
      end_grant(link);
    else
      link = &(*link)->next;
  pthread_mutex_unlock(&lock);
}

// ---- entry points ------------------------------------------------------------------------------

CUresult guest_cuCtxEnablePeerAccess(CUcontext peerContext, unsigned int Flags) {
  const struct context *peer = handle_object(WIRE_KIND_CONTEXT, handle_of(peerContext));
  if (!peer) return CUDA_ERROR_INVALID_CONTEXT;
  if (Flags) return CUDA_ERROR_INVALID_VALUE;
  int device = context_current()->device;
  if (peer->device == device) return CUDA_ERROR_INVALID_DEVICE;
  if (!device_peer(device, peer->device)) return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
  struct grant *grant = malloc(sizeof *grant);
  if (!grant) return CUDA_ERROR_OUT_OF_MEMORY;
  *grant = (struct grant){context_current_handle(), handle_of(peerContext),
                          session_of_device(device), session_of_device(peer->device), NULL};
  pthread_mutex_lock(&lock);
  struct grant **link = grant_at(grant->context, grant->peer);
  CUresult result =
      *link ? CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED : open_to(grant->borrower, grant->owner);
  if (!result) *link = grant;
  pthread_mutex_unlock(&lock);
  if (result) free(grant);
  return result;
}

CUresult guest_cuCtxDisablePeerAccess(CUcontext peerContext) {
  if (!handle_object(WIRE_KIND_CONTEXT, handle_of(peerContext))) return CUDA_ERROR_INVALID_CONTEXT;
  pthread_mutex_lock(&lock);
  struct grant **link = grant_at(context_current_handle(), handle_of(peerContext));
  struct grant *ended = *link;
  if (ended) *link = ended->next;
  pthread_mutex_unlock(&lock);
  if (!ended) return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
  peer_close(ended->borrower, ended->owner);
  free(ended);
  return CUDA_SUCCESS;
}
