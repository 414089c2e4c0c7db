#include "graph/user_object.h"

#include <stdlib.h>

#include "base/thread.h"
#include "guest_calls.h"
#include "session/handle.h"

#define REFERENCES_MAX 0x7FFFFFFFu

struct user_object {
  uint64_t handle;
  void *pointer;
  CUhostFn destroy;
  uint64_t references;
};

static void *run_destructor(void *argument) {
  struct user_object *object = argument;
  object->destroy(object->pointer);
  free(object);
  return NULL;
}

// On a thread of its own: the program's function may take any lock.
static void destroy(struct user_object *object) {
  handle_retire(WIRE_KIND_USER_OBJECT, object->handle);
  handle_recycle(WIRE_KIND_USER_OBJECT, object->handle);
  if (thread_start(run_destructor, object)) run_destructor(object);
}

static _Bool release(struct user_object *object, uint64_t count) {
  if (object->references < count) return 0;
  object->references -= count;
  if (!object->references) destroy(object);
  return 1;
}

void graph_release_users(struct graph *graph) {
  for (size_t i = 0; i < graph->user_count; i++)
    release(graph->users[i].object, graph->users[i].count);
  graph->user_count = 0;
}

_Bool graph_copy_users(const struct graph *graph, struct graph *copy) {
  if (!graph->user_count) return 1;
  copy->users = malloc(graph->user_count * sizeof *copy->users);
  if (!copy->users) return 0;
  for (size_t i = 0; i < graph->user_count; i++) {
    copy->users[copy->user_count++] = graph->users[i];
    graph->users[i].object->references += graph->users[i].count;
  }
  return 1;
}

static struct graph_user *find_user(struct graph *graph, const struct user_object *object) {
  for (size_t i = 0; i < graph->user_count; i++)
    if (graph->users[i].object == object) return &graph->users[i];
  return NULL;
}

static CUresult retain_for(struct graph *graph, struct user_object *object, uint64_t count,
                           _Bool moved) {
  struct graph_user *user = find_user(graph, object);
  if (!user) {
    user = realloc(graph->users, (graph->user_count + 1) * sizeof *user);
    if (!user) return CUDA_ERROR_OUT_OF_MEMORY;
    graph->users = user;
    user = &graph->users[graph->user_count++];
    *user = (struct graph_user){object, 0};
  }
  user->count += count;
  // Moved references are the caller's, which it has given up.
  if (!moved) object->references += count;
  return CUDA_SUCCESS;
}

static CUresult release_for(struct graph *graph, struct user_object *object, uint64_t count) {
  struct graph_user *user = find_user(graph, object);
  if (!user || user->count < count) return CUDA_ERROR_INVALID_VALUE;
  user->count -= count;
  if (!user->count) *user = graph->users[--graph->user_count];
  return release(object, count) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static struct user_object *find(CUuserObject handle) {
  return handle_object(WIRE_KIND_USER_OBJECT, handle_of(handle));
}

static _Bool sensible(unsigned count) { return count > 0 && count <= REFERENCES_MAX; }

// ---- entry points ------------------------------------------------------------------------------

CUresult guest_cuUserObjectCreate(CUuserObject *object_out, void *ptr, CUhostFn destroy,
                                  unsigned int initialRefcount, unsigned int flags) {
  // The one flag says that nobody waits for the destructor, and must be given.
  if (!object_out || !destroy || !sensible(initialRefcount) ||
      flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
    return CUDA_ERROR_INVALID_VALUE;
  struct user_object *object = malloc(sizeof *object);
  if (!object) return CUDA_ERROR_OUT_OF_MEMORY;
  *object = (struct user_object){0, ptr, destroy, initialRefcount};
  object->handle = handle_mint(session_here(), WIRE_KIND_USER_OBJECT, object);
  if (!object->handle) {
    free(object);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *object_out = (CUuserObject)(uintptr_t)object->handle;
  return CUDA_SUCCESS;
}

CUresult guest_cuUserObjectRetain(CUuserObject handle, unsigned int count) {
  graphs_lock();
  struct user_object *object = find(handle);
  _Bool good = object && sensible(count);
  if (good) object->references += count;
  graphs_unlock();
  return good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult guest_cuUserObjectRelease(CUuserObject handle, unsigned int count) {
  graphs_lock();
  struct user_object *object = find(handle);
  _Bool good = object && sensible(count) && release(object, count);
  graphs_unlock();
  return good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult guest_cuGraphRetainUserObject(CUgraph hGraph, CUuserObject handle, unsigned int count,
                                       unsigned int flags) {
  CUresult result = CUDA_ERROR_INVALID_VALUE;
  graphs_lock();
  struct graph *graph = graph_find(hGraph);
  struct user_object *object = find(handle);
  if (graph && object && sensible(count) && !(flags & ~(unsigned)CU_GRAPH_USER_OBJECT_MOVE))
    result = retain_for(graph, object, count, flags != 0);
  graphs_unlock();
  return result;
}

CUresult guest_cuGraphReleaseUserObject(CUgraph hGraph, CUuserObject handle, unsigned int count) {
  CUresult result = CUDA_ERROR_INVALID_VALUE;
  graphs_lock();
  struct graph *graph = graph_find(hGraph);
  struct user_object *object = find(handle);
  if (graph && object && sensible(count)) result = release_for(graph, object, count);
  graphs_unlock();
  return result;
}
