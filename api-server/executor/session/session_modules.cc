// Modules of a session: what they take, what of them can be reached, what the next session may
// expect.
#include <algorithm>

#include "base/log.h"
#include "session/session.h"

namespace outboard {

CUresult Session::load_module(LoadLog::Load noted, Compiling *compiling,
                              std::unique_ptr<Module> *module) {
  std::lock_guard lock(load_mutex_);
  // Free memory is the whole device's: others may take some meanwhile, but hardly twice.
  uint64_t least = UINT64_MAX;
  for (int attempt = 0; attempt < 3; attempt++) {
    const uint64_t before = taken_elsewhere();
    const CUresult result = Module::load(driver(), noted.image, compiling, module);
    if (result != CUDA_SUCCESS) return result;
    const uint64_t after = taken_elsewhere();
    least = std::min(least, after > before ? after - before : 0);
    const uint64_t sum = counters_->module_memory.load() + least;
    if (sum <= module_limit_) {
      (*module)->device_memory = least;
      outboard::count(counters_->module_memory, least);
      ++module_count_;
      noted.library = (*module)->library;
      (*module)->load_number = load_log_.loaded(std::move(noted));
      return CUDA_SUCCESS;
    }
    driver().cuLibraryUnload((*module)->library);
    module->reset();
  }
  log_line(LogLevel::kWarn, id_,
           "a module is refused: it would take " + std::to_string(least >> 20) +
               " MiB of the device's memory for code and variables, beyond the " +
               std::to_string(module_limit_ >> 20) +
               " MiB that the modules of a session may take (--module-memory)");
  return CUDA_ERROR_OUT_OF_MEMORY;
}

int Session::take_cublas_handle(CublasHandle *handle, bool may_wait) {
  std::unique_lock lock(handles_mutex_);
  // What a handle had that is ending is there for this one.
  if (may_wait) handle_ended_.wait(lock, [this] { return handles_ending_ == 0; });
  // The slot has had memory for one since before the session, where one was made ready.
  const bool is_slots = device_->warms_handles() && !has_slots_handle_;
  const auto bytes = [&] { return is_slots ? 0 : device_->cublas_handle_bytes(); };
  const auto has_room = [&] { return counters_->module_memory.load() + bytes() <= module_limit_; };
  int status = kCublasSuccess;
  void *object = has_room() ? device_->take_cublas_handle(&status) : nullptr;
  if (!object && status != kCublasSuccess) return status;
  // What the first one of all takes is known when it is there.
  if (object && !has_room()) libraries_.cublas()->destroy(std::exchange(object, nullptr));
  if (!object) {
    log_line(
        LogLevel::kWarn, id_,
        "a handle of cuBLAS is refused: its " + std::to_string(bytes() >> 20) +
            " MiB are beyond the " + std::to_string(module_limit_ >> 20) +
            " MiB that the modules and libraries of a session may take (--module-memory). With "
            "--libraries=guest a program needs no room for one");
    return kCublasAllocFailed;
  }
  has_slots_handle_ |= is_slots;
  handle->object = object;
  handle->is_slots = is_slots;
  handle->bytes = bytes();
  outboard::count(counters_->module_memory, handle->bytes);
  return status;
}

void Session::give_cublas_handle(std::shared_ptr<CublasHandle> handle) {
  if (!handle->object) return;
  {
    std::lock_guard lock(handles_mutex_);
    ++handles_ending_;
  }
  // It waits for the device.
  run([this, handle] {
    libraries_.cublas()->destroy(handle->object);
    outboard::count(counters_->module_memory, uint64_t{0} - handle->bytes);
    std::lock_guard lock(handles_mutex_);
    if (handle->is_slots) has_slots_handle_ = false;
    if (--handles_ending_ == 0) handle_ended_.notify_all();
  });
}

// What of the device's memory is in use, less what this session has mapped.
uint64_t Session::taken_elsewhere() const {
  size_t free = 0, total = 0;
  const uint64_t mapped = memory_.taken();
  if (driver().cuMemGetInfo_v2(&free, &total) != CUDA_SUCCESS) return 0;
  const uint64_t used = total - free;
  return used > mapped ? used - mapped : 0;
}

void Session::note_used(const Module &module) {
  if (used_.note(module) && on_used_) on_used_({module.hash, module.image->size()});
}

void Session::claimed(const Module &module, uint64_t handle) {
  load_log_.taken(module.load_number, handle);
  if (!image_room_.claim(module.image->size())) {
    end(EndReason::kDevice, "a module that was expected has no room for its image");
  }
}

void Session::unloading(const Module &module) { load_log_.unloading(module.load_number); }

void Session::unloaded(const Module &module) {
  --module_count_;
  if (!image_room_.give_back(module.image->size(), false)) {
    end(EndReason::kDevice, "a module gives back more room for images than there was taken");
  }
  outboard::count(counters_->module_memory, uint64_t{0} - module.device_memory);
}

void Session::drop_functions_of(const Module *module) {
  graphs_.unloaded(module);
  objects_.drop_functions_of(module);
}

// Whether it cannot be set to what it is.
static bool is_fixed(const Driver &driver, CUlimit limit) {
  size_t now = 0;
  return driver.cuCtxGetLimit(&now, limit) == CUDA_SUCCESS &&
         driver.cuCtxSetLimit(limit, now) != CUDA_SUCCESS;
}

bool Session::heap_is_fixed() {
  std::lock_guard lock(limits_mutex_);
  return is_fixed(driver(), CU_LIMIT_MALLOC_HEAP_SIZE);
}

bool Session::printing_is_fixed() {
  std::lock_guard lock(limits_mutex_);
  return has_printed() || is_fixed(driver(), CU_LIMIT_PRINTF_FIFO_SIZE);
}

void Session::make_reachable(Module *module, const Variable &variable) {
  if (memory_.add_global(variable.address, variable.size)) {
    module->globals.push_back(variable.address);
  }
}

void Session::adopt_variables() {
  loaded_.adopt([&](Module &module) {
    for (const Variable &variable : module.variables) make_reachable(&module, variable);
    module.variables.clear();
  });
}

}  // namespace outboard
