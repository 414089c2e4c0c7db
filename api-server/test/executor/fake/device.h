// What the parts of the fake driver share: its state, all behind one lock, and the queue of
// operations.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "cuda_driver.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

struct CUstream_st {
  bool blocking = true;
  uint64_t queued = 0;    // operations so far
  uint64_t finished = 0;  // of them
  bool doomed = false;    // destroyed, but not finished
};
struct CUevent_st {
  CUstream stream = nullptr;
  uint64_t position = 0;
  std::shared_ptr<double> when;  // milliseconds, once it is done
};
struct CUkern_st {
  std::string name;
  std::vector<std::pair<size_t, size_t>> parameters;
  size_t bytes = 0;
};
struct CUlib_st {
  std::vector<std::unique_ptr<CUkern_st>> kernels;
  std::map<std::string, std::pair<void *, size_t>> globals;
};

namespace fake {

// What an operation comes after: so many operations of a stream.
struct After {
  CUstream stream;
  uint64_t position;
};

struct Operation {
  CUstream stream;
  std::vector<After> after;
  std::function<void()> run;
  uint32_t gate;
  // A function of the program, on a thread of its own; the rest of the stream waits for it.
  CUhostFn host = nullptr;
  void *data = nullptr;
  std::function<bool()> ready = nullptr;  // what it waits for, besides
  bool always = false;                    // called in a context that has failed, too
  enum { kNotCalled, kCalled, kReturned } state = kNotCalled;
  uint64_t id = 0;
};

struct Failure {
  CUresult result;
  unsigned skip;
};

struct Hold {
  uint32_t gate;
  unsigned skip;
};

struct Memory {
  int fd;
  uint64_t size;
  bool imported;
};

struct Mapping {
  uint64_t memory;  // handle
  uint64_t size;
  bool open;  // there is access
};

constexpr uint32_t kNoGate = UINT32_MAX;

extern std::mutex &mutex;
extern std::condition_variable &changed;
extern CUstream_st legacy_stream;
extern std::set<CUstream> &streams;
extern std::deque<Operation> &operations;
extern std::set<uint32_t> &open_gates;
extern std::map<std::string, Failure> &failures;
extern std::map<std::string, Hold> &holds;
extern std::map<std::string, unsigned> &call_counts;
extern std::map<uint64_t, Memory> &memories;        // by handle
extern std::map<uint64_t, Mapping> &mappings;       // by address
extern std::map<uint64_t, uint64_t> &reservations;  // address to size
extern std::map<CUevent, std::unique_ptr<CUevent_st>> &events;
extern std::set<CUlibrary> &libraries;
extern std::map<void *, size_t> &pinned;
extern std::map<int, size_t> &limits;
extern uint64_t next_memory;
extern uint64_t memory_total;
extern uint64_t memory_used;
extern unsigned dirty;  // releases of memory that was not all zeros
extern CUresult sticky;
extern bool tamed;
extern std::atomic<int> driver_version;
extern std::atomic<int> compute_mode;
extern double clock_ms;  // what events are stamped with; negative: nothing is

using Lock = std::unique_lock<std::mutex>;

// Counts the call; an error when it is to fail.
CUresult enter(const char *function);
#define ENTER                   \
  fake::Lock lock(fake::mutex); \
  if (CUresult failed = fake::enter(__func__); failed != CUDA_SUCCESS) return failed

CUstream real(CUstream stream);
bool finished(const After &after);
void forget(CUstream stream);
unsigned live_graphs();
// Runs what can run, in the order in which it came.
void advance();
CUresult queue(CUstream given, std::function<void()> run, uint32_t gate = kNoGate,
               std::vector<After> after = {}, CUhostFn host = nullptr, void *data = nullptr,
               bool always = false, std::function<bool()> ready = nullptr);

inline void *at(uint64_t address) { return reinterpret_cast<void *>(address); }
// Whether [address, address + size) is device memory. Touching anything else ends the context.
bool touch(uint64_t address, uint64_t size, bool by_kernel = false);
// Between memory and arrays, as far as there is memory.
void copy_volume(const CUDA_MEMCPY3D &copy);

}  // namespace fake
