#include "core/driver.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <string>

#include "abi_process.h"
#include "abi_tables.h"
#include "abi_version.h"
#include "core/instances.h"
#include "core/visible.h"
#include "streams/disorder.h"
#include "streams/helpers.h"
#include "trace/trace.h"

namespace softdev::driver {
namespace {

std::atomic<Driver *> the_driver{nullptr};
std::atomic<bool> forked{false};
thread_local bool in_host_function = false;

void in_child() {
  if (the_driver.load(std::memory_order_relaxed)) forked.store(true, std::memory_order_relaxed);
}

// Of a process that has the driver. fork() says so; clone() does not.
bool is_child() {
  return forked.load(std::memory_order_relaxed) ||
         (abi_process_is_child() && the_driver.load(std::memory_order_relaxed));
}

std::string path_of_loss;  // the trait `lost-gpu`; set before anybody else may ask

CUresult make(std::unique_ptr<Driver> *made) {
  Settings settings;
  std::string problem;
  if (!read_settings(&settings, &problem)) {
    log(Level::kError, "%s", problem.c_str());
    return CUDA_ERROR_INVALID_VALUE;
  }
  auto fresh = std::make_unique<Driver>(std::move(settings));
  set_log_level(fresh->settings.log);
  disorder::begin(fresh->settings.disorder);
  path_of_loss = fresh->settings.traits.lost;
  if (devices_are_lost()) return CUDA_ERROR_NO_DEVICE;
  calls_are_refused.store(driver_version() < ABI_DRIVER_VERSION || !path_of_loss.empty(),
                          std::memory_order_relaxed);
  if (!fresh->settings.trace.empty() && !trace::on() &&
      !trace::open(fresh->settings.trace.c_str(), &problem)) {
    log(Level::kError, "SOFTWARE_DEVICE_TRACE: %s", problem.c_str());
    return CUDA_ERROR_INVALID_VALUE;
  }
  const std::vector<DeviceSettings> &gpus = fresh->settings.devices;
  const char *const wanted = secure_getenv("CUDA_VISIBLE_DEVICES");
  const std::vector<Visible> visible = visible_devices(wanted, gpus);
  if (visible.empty()) {
    log(Level::kInfo, gpus.empty() ? "SOFTWARE_DEVICE_GPUS is 0"
                      : wanted     ? "CUDA_VISIBLE_DEVICES leaves no device"
                                   : "no GPU in MIG mode has an instance");
    return CUDA_ERROR_NO_DEVICE;
  }
  std::vector<DeviceSettings> settings_of;
  std::vector<uint64_t> sizes;
  for (const auto &[gpu, instance] : visible) {
    const DeviceSettings &whole = gpus[static_cast<size_t>(gpu)];
    settings_of.push_back(
        instance < 0 ? whole : instance_of(whole, whole.instances[static_cast<size_t>(instance)]));
    sizes.push_back(settings_of.back().memory);
  }
  if (!fresh->memory.create(sizes, fresh->settings.traits.residue,
                            fresh->settings.traits.granularity,
                            fresh->settings.exact_checks ? Checks::kExact : Checks::kPages)) {
    log(Level::kError, "not enough address space for %zu devices (see ulimit -v)", visible.size());
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  for (size_t i = 0; i < visible.size(); i++) {
    auto device = std::make_unique<Device>(static_cast<int>(i), visible[i], settings_of[i]);
    if (const std::string &files = fresh->settings.traits.time_slices; !files.empty()) {
      device->time_slices = TimeSlices::open(device->file(files));
      if (!device->time_slices) return CUDA_ERROR_INVALID_VALUE;
    }
    device->primary = std::make_shared<Context>(device.get(), true, 0u);
    fresh->handles.add(device->primary);
    device->add_context(device->primary);
    fresh->devices.push_back(std::move(device));
  }
  *made = std::move(fresh);
  return CUDA_SUCCESS;
}

}  // namespace

std::atomic<bool> calls_are_refused{false};

bool devices_are_lost() {
  static std::atomic<bool> said{false};
  if (path_of_loss.empty() || access(path_of_loss.c_str(), F_OK) != 0) return false;
  if (!said.exchange(true)) log(Level::kError, "%s: the devices are lost", path_of_loss.c_str());
  return true;
}

int driver_version() {
  static const int version = [] {
    Traits traits;
    std::string problem;
    const char *names = secure_getenv("SOFTWARE_DEVICE_TRAITS");
    // What is wrong with them is for cuInit to say.
    if (!names || !read_traits(names, &traits, &problem)) return ABI_DRIVER_VERSION;
    return traits.driver ? traits.driver : ABI_DRIVER_VERSION;
  }();
  return version;
}

Driver *driver() {
  if (is_child()) return nullptr;
  return the_driver.load(std::memory_order_acquire);
}

CUresult initialise() {
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  if (is_child())
    return refuse(CUDA_ERROR_NOT_INITIALIZED, "this process was forked from one that uses CUDA");
  pthread_mutex_lock(&mutex);
  CUresult result = CUDA_SUCCESS;
  if (!the_driver.load(std::memory_order_relaxed)) {
    std::unique_ptr<Driver> made;
    result = make(&made);
    if (result == CUDA_SUCCESS) {
      pthread_atfork(nullptr, nullptr, in_child);
      abi_process_begin();
      the_driver.store(made.release(), std::memory_order_release);
    }
  }
  pthread_mutex_unlock(&mutex);
  return result;
}

Driver::Driver(Settings as_read)
    : settings(std::move(as_read)),
      callers(settings.traits.serial_host_functions ? 1 : Helpers::kMostThreads) {}

Engine &Driver::engine() {
  std::call_once(engine_once_, [this] {
    SignalsBlocked blocked;
    engine_ = Engine::create({.workers = settings.workers});
    log(Level::kInfo, "%u workers execute kernels", engine_->workers());
  });
  return *engine_;
}

Device *Driver::device(CUdevice ordinal) {
  if (ordinal < 0 || static_cast<size_t>(ordinal) >= devices.size()) return nullptr;
  return devices[static_cast<size_t>(ordinal)].get();
}

CUresult enter() {
  if (!driver()) return CUDA_ERROR_NOT_INITIALIZED;
  if (in_host_function)
    return refuse(CUDA_ERROR_NOT_PERMITTED, "a host function must not make CUDA calls");
  return CUDA_SUCCESS;
}

CUresult enter(std::shared_ptr<Context> *context) {
  if (CUresult bad = enter()) return bad;
  uint64_t top = ContextStack::top();
  if (!top) return refuse(CUDA_ERROR_INVALID_CONTEXT, "no context is current");
  std::shared_ptr<Context> found = driver()->handles.find<Context>(top);
  if (!found || !found->active())
    return refuse(CUDA_ERROR_CONTEXT_IS_DESTROYED, "the current context is not alive");
  if (CUresult sticky = found->error()) return sticky;
  *context = std::move(found);
  return CUDA_SUCCESS;
}

CUresult enter_anywhere(std::shared_ptr<Context> *context) {
  if (CUresult bad = enter()) return bad;
  *context = driver()->handles.find<Context>(ContextStack::top());
  if (*context && !(*context)->active()) *context = nullptr;
  return *context ? (*context)->error() : CUDA_SUCCESS;
}

HostFunctionScope::HostFunctionScope() { in_host_function = true; }
HostFunctionScope::~HostFunctionScope() { in_host_function = false; }

// ---------------------------------------------------------------------------------------------
// What the private tables ask for.

namespace {

int device_count() {
  Driver *all = driver();
  return all ? static_cast<int>(all->devices.size()) : 0;
}

void device_identity(int ordinal, abi_device_identity *identity) {
  const Device &device = *driver()->devices[static_cast<size_t>(ordinal)];
  *identity = {device.of_gpu(), 0, device.pci_bus(), 0};
}

CUresult primary_context(CUcontext *context, CUdevice ordinal) {
  if (!driver()) return CUDA_ERROR_NOT_INITIALIZED;
  Device *device = driver()->device(ordinal);
  if (!device) return CUDA_ERROR_INVALID_DEVICE;
  *context = reinterpret_cast<CUcontext>(device->primary->handle());
  return CUDA_SUCCESS;
}

CUcontext current_context() { return reinterpret_cast<CUcontext>(ContextStack::top()); }

void table_log(abi_log_level level, const char *line) {
  log(static_cast<Level>(level), "%s", line);
}

}  // namespace
}  // namespace softdev::driver

extern "C" {
extern const struct abi_host abi_host;
const struct abi_host abi_host = {
    softdev::driver::driver_version,  softdev::driver::device_count,
    softdev::driver::device_identity, softdev::driver::primary_context,
    softdev::driver::current_context, softdev::driver::table_log,
};
}
