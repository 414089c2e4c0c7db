// The addresses of the window, against a reference that knows each granule.
#include "memory/window.h"

#include <string.h>

#include "check.h"
#include "wire.h"

#define BASE WIRE_WINDOW_BASE
#define GRANULES 256
#define SIZE (GRANULES * WIRE_GRANULE)

struct block {
  struct holding holding;
};

static uint64_t at(uint64_t granule) { return BASE + granule * WIRE_GRANULE; }

static void all_of_it_and_no_more(void **state) {
  (void)state;
  window_start(BASE, SIZE, 0, WIRE_GRANULE);
  uint64_t address = 0;
  assert_false(window_take(SIZE + WIRE_GRANULE, WIRE_GRANULE, &address));
  assert_false(window_take(0, WIRE_GRANULE, &address));
  assert_true(window_take(SIZE, WIRE_GRANULE, &address));
  assert_int_equal(address, BASE);
  assert_false(window_take(WIRE_GRANULE, WIRE_GRANULE, &address));
  window_give(BASE, SIZE);
  assert_true(window_take(SIZE, WIRE_GRANULE, &address));
  window_give(BASE, SIZE);
  assert_true(window_has(BASE) && window_has(BASE + SIZE - 1));
  assert_false(window_has(BASE - 1) || window_has(BASE + SIZE));
}

static void fixed_addresses(void **state) {
  (void)state;
  window_start(BASE, SIZE, 0, WIRE_GRANULE);
  uint64_t address;
  assert_true(window_take_at(at(100), 10 * WIRE_GRANULE));
  assert_false(window_take_at(at(100), WIRE_GRANULE));
  assert_false(window_take_at(at(95), 6 * WIRE_GRANULE));
  assert_false(window_take_at(at(109), 2 * WIRE_GRANULE));
  assert_true(window_take_at(at(95), 5 * WIRE_GRANULE));
  assert_true(window_take_at(at(110), WIRE_GRANULE));
  // What lies before is still there for those who do not care.
  assert_true(window_take(95 * WIRE_GRANULE, WIRE_GRANULE, &address));
  assert_int_equal(address, BASE);
  assert_false(window_take_at(BASE - WIRE_GRANULE, WIRE_GRANULE));
  assert_false(window_take_at(BASE + SIZE, WIRE_GRANULE));
  assert_false(window_take_at(at(GRANULES - 1), 2 * WIRE_GRANULE));
  assert_false(window_take_at(at(GRANULES - 1), UINT64_MAX - WIRE_GRANULE + 1));
  assert_false(window_take_at(at(200) + 4096, WIRE_GRANULE));
  assert_false(window_take_at(at(200), 0));
  assert_true(window_take_at(at(GRANULES - 1), WIRE_GRANULE));
  window_give(BASE, 111 * WIRE_GRANULE);
  window_give(at(GRANULES - 1), WIRE_GRANULE);
  assert_true(window_take(SIZE, WIRE_GRANULE, &address));
  window_give(BASE, SIZE);
}

static void other_granules(void **state) {
  (void)state;
  static const uint64_t granules[] = {64 << 10, 32 << 20};
  for (int i = 0; i < 2; i++) {
    const uint64_t granule = granules[i];
    uint64_t first, second, third;
    window_start(BASE, SIZE, SIZE / 4, granule);
    assert_int_equal(window_granule(), granule);
    assert_int_equal(window_block(), i ? granule : WIRE_GRANULE);
    assert_true(window_take(granule, granule, &first));
    assert_true(window_take(granule, granule, &second));
    assert_int_equal(second - first, granule);
    assert_false(window_take_at(BASE + 2 * granule + granule / 2, granule));
    assert_true(window_take_at(BASE + 2 * granule, granule));
    struct block one = {.holding = {.address = second, .size = granule, .session = sessions}};
    window_put(&one.holding);
    assert_null(window_at(second - 1));
    assert_ptr_equal(window_at(second), &one);
    assert_ptr_equal(window_at(second + granule - 1), &one);
    assert_null(window_at(second + granule));
    window_remove(&one.holding);
    window_give(first, 3 * granule);
    assert_false(window_take(SIZE / 4 * 3 + granule, granule, &third));
    assert_true(window_take(SIZE / 4 * 3, granule, &third));
    assert_true(window_take_host(SIZE / 4, &first));
    assert_int_equal(first - third, SIZE / 4 * 3);
    assert_false(window_take_host(granule, &second));
  }
}

