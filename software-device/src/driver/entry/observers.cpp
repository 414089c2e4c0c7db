// Entry points: what programs observe of the driver besides its work: its log, notifications,
// profiling, core dumps.
#include <cstdio>
#include <deque>
#include <map>
#include <mutex>
#include <string>

#include "abi_descriptor.h"
#include "entry/entry.h"

using namespace softdev::driver;

namespace {

// The lines that cuLogs* give out: what the driver found wrong, the last of them.
struct Logs {
  static constexpr size_t kMost = 100;
  std::mutex mutex;
  std::deque<std::string> lines;
  unsigned first = 0;  // number of the first one that is kept
  uint64_t next_callback = 1;
  struct Callback {
    CUlogsCallback function;
    void *data;
  };
  std::map<uint64_t, Callback> callbacks;
};

Logs &logs() {
  static Logs *all = new Logs;  // never destroyed, as all of the driver
  return *all;
}

void keep_line(Level level, const char *text) {
  if (level > Level::kWarn) return;
  std::map<uint64_t, Logs::Callback> callbacks;
  std::string line = std::string(level == Level::kError ? "[ERROR] " : "[WARN] ") + text;
  {
    std::lock_guard guard(logs().mutex);
    logs().lines.push_back(line);
    if (logs().lines.size() > Logs::kMost) {
      logs().lines.pop_front();
      logs().first++;
    }
    callbacks = logs().callbacks;
  }
  for (auto &[number, callback] : callbacks)
    callback.function(callback.data,
                      level == Level::kError ? CU_LOG_LEVEL_ERROR : CU_LOG_LEVEL_WARNING,
                      line.data(), line.size());
}

// What comes behind the iterator, or everything; the iterator moves to the end.
std::string lines_from(CUlogIterator *iterator) {
  std::lock_guard guard(logs().mutex);
  unsigned from = iterator ? *iterator : logs().first;
  std::string text;
  for (size_t i = 0; i < logs().lines.size(); i++)
    if (logs().first + i >= from) text += logs().lines[i] + "\n";
  if (iterator) *iterator = logs().first + static_cast<unsigned>(logs().lines.size());
  return text;
}

}  // namespace

extern "C" {

CUresult cuLogsRegisterCallback(CUlogsCallback function, void *data, CUlogsCallbackHandle *handle) {
  if (!function) return CUDA_ERROR_INVALID_VALUE;
  return guarded([&] {
    observe_log(keep_line);
    std::lock_guard guard(logs().mutex);
    uint64_t number = logs().next_callback++;
    logs().callbacks[number] = {function, data};
    if (handle) *handle = reinterpret_cast<CUlogsCallbackHandle>(number);
    return CUDA_SUCCESS;
  });
}

CUresult cuLogsUnregisterCallback(CUlogsCallbackHandle handle) {
  std::lock_guard guard(logs().mutex);
  return logs().callbacks.erase(reinterpret_cast<uint64_t>(handle)) ? CUDA_SUCCESS
                                                                    : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuLogsCurrent(CUlogIterator *iterator, unsigned int flags) {
  if (!iterator || flags) return CUDA_ERROR_INVALID_VALUE;
  observe_log(keep_line);
  std::lock_guard guard(logs().mutex);
  *iterator = logs().first + static_cast<unsigned>(logs().lines.size());
  return CUDA_SUCCESS;
}

CUresult cuLogsDumpToFile(CUlogIterator *iterator, const char *path, unsigned int flags) {
  if (!path || flags) return CUDA_ERROR_INVALID_VALUE;
  return guarded([&] {
    std::unique_ptr<FILE, int (*)(FILE *)> file(stream_above(path, "w"), fclose);
    if (!file) return CUDA_ERROR_INVALID_VALUE;
    std::string text = lines_from(iterator);
    return fwrite(text.data(), 1, text.size(), file.get()) == text.size()
               ? CUDA_SUCCESS
               : CUDA_ERROR_OPERATING_SYSTEM;
  });
}

CUresult cuLogsDumpToMemory(CUlogIterator *iterator, char *buffer, size_t *size,
                            unsigned int flags) {
  if (!buffer || !size || flags) return CUDA_ERROR_INVALID_VALUE;
  return guarded([&] {
    CUlogIterator moved = iterator ? *iterator : 0;
    std::string text = lines_from(iterator ? &moved : nullptr);
    if (text.size() >= *size) return CUDA_ERROR_INVALID_VALUE;
    memcpy(buffer, text.c_str(), text.size() + 1);
    *size = text.size();
    if (iterator) *iterator = moved;
    return CUDA_SUCCESS;
  });
}

// ---------------------------------------------------------------------------------------------
// A device of one process only is never over its budget, so nobody is ever notified.

namespace {
std::mutex notified_mutex;
std::map<uint64_t, CUdevice> *notified = new std::map<uint64_t, CUdevice>;
uint64_t next_notified = 1;
}  // namespace

CUresult cuDeviceRegisterAsyncNotification(CUdevice device, CUasyncCallback function, void *,
                                           CUasyncCallbackHandle *handle) {
  if (CUresult bad = enter()) return bad;
  if (!driver()->device(device)) return CUDA_ERROR_INVALID_DEVICE;
  if (!function || !handle) return CUDA_ERROR_INVALID_VALUE;
  return guarded([&] {
    std::lock_guard guard(notified_mutex);
    uint64_t number = next_notified++;
    (*notified)[number] = device;
    *handle = reinterpret_cast<CUasyncCallbackHandle>(number);
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceUnregisterAsyncNotification(CUdevice device, CUasyncCallbackHandle handle) {
  if (CUresult bad = enter()) return bad;
  if (!driver()->device(device)) return CUDA_ERROR_INVALID_DEVICE;
  std::lock_guard guard(notified_mutex);
  auto found = notified->find(reinterpret_cast<uint64_t>(handle));
  if (found == notified->end() || found->second != device) return CUDA_ERROR_INVALID_VALUE;
  notified->erase(found);
  return CUDA_SUCCESS;
}

}  // extern "C"
