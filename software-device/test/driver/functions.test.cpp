// The page that says which driver functions work is true, and so is the table of reasons for those
// that do not. `write` as the last argument makes the page anew.
#include <dlfcn.h>

#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <string_view>

#include "abi_lookup.h"
#include "support.h"

namespace {

// Of the symbols behind the exported ones (driver_abi_wrapped).
constexpr std::string_view kPrefix = "implemented_";

const char *library_path, *reasons_path, *page_path;

using AnyFunction = CUresult (*)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                                 uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);
CUresult call_with_nothing(void *function) {
  return reinterpret_cast<AnyFunction>(function)(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
}

void *library() {
  static void *handle = dlopen(library_path, RTLD_NOW | RTLD_LOCAL);
  return handle;
}

void *symbol(const std::string &name) { return dlsym(library(), name.c_str()); }

// Calls for which nothing but the stub is there: both symbols have one address.
std::set<std::string> read_stubs() {
  std::string command = std::string("nm --defined-only '") + library_path + "'";
  std::map<std::string, unsigned long long> stub, implemented;
  std::set<std::string> stubs;
  FILE *output = popen(command.c_str(), "r");
  if (!output) return stubs;
  char line[512], name[400];
  unsigned long long address;
  while (fgets(line, sizeof line, output)) {
    if (sscanf(line, "%llx %*s %399s", &address, name) != 2) continue;
    std::string_view symbol = name;
    if (symbol.starts_with("stub_")) stub[name + 5] = address;
    if (symbol.starts_with(kPrefix)) implemented[name + kPrefix.size()] = address;
  }
  pclose(output);
  for (const auto &[call, at] : stub)
    if (auto found = implemented.find(call); found != implemented.end() && found->second == at)
      stubs.insert(call);
  return stubs;
}

const std::set<std::string> &stubs() {
  static const std::set<std::string> all = read_stubs();
  return all;
}

// Patterns of what look-ups find all the same, and the results.
std::map<std::string, CUresult> found_though_refused;

CUresult result_called(const std::string &name) {
  if (name == "INVALID_HANDLE") return CUDA_ERROR_INVALID_HANDLE;
  if (name == "INVALID_GRAPHICS_CONTEXT") return CUDA_ERROR_INVALID_GRAPHICS_CONTEXT;
  return CUDA_ERROR_NOT_SUPPORTED;
}

// Patterns and reasons, in the order of the file.
const std::vector<std::pair<std::string, std::string>> &reasons() {
  static std::vector<std::pair<std::string, std::string>> all;
  if (!all.empty()) return all;
  std::ifstream file(reasons_path);
  for (std::string line; std::getline(file, line);) {
    size_t tab = line.find('\t');
    if (line.empty() || line[0] == '#' || tab == std::string::npos) continue;
    size_t mark = line.find('\t', tab + 1);
    all.emplace_back(line.substr(0, tab), line.substr(tab + 1, mark - tab - 1));
    if (mark == std::string::npos) continue;
    size_t space = line.find(' ', mark);
    found_though_refused[all.back().first] =
        result_called(space == std::string::npos ? "" : line.substr(space + 1));
  }
  return all;
}

bool fits(const std::string &pattern, const std::string &name) {
  if (pattern.back() != '*') return pattern == name;
  return name.compare(0, pattern.size() - 1, pattern, 0, pattern.size() - 1) == 0;
}

const std::pair<std::string, std::string> *reason_for(const std::string &name) {
  const std::pair<std::string, std::string> *best = nullptr;
  for (const auto &row : reasons())
    if (fits(row.first, name) && (!best || row.first.size() > best->first.size())) best = &row;
  return best;
}

CUresult refusal_of(const std::string &name) {
  auto found = found_though_refused.find(reason_for(name)->first);
  return found == found_though_refused.end() ? CUDA_ERROR_NOT_SUPPORTED : found->second;
}

// ---------------------------------------------------------------------------------------------

std::string page() {
  // A function is what programs look up; each has one symbol per version and default stream.
  std::map<std::string, std::set<std::string>> functions;
  std::set<std::string> named;
  for (const abi_lookup &row : abi_lookups) {
    functions[row.name].insert(abi_entries[row.entry].name);
    named.insert(abi_entries[row.entry].name);
  }
  for (const abi_entry &entry : abi_entries)
    if (!named.count(entry.name)) functions[entry.name].insert(entry.name);

  size_t whole = 0, partly = 0, refused = 0;
  std::ostringstream works, parts;
  std::map<std::string, std::vector<std::string>> by_reason;
  for (const auto &[name, symbols] : functions) {
    std::vector<std::string> missing;
    for (const std::string &candidate : symbols)
      if (stubs().count(candidate)) missing.push_back(candidate);
    if (missing.empty()) {
      whole++;
      works << "| `" << name << "` |";
      for (const std::string &other : symbols)
        if (other != name || symbols.size() > 1) works << " `" << other << "`";
      works << " |\n";
    } else if (missing.size() < symbols.size()) {
      partly++;
      parts << "| `" << name << "` |";
      for (const std::string &other : symbols)
        if (!stubs().count(other)) parts << " `" << other << "`";
      parts << " |";
      for (const std::string &other : missing) parts << " `" << other << "`";
      const auto *row = reason_for(missing.front());
      parts << " | " << (row ? row->second : "?") << " |\n";
    } else {
      refused++;
      const auto *row = reason_for(*symbols.begin());
      by_reason[row ? row->second : "?"].push_back(name);
    }
  }
  std::ostringstream text;
  text
      << "# Driver functions of the software device\n\n"
      << "Made by `ninja softdev_functions` from what the library has and from\n"
      << "`software-device/src/driver/refused.tsv`; a test compares them. What a function that "
         "works\n"
      << "refuses in single cases (a flag, a kind of memory) it says at "
         "`SOFTWARE_DEVICE_LOG=info`.\n\n"
      << "| | functions |\n|---|---|\n"
      << "| work | " << whole << " |\n"
      << "| work but for symbols of old versions | " << partly << " |\n"
      << "| refused | " << refused << " |\n\n"
      << "Refused functions are not found by `cuGetProcAddress` (`CUDA_ERROR_NOT_FOUND`); called "
         "by\n"
      << "symbol they answer `CUDA_ERROR_NOT_SUPPORTED`. Some are found all the same, as programs "
         "take "
         "their absence for a\nbroken driver (`refused.tsv` marks them); calls for graphics answer "
         "what a driver without a display does.\n\n## Refused\n\n"
      << "| reason | functions |\n|---|---|\n";
  for (const auto &[reason, names] : by_reason) {
    text << "| " << reason << " |";
    for (const std::string &name : names) text << " `" << name << "`";
    text << " |\n";
  }
  if (partly)
    text << "\n## In part\n\n| function | works | refused | reason |\n|---|---|---|---|\n"
         << parts.str();
  text << "\n## Work\n\nWith the symbols of each: versions, and `_ptsz` or `_ptds` for the "
          "per-thread "
          "default stream.\n\n| function | symbols |\n|---|---|\n"
       << works.str();
  return text.str();
}

// ---------------------------------------------------------------------------------------------

void each_refusal_has_a_reason_and_each_reason_a_refusal(void **) {
  for (const std::string &name : stubs())
    if (!reason_for(name)) fail_msg("%s is refused; refused.tsv does not say why", name.c_str());
  std::set<const void *> used;
  for (const std::string &name : stubs()) used.insert(reason_for(name));
  for (const auto &row : reasons())
    if (!used.count(&row))
      fail_msg("refused.tsv has a reason for %s, which works", row.first.c_str());
}

// Before cuInit, so that nothing has effects. No argument is needed to be refused.
void what_is_refused_says_so_and_what_works_does_not(void **) {
  for (const abi_entry &entry : abi_entries) {
    void *function = symbol(entry.name);
    if (!function) fail_msg("%s is not exported", entry.name);
    if (strcmp(entry.name, "cuInit") == 0) continue;
    CUresult result = call_with_nothing(function);
    if (stubs().count(entry.name)) {
      if (result != refusal_of(entry.name))
        fail_msg("%s gave %d, expected %d", entry.name, result, refusal_of(entry.name));
    } else if (result == CUDA_ERROR_NOT_SUPPORTED) {
      fail_msg("%s is said to work and is not supported", entry.name);
    }
  }
}

void look_ups_find_what_works_and_nothing_else(void **) {
  auto look_up = reinterpret_cast<CUresult (*)(const char *, void **, int, cuuint64_t,
                                               CUdriverProcAddressQueryResult *)>(
      symbol("cuGetProcAddress_v2"));
  for (const abi_lookup &row : abi_lookups) {
    const char *name = abi_entries[row.entry].name;
    void *found = nullptr;
    CUdriverProcAddressQueryResult status;
    cuuint64_t flags = row.variant == ABI_PER_THREAD ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
                                                     : CU_GET_PROC_ADDRESS_LEGACY_STREAM;
    CUresult result = look_up(row.name, &found, row.version, flags, &status);
    if (stubs().count(name) && found_though_refused.count(reason_for(name)->first)) {
      if (result != CUDA_SUCCESS || call_with_nothing(found) != refusal_of(name))
        fail_msg("%s is to be found and to refuse", name);
    } else if (stubs().count(name)) {
      if (found == symbol(name)) fail_msg("a stub of %s is handed out", name);
    } else if (result != CUDA_SUCCESS || found != symbol(name)) {
      fail_msg("%s at %d is not found as %s", row.name, row.version, name);
    }
  }
}

// With a device in use: any answer will do, as long as there is one.
void no_function_dies_of_empty_arguments(void **) {
  auto init = reinterpret_cast<CUresult (*)(unsigned)>(symbol("cuInit"));
  auto retain =
      reinterpret_cast<CUresult (*)(CUcontext *, CUdevice)>(symbol("cuDevicePrimaryCtxRetain"));
  auto set = reinterpret_cast<CUresult (*)(CUcontext)>(symbol("cuCtxSetCurrent"));
  OK(init(0));
  for (const abi_entry &entry : abi_entries) {
    CUcontext context;
    OK(retain(&context, 0));
    OK(set(context));
    call_with_nothing(symbol(entry.name));
  }
}

void the_page_is_what_the_library_is(void **) {
  std::ifstream file(page_path);
  std::stringstream text;
  text << file.rdbuf();
  if (text.str() != page()) fail_msg("%s is out of date: ninja softdev_functions", page_path);
}

}  // namespace

// Only the tables are wanted of driver-abi.
extern "C" int abi_unsupported(int) { return 801; }
// For support.h; the library under test is opened by its path.
CUresult cuGetErrorName(CUresult, const char **) { return CUDA_ERROR_UNKNOWN; }

int main(int count, char **arguments) {
  if (count < 4) return 2;
  library_path = arguments[1];
  reasons_path = arguments[2];
  page_path = arguments[3];
  if (count > 4 && strcmp(arguments[4], "write") == 0) {
    std::ofstream(page_path) << page();
    return 0;
  }
  const CMUnitTest tests[] = {
      cmocka_unit_test(each_refusal_has_a_reason_and_each_reason_a_refusal),
      cmocka_unit_test(what_is_refused_says_so_and_what_works_does_not),
      cmocka_unit_test(look_ups_find_what_works_and_nothing_else),
      cmocka_unit_test(no_function_dies_of_empty_arguments),
      cmocka_unit_test(the_page_is_what_the_library_is),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
