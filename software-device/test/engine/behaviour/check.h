// The smallest test framework that serves: tests register themselves, CHECK counts.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "../rig.h"

namespace check {

struct Test {
  const char *name;
  void (*run)();
  std::string family;  // the folder that it lies in
};
inline std::vector<Test> &tests() {
  static std::vector<Test> all;
  return all;
}
inline int failures = 0;

struct Register {
  Register(const char *name, void (*run)(), const std::string &file) {
    size_t end = file.rfind('/'), begin = file.rfind('/', end - 1) + 1;
    tests().push_back({name, run, file.substr(begin, end - begin)});
  }
};

// Runs the tests of a family whose names contain `part`; how many there were.
inline int run_tests(const std::string &family, const std::string &part, bool quiet = false) {
  int run = 0;
  for (const Test &test : tests()) {
    if (test.family != family || !std::strstr(test.name, part.c_str())) continue;
    int before = failures;
    test.run();
    ++run;
    if (!quiet || failures != before)
      std::printf("%s %s\n", failures == before ? "ok  " : "FAIL", test.name);
  }
  return run;
}

inline void fail(const char *file, int line, const std::string &what) {
  std::printf("%s:%d: %s\n", file, line, what.c_str());
  ++failures;
}

// A module around the bodies of kernels.
inline std::string module(const std::string &text) {
  return ".version 9.0\n.target sm_90\n.address_size 64\n" + text;
}
// A kernel with pointer parameters p0, p1, ... in %d0, %d1, ... and tid.x, ctaid.x, ntid.x and the
// global thread number in %r0 to %r3.
inline std::string kernel(const std::string &name, int pointers, const std::string &body) {
  std::string text = ".visible .entry " + name + "(";
  for (int i = 0; i < pointers; ++i)
    text += std::string(i ? ", " : "") + ".param .u64 p" + std::to_string(i);
  text +=
      ") {\n.reg .pred %p<16>; .reg .b16 %h<16>; .reg .b32 %r<64>; .reg .f32 %f<16>;"
      " .reg .b64 %d<64>;\n";
  for (int i = 0; i < pointers; ++i)
    text += "ld.param.u64 %d" + std::to_string(i) + ", [p" + std::to_string(i) + "];\n";
  return text +
         "mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x;\n"
         "mad.lo.s32 %r3, %r1, %r2, %r0;\n" +
         body + "\nret;\n}\n";
}
// Stores %r<value> at p0[global thread number].
inline std::string store_result(const std::string &value) {
  return "mul.wide.u32 %d60, %r3, 4; add.s64 %d60, %d0, %d60; st.global.u32 [%d60], " + value +
         ";\n";
}

}  // namespace check

#define TEST(name)                                               \
  static void name();                                            \
  static check::Register register_##name(#name, name, __FILE__); \
  static void name()

#define CHECK(condition)                                           \
  do {                                                             \
    if (!(condition)) check::fail(__FILE__, __LINE__, #condition); \
  } while (0)

#define CHECK_OK(expression)                                                       \
  do {                                                                             \
    softdev::Status check_status = (expression);                                   \
    if (!check_status.ok())                                                        \
      check::fail(__FILE__, __LINE__,                                              \
                  std::to_string(check_status.code) + " " + check_status.message); \
  } while (0)

// The expression fails with `wanted` and its message holds all of the words.
#define CHECK_FAILS(expression, wanted, ...)                                                 \
  do {                                                                                       \
    softdev::Status check_status = (expression);                                             \
    if (check_status.code != (wanted))                                                       \
      check::fail(__FILE__, __LINE__,                                                        \
                  "got " + std::to_string(check_status.code) + ": " + check_status.message); \
    for (const char *word : {__VA_ARGS__})                                                   \
      if (check_status.message.find(word) == std::string::npos)                              \
        check::fail(__FILE__, __LINE__,                                                      \
                    std::string("no '") + word + "' in: " + check_status.message);           \
  } while (0)
