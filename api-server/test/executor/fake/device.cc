#include "device.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "fake_driver.h"

namespace fake {

// Never destroyed: a test may end while threads wait here.
std::mutex &mutex = *new std::mutex;
std::condition_variable &changed = *new std::condition_variable;
CUstream_st legacy_stream;
std::set<CUstream> &streams = *new std::set<CUstream>{&legacy_stream};
std::deque<Operation> &operations = *new std::deque<Operation>;
std::set<uint32_t> &open_gates = *new std::set<uint32_t>;
std::map<std::string, Failure> &failures = *new std::map<std::string, Failure>;
std::map<std::string, Hold> &holds = *new std::map<std::string, Hold>;
std::map<std::string, unsigned> &call_counts = *new std::map<std::string, unsigned>;
std::map<uint64_t, Memory> &memories = *new std::map<uint64_t, Memory>;
std::map<uint64_t, Mapping> &mappings = *new std::map<uint64_t, Mapping>;
std::map<uint64_t, uint64_t> &reservations = *new std::map<uint64_t, uint64_t>;
std::map<CUevent, std::unique_ptr<CUevent_st>> &events =
    *new std::map<CUevent, std::unique_ptr<CUevent_st>>;
std::set<CUlibrary> &libraries = *new std::set<CUlibrary>;
std::map<void *, size_t> &pinned = *new std::map<void *, size_t>;
std::map<int, size_t> &limits =
    *new std::map<int, size_t>{{0, 1024}, {1, 1 << 20}, {2, 8 << 20}, {3, 2}, {4, 2048}};
uint64_t next_memory = 1;
uint64_t memory_total = uint64_t{8} << 30;
uint64_t memory_used = 0;
unsigned dirty = 0;
CUresult sticky = CUDA_SUCCESS;
bool tamed = false;
double clock_ms = -1;
std::atomic<int> driver_version{13000};
std::atomic<int> compute_mode{CU_COMPUTEMODE_DEFAULT};

CUresult enter(const char *function) {
  ++call_counts[function];
  if (const auto held = holds.find(function); held != holds.end() && held->second.skip-- == 0) {
    const uint32_t gate = held->second.gate;
    holds.erase(held);
    Lock lock(mutex, std::adopt_lock);
    changed.wait(lock, [&] { return open_gates.count(gate) > 0; });
    lock.release();
  }
  auto failure = failures.find(function);
  if (failure == failures.end()) return sticky;
  if (failure->second.skip-- > 0) return sticky;
  const CUresult result = failure->second.result;
  failures.erase(failure);
  return result;
}

CUstream real(CUstream stream) {
  return stream == nullptr || stream == CU_STREAM_LEGACY ? &legacy_stream : stream;
}

bool finished(const After &after) {
  return !streams.count(after.stream) || after.stream->finished >= after.position;
}

void forget(CUstream stream) {
  streams.erase(stream);
  for (auto &[event, state] : events) {
    if (state->stream == stream) state->stream = nullptr;
  }
  for (Operation &operation : operations) {
    std::erase_if(operation.after, [&](const After &a) { return a.stream == stream; });
  }
  delete stream;
}

namespace {

void call(Operation &operation) {
  operation.state = Operation::kCalled;
  std::thread([function = operation.host, data = operation.data, id = operation.id] {
    function(data);
    Lock lock(mutex);
    for (Operation &o : operations) {
      if (o.id == id) o.state = Operation::kReturned;
    }
    advance();
  }).detach();
}

// Whether it is the turn of the first operation of a stream. A host function is called at its turn,
// and is done when it has returned.
bool comes(Operation &operation) {
  if (!std::all_of(operation.after.begin(), operation.after.end(), finished)) return false;
  if (operation.gate != kNoGate && !tamed && sticky == CUDA_SUCCESS &&
      !open_gates.count(operation.gate))
    return false;
  if (operation.ready && sticky == CUDA_SUCCESS && !operation.ready()) return false;
  if (operation.host && (operation.always || sticky == CUDA_SUCCESS)) {
    if (operation.state == Operation::kNotCalled) call(operation);
    return operation.state == Operation::kReturned;
  }
  return true;
}

}  // namespace

void advance() {
  std::vector<CUstream> waiting;  // for an operation that cannot be carried out yet
  for (bool progress = true; progress;) {
    progress = false;
    waiting.clear();
    for (auto at = operations.begin(); at != operations.end(); ++at) {
      if (std::find(waiting.begin(), waiting.end(), at->stream) != waiting.end()) continue;
      if (!comes(*at)) {
        waiting.push_back(at->stream);
        continue;
      }
      const Operation operation = *at;
      operations.erase(at);
      if (sticky == CUDA_SUCCESS && operation.run) operation.run();
      CUstream stream = operation.stream;
      if (++stream->finished == stream->queued && stream->doomed) forget(stream);
      progress = true;
      break;
    }
  }
  changed.notify_all();
}

CUresult queue(CUstream given, std::function<void()> run, uint32_t gate, std::vector<After> after,
               CUhostFn host, void *data, bool always, std::function<bool()> ready) {
  CUstream stream = real(given);
  if (!streams.count(stream)) return CUDA_ERROR_INVALID_HANDLE;
  if (stream == &legacy_stream) {
    for (CUstream other : streams) {
      if (other->blocking && other != stream) after.push_back({other, other->queued});
    }
  } else if (stream->blocking) {
    after.push_back({&legacy_stream, legacy_stream.queued});
  }
  ++stream->queued;
  static uint64_t last_id = 0;
  operations.push_back({stream, std::move(after), std::move(run), gate, host, data,
                        std::move(ready), always, Operation::kNotCalled, ++last_id});
  advance();
  return CUDA_SUCCESS;
}

namespace {

// `closed`: also what is mapped without access.
bool mapped(uint64_t address, uint64_t size, bool closed = false) {
  while (size > 0) {
    auto next = mappings.upper_bound(address);
    if (next == mappings.begin()) break;
    --next;
    const uint64_t length = next->second.size;
    if (!(next->second.open || closed) || address - next->first >= length) break;
    const uint64_t here = std::min(size, length - (address - next->first));
    address += here;
    size -= here;
  }
  if (size == 0) return true;
  for (CUlibrary library : libraries) {
    for (const auto &[name, global] : library->globals) {
      const auto start = reinterpret_cast<uint64_t>(global.first);
      if (address >= start && address - start <= global.second &&
          size <= global.second - (address - start)) {
        return true;
      }
    }
  }
  return false;
}

}  // namespace

bool touch(uint64_t address, uint64_t size, bool by_kernel) {
  if (mapped(address, size)) return true;
  if (!tamed) {
    sticky = CUDA_ERROR_ILLEGAL_ADDRESS;
  } else if (!by_kernel && !mapped(address, size, true)) {
    // Access is the guest's own affair.
    fprintf(stderr, "fake driver: a copy touches %#" PRIx64 ", which is not mapped\n", address);
    abort();
  }
  return false;
}

}  // namespace fake

