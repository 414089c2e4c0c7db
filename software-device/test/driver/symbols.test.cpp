// The library exports the driver's names, and one more.
#include <set>
#include <string>

#include "abi_lookup.h"
#include "support.h"

namespace {

const char *library_path;

void exports_the_abi_and_one_more_name(void **) {
  std::set<std::string> expected, exported;
  for (const abi_entry &entry : abi_entries) expected.insert(entry.name);
  expected.insert("softwareDeviceWorkNs");  // entry/work.h
  std::string command = std::string("nm -D --defined-only '") + library_path + "'";
  FILE *output = popen(command.c_str(), "r");
  assert_non_null(output);
  char line[512], name[400];
  while (fgets(line, sizeof line, output))
    if (sscanf(line, "%*s %*s %399s", name) == 1) exported.insert(name);
  assert_int_equal(pclose(output), 0);
  for (const std::string &symbol : exported)
    if (!expected.count(symbol)) fail_msg("%s is exported and is no entry point", symbol.c_str());
  for (const std::string &symbol : expected)
    if (!exported.count(symbol)) fail_msg("%s is not exported", symbol.c_str());
}

void its_name_is_the_one_programs_ask_for(void **) {
  std::string command = std::string("readelf -d '") + library_path + "'";
  FILE *output = popen(command.c_str(), "r");
  assert_non_null(output);
  std::string all;
  char line[512];
  while (fgets(line, sizeof line, output)) all += line;
  assert_int_equal(pclose(output), 0);
  assert_true(all.find("soname: [libcuda.so.1]") != std::string::npos);
}

}  // namespace

// Only the table is wanted of driver-abi.
extern "C" int abi_unsupported(int) { return 801; }

int main(int count, char **arguments) {
  if (count != 2) return 2;
  library_path = arguments[1];
  const CMUnitTest tests[] = {
      cmocka_unit_test(exports_the_abi_and_one_more_name),
      cmocka_unit_test(its_name_is_the_one_programs_ask_for),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
