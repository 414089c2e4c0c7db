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

// What a context was given by cuCtxEnablePeerAccess.
struct grant {
  uint64_t context, peer;
  struct session *visitor, *owner;
  struct grant *next;
};
static struct grant *grants;

// ---- one holding -------------------------------------------------------------------------------

void peer_lend(struct holding *holding, struct session *visitor, CUmemAccess_flags flags) {
  struct session *owner = holding->session;
  if (!holding->loan) {
    holding->loan = atomic_fetch_add(&owner->peer_loans, 1) + 1;
    put_PeerLend(owner, holding->address, holding->size, holding->loan);
  }
  put_PeerMap(visitor, holding->address, holding->size, holding->loan, owner->number, flags);
  holding->visitors |= session_bit(visitor);
  atomic_fetch_or(&owner->borrowers, holding->visitors);
}

void peer_lend_to(struct holding *holding, unsigned visitors) {
  visitors &= ~(unsigned)holding->visitors;
  for (struct session *visitor; sessions_take(&visitors, &visitor);)
    peer_lend(holding, visitor, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
}

void peer_lend_to_all(struct holding *holding) {
  if (sessions_many()) peer_lend_to(holding, holding->session->peer_visitors);
}

void peer_lend_to_joined(struct holding *holding) {
  if (sessions_many()) peer_lend_to(holding, holding->session->peer_joined);
}

void peer_end(struct holding *holding, struct session *visitor) {
  if (!sessions_have(holding->visitors, visitor)) return;
  put_PeerUnmap(visitor, holding->address, holding->size);
  holding->visitors &= (uint8_t)~session_bit(visitor);
}

void peer_end_all(struct holding *holding) {
  struct session *visitor;
  for (unsigned left = holding->visitors; sessions_take(&left, &visitor);)
    peer_end(holding, visitor);
}

// ---- sessions
// -------------------------------------------------------------------------------------

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

static CUresult join(struct session *visitor, struct session *owner) {
  if (sessions_have(owner->peer_joined, visitor)) return CUDA_SUCCESS;
  struct share_name share_name;
  CUresult result = offer(owner, &share_name);
  if (!result) {
    struct answer answer;
    answer_init(&answer);
    result = ask_PeerJoin(visitor, owner->number, SHARE_NAME_ARGUMENTS(share_name), &answer);
    result = answer_own_result(result, &answer);
    answer_free(&answer);
  }
  if (!result) atomic_fetch_or(&owner->peer_joined, session_bit(visitor));
  return result;
}

CUresult peer_join(struct session *visitor, struct session *owner) {
  pthread_mutex_lock(&lock);
  CUresult result = join(visitor, owner);
  pthread_mutex_unlock(&lock);
  return result;
}

void peer_join_all(struct session *owner) {
  pthread_mutex_lock(&lock);
  for (struct session *visitor = sessions; visitor < sessions_end(); visitor++) {
    if (visitor == owner || sessions_have(owner->peer_tried, visitor)) continue;
    owner->peer_tried |= session_bit(visitor);
    if (device_peer(device_of_session(visitor), device_of_session(owner))) join(visitor, owner);
  }
  pthread_mutex_unlock(&lock);
}

static _Bool opens(const struct holding *holding, struct session *visitor) {
  return holding->kind->opens && holding->kind->opens(holding, visitor);
}

static void lend_to(struct holding *holding, void *context) {
  struct session *visitor = *(struct session **)context;
  if (opens(holding, visitor)) peer_lend_to(holding, session_bit(visitor));
}

static void end_for(struct holding *holding, void *context) {
  struct session *visitor = *(struct session **)context;
  if (opens(holding, visitor)) peer_end(holding, visitor);
}

static void each_of(struct session *owner, void (*visit)(struct holding *holding, void *context),
                    void *context) {
  struct thread_session before = session_switch(owner);
  window_each(visit, context);
  session_back(before);
}

static CUresult open_to(struct session *visitor, struct session *owner) {
  CUresult result = join(visitor, owner);
  if (result || visitor->peer_opened[owner->number]++) return result;
  pthread_mutex_lock(&memory_lock);
  atomic_fetch_or(&owner->peer_visitors, session_bit(visitor));
  each_of(owner, lend_to, &visitor);
  pthread_mutex_unlock(&memory_lock);
  return CUDA_SUCCESS;
}

static void close_to(struct session *visitor, struct session *owner) {
  if (--visitor->peer_opened[owner->number]) return;
  pthread_mutex_lock(&memory_lock);
  atomic_fetch_and(&owner->peer_visitors, (uint8_t)~session_bit(visitor));
  each_of(owner, end_for, &visitor);
  pthread_mutex_unlock(&memory_lock);
}

CUresult peer_open(struct session *visitor, struct session *owner) {
  pthread_mutex_lock(&lock);
  CUresult result = open_to(visitor, owner);
  pthread_mutex_unlock(&lock);
  return result;
}

void peer_close(struct session *visitor, struct session *owner) {
  sessions_settle(session_bit(visitor));  // kernels that were launched before may use it
  pthread_mutex_lock(&lock);
  close_to(visitor, owner);
  pthread_mutex_unlock(&lock);
}

// ---- contexts ----------------------------------------------------------------------------------

// The place of the grant, or the end.
static struct grant **grant_at(uint64_t context, uint64_t peer) {
  struct grant **link = &grants;
  while (*link && !((*link)->context == context && (*link)->peer == peer)) link = &(*link)->next;
  return link;
}

static void end_grant(struct grant **link) {
  struct grant *ended = *link;
  *link = ended->next;
  close_to(ended->visitor, ended->owner);
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
    if ((*link)->visitor == session)
      end_grant(link);
    else
      link = &(*link)->next;
  pthread_mutex_lock(&memory_lock);
  each_of(session, end_of_session, NULL);
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
      *link ? CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED : open_to(grant->visitor, grant->owner);
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
  peer_close(ended->visitor, ended->owner);
  free(ended);
  return CUDA_SUCCESS;
}
