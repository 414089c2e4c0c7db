// cmocka with what it wants first, and a check for threads, where cmocka's asserts cannot jump.
#ifndef TEST_CHECK_H
#define TEST_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka wants the four above first
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                      \
  do {                                                                        \
    if (!(condition)) {                                                       \
      fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      abort();                                                                \
    }                                                                         \
  } while (0)

// Each test of a program that has a session runs in a process of its own: `PROGRAM TEST`.
#define RUN_ONE_TEST(tests, argc, argv)                 \
  do {                                                  \
    if ((argc) > 1) cmocka_set_test_filter((argv)[1]);  \
    return cmocka_run_group_tests((tests), NULL, NULL); \
  } while (0)

#endif
