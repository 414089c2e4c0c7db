// Handles: kinds, generations, reuse, limits, threads.
#include "session/handle.h"

#include <pthread.h>
#include <stdatomic.h>

#include "check.h"

static int object, other;

static void kinds_are_told_apart(void **state) {
  (void)state;
  uint64_t stream = handle_mint(session_here(), WIRE_KIND_STREAM, &object);
  uint64_t event = handle_mint(session_here(), WIRE_KIND_EVENT, &other);
  assert_int_equal(wire_handle_kind(stream), WIRE_KIND_STREAM);
  assert_ptr_equal(handle_object(WIRE_KIND_STREAM, stream), &object);
  assert_ptr_equal(handle_object(WIRE_KIND_EVENT, event), &other);
  assert_null(handle_object(WIRE_KIND_EVENT, stream));
  assert_null(handle_object(WIRE_KIND_STREAM, event));
  assert_int_equal(handle_check(WIRE_KIND_STREAM, stream), CUDA_SUCCESS);
  assert_int_equal(handle_check(WIRE_KIND_EVENT, stream), CUDA_ERROR_INVALID_HANDLE);
  assert_null(handle_retire(WIRE_KIND_EVENT, stream));
  assert_ptr_equal(handle_retire(WIRE_KIND_STREAM, stream), &object);
  assert_ptr_equal(handle_retire(WIRE_KIND_EVENT, event), &other);
}

static void made_up_numbers_are_nothing(void **state) {
  (void)state;
  static const uint64_t made_up[] = {
      0,
      1,
      2,
      0xdeadbeef,
      UINT64_MAX,
      0x7fff12345678,  // an address of this process
      (uint64_t)WIRE_KIND_STREAM << 48,
      (uint64_t)WIRE_KIND_STREAM << 48 | WIRE_HANDLE_INDEX_MAX,
      (uint64_t)WIRE_KIND_STREAM << 48 | 0xffffff,
      (uint64_t)WIRE_KIND_COUNT << 48 | 1 << 24 | 1,
  };
  for (unsigned i = 0; i < sizeof made_up / sizeof *made_up; i++)
    for (int kind = WIRE_KIND_CONTEXT; kind < WIRE_KIND_COUNT; kind++) {
      assert_null(handle_object((enum wire_kind)kind, made_up[i]));
      assert_null(handle_retire((enum wire_kind)kind, made_up[i]));
    }
}

static void a_retired_handle_is_stale_for_good(void **state) {
  (void)state;
  uint64_t first = handle_mint(session_here(), WIRE_KIND_MODULE, &object);
  assert_ptr_equal(handle_retire(WIRE_KIND_MODULE, first), &object);
  assert_null(handle_object(WIRE_KIND_MODULE, first));
  assert_null(handle_retire(WIRE_KIND_MODULE, first));

  // The index is not free before the end of the first was sent.
  uint64_t between = handle_mint(session_here(), WIRE_KIND_MODULE, &other);
  assert_int_not_equal(wire_handle_index(between), wire_handle_index(first));
  handle_recycle(WIRE_KIND_MODULE, first);
  uint64_t second = handle_mint(session_here(), WIRE_KIND_MODULE, &object);
  assert_int_equal(wire_handle_index(second), wire_handle_index(first));
  assert_int_not_equal(wire_handle_generation(second), wire_handle_generation(first));
  assert_null(handle_object(WIRE_KIND_MODULE, first));
  assert_null(handle_retire(WIRE_KIND_MODULE, first));
  assert_ptr_equal(handle_object(WIRE_KIND_MODULE, second), &object);
}

static void keep(void *found, void *context) { *(void **)context = found; }

static void visiting(void **state) {
  (void)state;
  uint64_t handle = handle_mint(session_here(), WIRE_KIND_EVENT, &object);
  void *seen = NULL;
  assert_true(handle_visit(WIRE_KIND_EVENT, handle, keep, &seen));
  assert_ptr_equal(seen, &object);
  handle_retire(WIRE_KIND_EVENT, handle);
  seen = NULL;
  assert_false(handle_visit(WIRE_KIND_EVENT, handle, keep, &seen));
  assert_null(seen);
}

static void count(uint64_t handle, void *found, void *context) {
  assert_ptr_equal(handle_object(WIRE_KIND_CONTEXT, handle), found);
  ++*(int *)context;
  if (found == &other) handle_retire(WIRE_KIND_CONTEXT, handle);
}

static void each_is_visited_and_may_end(void **state) {
  (void)state;
  for (int i = 0; i < 3000; i++)
    handle_mint(session_here(), WIRE_KIND_CONTEXT, i % 3 ? (void *)&object : (void *)&other);
  int seen = 0;
  handle_each(session_here(), WIRE_KIND_CONTEXT, count, &seen);
  assert_int_equal(seen, 3000);
  seen = 0;
  handle_each(session_here(), WIRE_KIND_CONTEXT, count, &seen);
  assert_int_equal(seen, 2000);
}

// Last of the tests that use functions: it takes all indices.
static void there_is_an_end_to_them(void **state) {
  (void)state;
  uint64_t last = 0;
  for (uint32_t i = 1; i < WIRE_HANDLE_INDEX_MAX; i++) {
    uint64_t handle = handle_mint(session_here(), WIRE_KIND_FUNCTION, &object);
    assert_int_not_equal(handle, 0);
    assert_true(wire_handle_index(handle) < WIRE_HANDLE_INDEX_MAX);
    last = handle;
  }
  assert_int_equal(handle_mint(session_here(), WIRE_KIND_FUNCTION, &object), 0);
  assert_non_null(handle_retire(WIRE_KIND_FUNCTION, last));
  assert_int_equal(handle_mint(session_here(), WIRE_KIND_FUNCTION, &object), 0);
  handle_recycle(WIRE_KIND_FUNCTION, last);
  assert_int_not_equal(handle_mint(session_here(), WIRE_KIND_FUNCTION, &object), 0);
}

#define THREADS 4
#define EACH 64

// Each thread keeps some handles of its own objects; whatever others do, they stay its own.
static void *churn(void *argument) {
  uintptr_t seed = (uintptr_t)argument;
  uint64_t handles[EACH] = {0};
  int objects[EACH];
  for (int step = 0; step < 20000; step++) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    unsigned i = (unsigned)(seed >> 33) % EACH;
    if (handles[i]) {
      CHECK(handle_object(WIRE_KIND_STREAM, handles[i]) == &objects[i]);
      CHECK(handle_retire(WIRE_KIND_STREAM, handles[i]) == &objects[i]);
      CHECK(handle_object(WIRE_KIND_STREAM, handles[i]) == NULL);
      handle_recycle(WIRE_KIND_STREAM, handles[i]);
      handles[i] = 0;
    } else {
      handles[i] = handle_mint(session_here(), WIRE_KIND_STREAM, &objects[i]);
      CHECK(handles[i]);
    }
  }
  return NULL;
}

static void threads(void **state) {
  (void)state;
  pthread_t ids[THREADS];
  for (uintptr_t i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&ids[i], NULL, churn, (void *)(i + 1)), 0);
  for (int i = 0; i < THREADS; i++) pthread_join(ids[i], NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(kinds_are_told_apart),
      cmocka_unit_test(made_up_numbers_are_nothing),
      cmocka_unit_test(a_retired_handle_is_stale_for_good),
      cmocka_unit_test(visiting),
      cmocka_unit_test(each_is_visited_and_may_end),
      cmocka_unit_test(there_is_an_end_to_them),
      cmocka_unit_test(threads),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
