// The allocator of addresses against a plain map of which units are free.
#include "memory/ranges.h"

#include <random>

#include "support.h"

using softdev::driver::Ranges;

namespace {

void agrees_with_a_map(void **) {
  constexpr uint64_t size = 512;
  std::vector<bool> free(size, true);
  Ranges ranges;
  ranges.add(0, size);
  std::vector<std::pair<uint64_t, uint64_t>> taken;
  std::mt19937 random(7);
  for (int step = 0; step < 20000; step++) {
    if (random() % 2 && !taken.empty()) {
      size_t which = random() % taken.size();
      auto [base, length] = taken[which];
      taken[which] = taken.back();
      taken.pop_back();
      for (uint64_t i = 0; i < length; i++) free[base + i] = true;
      ranges.add(base, length);
      continue;
    }
    uint64_t length = 1 + random() % 40, align = uint64_t{1} << random() % 5;
    bool possible = false;
    for (uint64_t base = 0; base + length <= size && !possible; base += align) {
      possible = true;
      for (uint64_t i = 0; i < length; i++) possible = possible && free[base + i];
    }
    auto base = ranges.take(length, align);
    assert_int_equal(base.has_value(), possible);
    if (!base) continue;
    assert_int_equal(*base % align, 0);
    for (uint64_t i = 0; i < length; i++) {
      assert_true(free[*base + i]);
      free[*base + i] = false;
    }
    taken.emplace_back(*base, length);
  }
  for (auto [base, length] : taken) ranges.add(base, length);
  assert_true(ranges.largest() == std::pair(uint64_t{0}, size));
}

void exact_places(void **) {
  Ranges ranges;
  ranges.add(100, 50);
  assert_false(ranges.take_at(99, 2));
  assert_false(ranges.take_at(149, 2));
  assert_true(ranges.take_at(120, 10));
  assert_false(ranges.take_at(125, 1));
  assert_true(ranges.around(119) == std::pair(uint64_t{100}, uint64_t{20}));
  assert_false(ranges.around(120).has_value());
  assert_true(ranges.take_at(130, 20));
  assert_false(ranges.take(21, 1).has_value());
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {cmocka_unit_test(agrees_with_a_map), cmocka_unit_test(exact_places)};
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
