#include "session/handle.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#define CHUNK_ENTRIES 1024
#define CHUNKS (WIRE_HANDLE_INDEX_MAX / CHUNK_ENTRIES)

struct entry {
  _Atomic(void *) object;  // NULL: free
  _Atomic uint32_t generation;
  uint32_t next_free;
  _Atomic(struct session *) session;  // of the object or, while the entry is free, of the last one
};

// Slots never move, so that looking one up takes no lock.
struct table {
  _Atomic(struct entry *) chunks[CHUNKS];
  uint32_t used;       // entries ever taken; entry 0 never is, so that no handle has index 0
  uint32_t free_list;  // 0: empty
};

static struct table tables[WIRE_KIND_COUNT];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct entry *entry_at(struct table *table, uint32_t index) {
  if (index >= WIRE_HANDLE_INDEX_MAX) return NULL;
  struct entry *chunk =
      atomic_load_explicit(&table->chunks[index / CHUNK_ENTRIES], memory_order_acquire);
  return chunk ? &chunk[index % CHUNK_ENTRIES] : NULL;
}

static uint64_t mint(enum wire_kind kind, void *object, struct session *session) {
  struct table *table = &tables[kind];
  uint64_t handle = 0;
  pthread_mutex_lock(&lock);
  uint32_t index = table->free_list;
  struct entry *entry = NULL;
  if (index) {
    entry = entry_at(table, index);
    table->free_list = entry->next_free;
  } else if (table->used + 1 < WIRE_HANDLE_INDEX_MAX) {
    index = table->used + 1;
    if (!entry_at(table, index)) {
      struct entry *chunk = calloc(CHUNK_ENTRIES, sizeof *chunk);
      atomic_store_explicit(&table->chunks[index / CHUNK_ENTRIES], chunk, memory_order_release);
    }
    entry = entry_at(table, index);
    if (entry) table->used = index;
  }
  if (entry) {
    uint32_t generation = (atomic_load(&entry->generation) + 1) & 0xffffff;
    atomic_store_explicit(&entry->session, session, memory_order_relaxed);
    atomic_store_explicit(&entry->generation, generation, memory_order_release);
    atomic_store_explicit(&entry->object, object, memory_order_release);
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
static inline __attribute__((always_inline)) struct entry *entry_of(enum wire_kind kind,
                                                                    uint64_t handle) {
  if (wire_handle_kind(handle) != kind) return NULL;
  struct entry *entry = entry_at(&tables[kind], wire_handle_index(handle));
  if (!entry || atomic_load_explicit(&entry->generation, memory_order_acquire) !=
                    wire_handle_generation(handle))
    return NULL;
  return entry;
}

static inline struct session *session_of(const struct entry *entry) {
  return atomic_load_explicit(&entry->session, memory_order_relaxed);
}

void *handle_object(enum wire_kind kind, uint64_t handle) {
  struct entry *entry = entry_of(kind, handle);
  if (!entry) return NULL;
  session_follow(session_of(entry), CUDA_ERROR_INVALID_HANDLE);
  return atomic_load_explicit(&entry->object, memory_order_acquire);
}

void *handle_peek(enum wire_kind kind, uint64_t handle) {
  struct entry *entry = entry_of(kind, handle);
  return entry ? atomic_load_explicit(&entry->object, memory_order_acquire) : NULL;
}

struct session *handle_session(enum wire_kind kind, uint64_t handle) {
  const struct entry *entry = entry_of(kind, handle);
  return entry ? session_of(entry) : NULL;
}

_Bool handle_is_live(enum wire_kind kind, uint64_t handle) {
  struct entry *entry = entry_of(kind, handle);
  return entry && atomic_load_explicit(&entry->object, memory_order_acquire);
}

void *handle_retire(enum wire_kind kind, uint64_t handle) {
  pthread_mutex_lock(&lock);
  struct entry *entry = entry_of(kind, handle);
  void *object = entry ? atomic_exchange(&entry->object, NULL) : NULL;
  if (object) session_use(session_of(entry));
  pthread_mutex_unlock(&lock);
  return object;
}

void handle_recycle(enum wire_kind kind, uint64_t handle) {
  uint32_t index = wire_handle_index(handle);
  pthread_mutex_lock(&lock);
  entry_at(&tables[kind], index)->next_free = tables[kind].free_list;
  tables[kind].free_list = index;
  pthread_mutex_unlock(&lock);
}

_Bool handle_visit(enum wire_kind kind, uint64_t handle, void (*visit)(void *object, void *context),
                   void *context) {
  pthread_mutex_lock(&lock);
  struct entry *entry = entry_of(kind, handle);
  void *object = entry ? atomic_load(&entry->object) : NULL;
  if (object) visit(object, context);
  pthread_mutex_unlock(&lock);
  return object != NULL;
}

void handle_each(struct session *session, enum wire_kind kind,
                 void (*visit)(uint64_t handle, void *object, void *context), void *context) {
  pthread_mutex_lock(&lock);
  uint32_t used = tables[kind].used;
  pthread_mutex_unlock(&lock);
  for (uint32_t index = 1; index <= used; index++) {
    struct entry *entry = entry_at(&tables[kind], index);
    void *object = entry ? atomic_load(&entry->object) : NULL;
    if (object && (session_of(entry) == session || session_of(entry) == NULL))
      visit(wire_handle(kind, atomic_load(&entry->generation), index), object, context);
  }
}
