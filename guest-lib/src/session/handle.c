#include "session/handle.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#define CHUNK_SLOTS 1024
#define CHUNKS (WIRE_HANDLE_INDEX_MAX / CHUNK_SLOTS)

struct slot {
  _Atomic(void *) object;  // NULL: free
  _Atomic uint32_t generation;
  uint32_t next_free;
  _Atomic(struct session *) session;  // of the object or, while the slot is free, of the last one
};

// Slots never move, so that looking one up takes no lock.
struct table {
  _Atomic(struct slot *) chunks[CHUNKS];
  uint32_t used;       // slots ever taken; slot 0 never is, so that no handle has index 0
  uint32_t free_list;  // 0: empty
};

static struct table tables[WIRE_KIND_COUNT];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct slot *slot_at(struct table *table, uint32_t index) {
  if (index >= WIRE_HANDLE_INDEX_MAX) return NULL;
  struct slot *chunk =
      atomic_load_explicit(&table->chunks[index / CHUNK_SLOTS], memory_order_acquire);
  return chunk ? &chunk[index % CHUNK_SLOTS] : NULL;
}

static uint64_t mint(enum wire_kind kind, void *object, struct session *session) {
  struct table *table = &tables[kind];
  uint64_t handle = 0;
  pthread_mutex_lock(&lock);
  uint32_t index = table->free_list;
  struct slot *slot = NULL;
  if (index) {
    slot = slot_at(table, index);
    table->free_list = slot->next_free;
  } else if (table->used + 1 < WIRE_HANDLE_INDEX_MAX) {
    index = table->used + 1;
    if (!slot_at(table, index)) {
      struct slot *chunk = calloc(CHUNK_SLOTS, sizeof *chunk);
      atomic_store_explicit(&table->chunks[index / CHUNK_SLOTS], chunk, memory_order_release);
    }
    slot = slot_at(table, index);
    if (slot) table->used = index;
  }
  if (slot) {
    uint32_t generation = (atomic_load(&slot->generation) + 1) & 0xffffff;
    atomic_store_explicit(&slot->session, session, memory_order_relaxed);
    atomic_store_explicit(&slot->generation, generation, memory_order_release);
    atomic_store_explicit(&slot->object, object, memory_order_release);
    handle = wire_handle(kind, generation, index);
  }
  pthread_mutex_unlock(&lock);
  return handle;
}

uint64_t handle_mint(struct session *session, enum wire_kind kind, void *object) {
  return mint(kind, object, session);
}

uint64_t handle_mint_for_any(enum wire_kind kind, void *object) { return mint(kind, object, NULL); }

// Of every call, several times.
static inline __attribute__((always_inline)) struct slot *slot_of(enum wire_kind kind,
                                                                  uint64_t handle) {
  if (wire_handle_kind(handle) != kind) return NULL;
  struct slot *slot = slot_at(&tables[kind], wire_handle_index(handle));
  if (!slot || atomic_load_explicit(&slot->generation, memory_order_acquire) !=
                   wire_handle_generation(handle))
    return NULL;
  return slot;
}

static inline struct session *session_of(const struct slot *slot) {
  return atomic_load_explicit(&slot->session, memory_order_relaxed);
}

void *handle_object(enum wire_kind kind, uint64_t handle) {
  struct slot *slot = slot_of(kind, handle);
  if (!slot) return NULL;
  session_follow(session_of(slot), CUDA_ERROR_INVALID_HANDLE);
  return atomic_load_explicit(&slot->object, memory_order_acquire);
}

void *handle_peek(enum wire_kind kind, uint64_t handle) {
  struct slot *slot = slot_of(kind, handle);
  return slot ? atomic_load_explicit(&slot->object, memory_order_acquire) : NULL;
}

struct session *handle_session(enum wire_kind kind, uint64_t handle) {
  const struct slot *slot = slot_of(kind, handle);
  return slot ? session_of(slot) : NULL;
}

_Bool handle_is_live(enum wire_kind kind, uint64_t handle) {
  struct slot *slot = slot_of(kind, handle);
  return slot && atomic_load_explicit(&slot->object, memory_order_acquire);
}

void *handle_retire(enum wire_kind kind, uint64_t handle) {
  pthread_mutex_lock(&lock);
  struct slot *slot = slot_of(kind, handle);
  void *object = slot ? atomic_exchange(&slot->object, NULL) : NULL;
  if (object) session_use(session_of(slot));
  pthread_mutex_unlock(&lock);
  return object;
}

void handle_recycle(enum wire_kind kind, uint64_t handle) {
  uint32_t index = wire_handle_index(handle);
  pthread_mutex_lock(&lock);
  slot_at(&tables[kind], index)->next_free = tables[kind].free_list;
  tables[kind].free_list = index;
  pthread_mutex_unlock(&lock);
}

_Bool handle_visit(enum wire_kind kind, uint64_t handle, void (*visit)(void *object, void *context),
                   void *context) {
  pthread_mutex_lock(&lock);
  struct slot *slot = slot_of(kind, handle);
  void *object = slot ? atomic_load(&slot->object) : NULL;
  if (object) visit(object, context);
  pthread_mutex_unlock(&lock);
  return object != NULL;
}

void handle_each(enum wire_kind kind, void (*visit)(uint64_t handle, void *object, void *context),
                 void *context) {
  pthread_mutex_lock(&lock);
  uint32_t used = tables[kind].used;
  pthread_mutex_unlock(&lock);
  for (uint32_t index = 1; index <= used; index++) {
    struct slot *slot = slot_at(&tables[kind], index);
    void *object = slot ? atomic_load(&slot->object) : NULL;
    if (object && (session_of(slot) == session_here() || session_of(slot) == NULL))
      visit(wire_handle(kind, atomic_load(&slot->generation), index), object, context);
  }
}