static void alignment(void **state) {
  (void)state;
  window_start(BASE, SIZE, 0, WIRE_GRANULE);
  uint64_t first, second, third;
  assert_true(window_take(WIRE_GRANULE, WIRE_GRANULE, &first));
  assert_true(window_take(WIRE_GRANULE, 64 * WIRE_GRANULE, &second));
  assert_int_equal(second % (64 * WIRE_GRANULE), 0);
  assert_true(window_take(63 * WIRE_GRANULE, WIRE_GRANULE, &third));
  assert_int_equal(third, at(1));  // the gap is not lost
  assert_false(window_take(WIRE_GRANULE, 1ull << 62, &third));
}

static void visit(struct holding *holding, void *count) {
  ++*(int *)count;
  window_remove(holding);
}

static void what_lies_where(void **state) {
  (void)state;
  window_start(BASE, SIZE, 0, WIRE_GRANULE);
  struct block a = {.holding = {.address = at(3), .size = 2 * WIRE_GRANULE, .session = sessions}},
               b = {.holding = {.address = at(9), .size = WIRE_GRANULE, .session = sessions}};
  assert_true(window_take_at(a.holding.address, a.holding.size));
  assert_true(window_take_at(b.holding.address, b.holding.size));
  window_put(&a.holding);
  window_put(&b.holding);
  assert_ptr_equal(window_at(at(3)), &a);
  assert_ptr_equal(window_at(at(5) - 1), &a);
  assert_null(window_at(at(5)));
  assert_null(window_at(0));
  assert_ptr_equal(window_at(at(9)), &b);
  int count = 0;
  window_each(sessions, visit, &count);
  assert_int_equal(count, 2);
  assert_null(window_at(at(3)));
  window_each(sessions, visit, &count);
  assert_int_equal(count, 2);
}

static void random_against_a_reference(void **state) {
  (void)state;
  window_start(BASE, SIZE, 0, WIRE_GRANULE);
  static uint8_t taken[GRANULES];
  static struct { uint64_t address, size; } live[GRANULES];
  int count = 0;
  uint64_t seed = 7;
  for (int step = 0; step < 20000; step++) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    uint64_t random = seed >> 24;
    if (count && random % 2) {
      int i = (int)(random / 2 % (unsigned)count);
      window_give(live[i].address, live[i].size);
      memset(taken + (live[i].address - BASE) / WIRE_GRANULE, 0, live[i].size / WIRE_GRANULE);
      live[i] = live[--count];
      continue;
    }
    uint64_t granules = 1 + random / 4 % 20, first = 0, address;
    _Bool fixed = random / 2 % 2;
    _Bool fits = 0;
    if (fixed) {
      first = random / 128 % GRANULES;
      fits = first + granules <= GRANULES && !memchr(taken + first, 1, granules);
      address = at(first);
      assert_int_equal(window_take_at(address, granules * WIRE_GRANULE), fits);
    } else {
      for (first = 0; first + granules <= GRANULES && !fits; first++)
        fits = !memchr(taken + first, 1, granules);
      assert_int_equal(window_take(granules * WIRE_GRANULE, WIRE_GRANULE, &address), fits);
    }
    if (!fits) continue;
    first = (address - BASE) / WIRE_GRANULE;
    assert_null(memchr(taken + first, 1, granules));
    memset(taken + first, 1, granules);
    live[count].address = address;
    live[count++].size = granules * WIRE_GRANULE;
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_of_it_and_no_more), cmocka_unit_test(fixed_addresses),
      cmocka_unit_test(other_granules),        cmocka_unit_test(alignment),
      cmocka_unit_test(what_lies_where),       cmocka_unit_test(random_against_a_reference),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
