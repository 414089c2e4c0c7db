// What is said of a place in a queue, at which moments.
#include "base/place.h"

#include "check.h"

static char text[PLACE_TEXT];

static void a_moment_is_not_worth_a_line(void **state) {
  (void)state;
  struct place place = {0};
  assert_int_equal(place_due(&place), -1);
  place_note(&place, 3, 5000);
  assert_int_equal(place_due(&place), 6000);
  assert_false(place_say(&place, 5999, text));
  assert_false(place_end(&place, 5999, text));
  assert_int_equal(place_due(&place), -1);
}

static void the_place_at_the_end_of_the_moment_is_said(void **state) {
  (void)state;
  struct place place = {0};
  place_note(&place, 3, 5000);
  place_note(&place, 2, 5500);
  assert_int_equal(place_due(&place), 6000);
  assert_true(place_say(&place, 6001, text));
  assert_string_equal(text, "waiting for a GPU: place 2 in the queue");
  assert_int_equal(place_due(&place), -1);
  assert_false(place_say(&place, 999999, text));
  assert_true(place_end(&place, 12400, text));
  assert_string_equal(text, "the wait is over: a GPU is there after 7 seconds");
}

static void large_steps_are_said_once_a_minute(void **state) {
  (void)state;
  struct place place = {0};
  place_note(&place, 1000, 1);
  assert_true(place_say(&place, 1001, text));
  unsigned lines = 0;
  // A place each second.
  for (int64_t now = 1000, left = 1000; left > 0; now += 1000, left--) {
    place_note(&place, (unsigned)left, now);
    if (place_say(&place, now, text)) lines++;
  }
  // At 500, 250, 125, 62, and when a minute after that is over.
  assert_int_equal(lines, 5);
  place_note(&place, 1, 2000000);
  place_say(&place, 2000000, text);

  struct place few = {0};
  place_note(&few, 4, 1);
  assert_true(place_say(&few, 2000, text));
  place_note(&few, 3, 3000);
  assert_int_equal(place_due(&few), -1);
  place_note(&few, 2, 4000);
  assert_int_equal(place_due(&few), 62000);
  assert_false(place_say(&few, 61999, text));
  place_note(&few, 1, 61999);
  assert_true(place_say(&few, 62000, text));
  assert_string_equal(text, "still waiting for a GPU: place 1 in the queue");
  place_note(&few, 2, 63000);
  assert_int_equal(place_due(&few), 122000);
}

int main(void) {
  static const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_moment_is_not_worth_a_line),
      cmocka_unit_test(the_place_at_the_end_of_the_moment_is_said),
      cmocka_unit_test(large_steps_are_said_once_a_minute),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
