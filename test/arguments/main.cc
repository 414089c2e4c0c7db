// driver-arguments [--without FILE]... [CALL...]: makes each call of the driver API (or those
// named, in each version of the default stream) once with legal arguments, and then with one
// argument wrong at a time, on the libcuda.so.1 that the dynamic linker finds; says what each did.
// Two libraries that behave the same print the same. What the lines of FILE begin with is left out.
//
// driver-arguments --contexts [CALL...]: makes each call with legal arguments only, but in each
// state that the thread's context may be in, and says the name of each result.
#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <set>
#include <thread>

#include "values.h"

namespace arguments {
namespace {

void *library;
std::set<std::string> without;

/** A process in which calls are made, as it ends. */
enum End { kDone = 0, kAgain = 77, kNoDevice = 78 };

/** Nothing that is wrong may wait for longer. */
constexpr unsigned kSeconds = 60;

/** What is current in the thread that makes the call; its arguments are of the primary context. */
enum class Current { kPrimary, kNone, kDestroyed };
bool contexts;

struct Probe {
  /** Which parameter; none in the legal call. */
  int parameter;
  Wrong wrong;
  Current current = Current::kPrimary;
};

std::vector<Probe> probes_of(const Call &call) {
  const auto nothing = [](Scene &, Value &) { return true; };
  if (contexts)
    return {{-1, {"primary", nothing}, Current::kPrimary},
            {-1, {"none", nothing}, Current::kNone},
            {-1, {"destroyed", nothing}, Current::kDestroyed}};
  std::vector<Probe> all = {{-1, {"legally", nothing}}};
  for (size_t i = 0; i < call.parameters.size(); i++)
    for (const Wrong &wrong : wrongs(call.parameters[i]))
      all.push_back({static_cast<int>(i), wrong});
  return all;
}

// Without what says which default stream is meant.
std::string plain(const std::string &name) {
  const bool other = name.ends_with("_ptsz") || name.ends_with("_ptds");
  return other ? name.substr(0, name.size() - 5) : name;
}

// What is wrong with the call, if anything.
std::string words_of(const Call &call, const Probe &probe) {
  const bool one = probe.parameter >= 0;
  return ' ' + (one ? call.parameters[probe.parameter].name + ' ' : "") + probe.wrong.name;
}

// Makes current what the call is to find. False where the library does not do that.
bool make_current(Current current) {
  if (current == Current::kPrimary) return true;
  if (current == Current::kNone) return !CALL(cuCtxSetCurrent)(nullptr);
  CUcontext context = nullptr;
  if (CALL(cuCtxCreate_v2)(&context, 0, 0)) return false;
  CUresult destroyed = CUDA_ERROR_UNKNOWN;
  std::thread([&] { destroyed = CALL(cuCtxDestroy_v2)(context); }).join();
  return !destroyed;
}

std::string name_of(CUresult result) {
  const char *name = nullptr;
  if (CALL(cuGetErrorName)(result, &name)) return std::to_string(result);
  return name;
}

// Says what the call did; false if nothing can follow it in this process.
bool make(const Call &call, const Probe &probe, CUcontext context) {
  Scene scene(call);
  std::vector<Value> values;
  for (const Parameter &parameter : call.parameters) values.push_back(legal(scene, parameter));
  if (probe.parameter >= 0 && !probe.wrong.apply(scene, values[probe.parameter])) return true;
  for (Buffer &buffer : scene.told) memcpy(buffer.before, buffer.bytes, kBuffer);
  const std::string words = words_of(call, probe);
  if (without.contains(plain(call.name) + words)) return true;
  printf("%s%s", call.name.c_str(), words.c_str());
  fflush(stdout);
  alarm(kSeconds);
  if (!make_current(probe.current)) {
    printf(" ended with no such state\n");
    return false;
  }
  const CUresult result = call.invoke(symbol(call.name.c_str()), values.data());
  if (contexts)
    printf(" = %s", name_of(result).c_str());
  else
    printf(" = %d", result);
  CALL(cuCtxSetCurrent)(context);
  // What it has done may be told late.
  const CUresult late = CALL(cuCtxSynchronize)();
  alarm(0);
  if (late) printf(", then %d", late);
  printf("%s\n", result || contexts ? "" : told(scene).c_str());
  fflush(stdout);
  return !late;
}

// In a process of its own, from the probe of this number on.
[[noreturn]] void run(const Call &call, unsigned *at) {
  library = dlopen("libcuda.so.1", RTLD_NOW);
  if (!library) {
    fprintf(stderr, "driver-arguments: %s\n", dlerror());
    _exit(kNoDevice);
  }
  const std::vector<Probe> probes = probes_of(call);
  if (CALL(cuInit)(0)) _exit(kNoDevice);
  for (; *at < probes.size(); ++*at) {
    CUcontext context = nullptr;
    if (CALL(cuDevicePrimaryCtxRetain)(&context, 0) || CALL(cuCtxSetCurrent)(context))
      _exit(kAgain);
    if (!make(call, probes[*at], context)) {
      ++*at;
      _exit(kAgain);
    }
  }
  _exit(kDone);
}

// Whether no process ended as it should not.
bool run_all(const Call &call) {
  static auto *at = static_cast<unsigned *>(
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  *at = 0;
  for (bool well = true;;) {
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) run(call, at);
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child) return false;
    if (WIFEXITED(status) && WEXITSTATUS(status) == kDone) return well;
    if (WIFEXITED(status) && WEXITSTATUS(status) == kAgain) continue;
    if (WIFEXITED(status) && WEXITSTATUS(status) == kNoDevice) exit(2);
    if (WIFSIGNALED(status)) {
      printf(" died of signal %d\n", WTERMSIG(status));
    } else {
      printf(" ended with %d\n", WEXITSTATUS(status));
      well = false;
    }
    ++*at;
  }
}

}  // namespace

void *symbol(const char *name) {
  void *found = dlsym(library, name);
  if (!found) {
    fprintf(stderr, "driver-arguments: the library has no %s\n", name);
    _exit(kNoDevice);
  }
  return found;
}

}  // namespace arguments

int main(int count, char **words) {
  using namespace arguments;
  // Many end by a signal.
  const rlimit none = {0, 0};
  setrlimit(RLIMIT_CORE, &none);
  image_file();
  std::vector<std::string> wanted(words + 1, words + count);
  contexts = !wanted.empty() && wanted[0] == "--contexts";
  if (contexts) wanted.erase(wanted.begin());
  while (wanted.size() > 1 && wanted[0] == "--without") {
    std::ifstream file(wanted[1]);
    for (std::string line; std::getline(file, line);)
      without.insert(line.substr(0, line.find('\t')));
    wanted.erase(wanted.begin(), wanted.begin() + 2);
  }
  bool well = true;
  for (const Call &call : all_calls())
    if (wanted.empty() || std::find(wanted.begin(), wanted.end(), plain(call.name)) != wanted.end())
      well = run_all(call) && well;
  unlink(image_file());
  return well ? 0 : 1;
}