using namespace fake;

extern "C" {
extern __attribute__((visibility("default"))) const FakeControls fake_controls;
const FakeControls fake_controls = {
    .open_gate =
        [](uint32_t number) {
          Lock lock(mutex);
          open_gates.insert(number);
          advance();
        },
    .tame =
        [] {
          Lock lock(mutex);
          tamed = true;
          advance();
        },
    .await_gate =
        [](uint32_t number) {
          Lock lock(mutex);
          changed.wait(lock, [&] {
            return std::any_of(operations.begin(), operations.end(),
                               [&](const Operation &o) { return o.gate == number; });
          });
        },
    .fail =
        [](const char *function, CUresult result, unsigned skip) {
          Lock lock(mutex);
          failures[function] = {result, skip};
        },
    .hold =
        [](const char *function, uint32_t gate, unsigned skip) {
          Lock lock(mutex);
          holds[function] = {gate, skip};
        },
    .reset =
        [] {
          Lock lock(mutex);
          failures.clear();
          call_counts.clear();
          sticky = CUDA_SUCCESS;
          clock_ms = -1;
          memory_total = uint64_t{8} << 30;
          for (const Operation &o : operations) {
            if (o.gate != kNoGate) open_gates.insert(o.gate);
          }
          advance();
          open_gates.clear();
        },
    .live =
        [] {
          Lock lock(mutex);
          // What cuMemAlloc gave is the device's, not a session's.
          const auto mapped = std::count_if(mappings.begin(), mappings.end(), [](const auto &each) {
            return memories[each.second.memory].fd >= 0;
          });
          return FakeLive{
              static_cast<unsigned>(streams.size() - 1), static_cast<unsigned>(events.size()),
              static_cast<unsigned>(libraries.size()),   static_cast<unsigned>(mapped),
              static_cast<unsigned>(pinned.size()),      live_graphs()};
        },
    .dirty_releases =
        [] {
          Lock lock(mutex);
          return dirty;
        },
    .calls =
        [](const char *function) {
          Lock lock(mutex);
          return call_counts[function];
        },
    .set_memory =
        [](uint64_t bytes) {
          Lock lock(mutex);
          memory_total = bytes;
        },
    .set_clock =
        [](double milliseconds) {
          Lock lock(mutex);
          clock_ms = milliseconds;
        },
    .set_version = [](int version) { driver_version = version; },
    .set_compute_mode = [](int mode) { compute_mode = mode; },
};
}  // extern "C"
