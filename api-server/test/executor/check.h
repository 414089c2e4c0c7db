// A test is a function with a name; the program runs the one that is named, or all.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>

using TestFunction = void (*)();
struct Test {
  Test(const char *name, TestFunction run);
  const char *name;
  TestFunction run;
  Test *next;
};

#define TEST(test_name)                                 \
  static void test_name();                              \
  static Test test_name##_entry(#test_name, test_name); \
  static void test_name()

template <class T>
std::string shown(const T &value) {
  std::ostringstream text;
  text << value;
  return text.str();
}

[[noreturn]] inline void fail(const char *file, int line, const std::string &what) {
  fprintf(stderr, "%s:%d: %s\n", file, line, what.c_str());
  // The session's threads may be in any state: no destructors.
  _Exit(1);
}

#define CHECK(condition) \
  if (!(condition)) fail(__FILE__, __LINE__, "not true: " #condition)

#define CHECK_EQUAL(found, wanted)                                                            \
  do {                                                                                        \
    const auto found_value = (found);                                                         \
    const auto wanted_value = (wanted);                                                       \
    if (!(found_value == wanted_value)) {                                                     \
      fail(__FILE__, __LINE__,                                                                \
           #found " is " + shown(found_value) + ", not " #wanted ", " + shown(wanted_value)); \
    }                                                                                         \
  } while (false)
