#include "device/device.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "device/memory_node.h"
#include "device/stream_operations.h"
#include "wire.h"

namespace outboard {

namespace {

// Less address space than this is of no use to a program.
constexpr uint64_t kLeastWindow = uint64_t{4} << 30;
// Where a window is asked for, first of all where guests prefer it. A driver may follow a hint in
// some places only; where it follows none, guests are asked to hold what it chooses itself.
constexpr uint64_t kBases[] = {WIRE_WINDOW_BASE, uint64_t{1} << 45, uint64_t{1} << 44,
                               uint64_t{3} << 45};
// Pinned chunks kept ready, and how many a session may have busy at once, each way.
constexpr unsigned kChunksReady = 8;
constexpr unsigned kChunksMost = 64;

// The GPU of a device that is an instance in MIG mode. The older call of the two knows only GPUs;
// whether it does in all drivers is not said, but the name is said to tell.
std::optional<CUuuid> gpu_of(const Driver &driver, CUdevice device, const CUuuid &uuid,
                             const std::string &name) {
  CUuuid gpu{};
  const bool told = driver.cuDeviceGetUuid && driver.cuDeviceGetUuid(&gpu, device) == CUDA_SUCCESS;
  if (told && memcmp(gpu.bytes, uuid.bytes, sizeof gpu.bytes) != 0) return gpu;
  if (name.find(" MIG ") != name.npos) return gpu;
  return std::nullopt;
}

std::string uuid_text(const CUuuid &uuid) {
  std::string text;
  for (size_t i = 0; i < sizeof uuid.bytes; i++) {
    char byte[4];
    snprintf(byte, sizeof byte, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
             static_cast<unsigned char>(uuid.bytes[i]));
    text += byte;
  }
  return text;
}

// Which of the devices that this process sees is meant.
int ordinal_of(const Driver &driver, const DeviceOptions &options) {
  if (!options.uuid) return options.ordinal;
  int count = 0;
  driver.cuDeviceGetCount(&count);
  const auto is_it = [&](int ordinal) {
    CUdevice device = 0;
    CUuuid uuid{};
    return driver.cuDeviceGet(&device, ordinal) == CUDA_SUCCESS &&
           driver.cuDeviceGetUuid_v2(&uuid, device) == CUDA_SUCCESS &&
           memcmp(uuid.bytes, options.uuid->bytes, sizeof uuid.bytes) == 0;
  };
  if (is_it(options.ordinal)) return options.ordinal;
  for (int ordinal = 0; ordinal < count; ordinal++)
    if (is_it(ordinal)) return ordinal;
  throw Error("OB_DEVICE_GONE",
              "the driver has no device " + uuid_text(*options.uuid) + " any more");
}

// Throws OB_DEVICE_GONE where the driver sees no device at all, and one was there.
Driver open_driver(const DeviceOptions &options) {
  try {
    return Driver::open(options.library);
  } catch (const NoDevice &) {
    if (!options.uuid) throw;
    throw Error("OB_DEVICE_GONE",
                "the driver has no device " + uuid_text(*options.uuid) + " any more");
  }
}

std::string hex(uint64_t value) {
  char text[24];
  snprintf(text, sizeof text, "0x%" PRIx64, value);
  return text;
}

}  // namespace

std::vector<Offered> offered_devices(const std::string &library) {
  const Driver driver = Driver::open(library);
  const auto check = [&](CUresult result, const char *what) {
    if (result == CUDA_SUCCESS) return;
    throw Error("OB_DEVICE_COUNT", library + ": " + what + ": " + driver.describe(result));
  };
  int count = 0;
  check(driver.cuDeviceGetCount(&count), "it cannot count its devices");
  std::vector<Offered> devices(static_cast<size_t>(std::max(count, 0)));
  for (int i = 0; i < count; i++) {
    Offered &offered = devices[static_cast<size_t>(i)];
    CUdevice device = 0;
    check(driver.cuDeviceGet(&device, i), "cuDeviceGet");
    char text[256] = "";
    check(driver.cuDeviceGetName(text, sizeof text, device), "cuDeviceGetName");
    offered.name = text;
    check(driver.cuDeviceGetPCIBusId(text, sizeof text, device), "cuDeviceGetPCIBusId");
    offered.pci_bus_id = text;
    check(driver.cuDeviceGetUuid_v2(&offered.uuid, device), "cuDeviceGetUuid");
    offered.gpu = gpu_of(driver, device, offered.uuid, offered.name);
    check(driver.cuDeviceTotalMem_v2(&offered.memory, device), "cuDeviceTotalMem");
    const std::pair<int *, CUdevice_attribute> attributes[] = {
        {&offered.capability_major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR},
        {&offered.capability_minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR},
        {&offered.multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT},
        {&offered.clock_khz, CU_DEVICE_ATTRIBUTE_CLOCK_RATE},
        {&offered.compute_mode, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE}};
    for (const auto &[value, attribute] : attributes) {
      check(driver.cuDeviceGetAttribute(value, attribute, device), "cuDeviceGetAttribute");
    }
  }
  return devices;
}

std::shared_ptr<Device> Device::open(const DeviceOptions &options) {
  const Driver driver = open_driver(options);
  std::shared_ptr<Device> device(new Device(driver, ordinal_of(driver, options)));
  device->quota_page_ =
      options.quota_page_fd ? QuotaPage::open(*options.quota_page_fd) : QuotaPage::create();
  if (options.turn_page_fd) device->turn_page_ = TurnPage::open(*options.turn_page_fd);
  device->slot_ = options.slot;
  device->reserve(options);
  device->image_bytes_ = options.image_bytes;
  device->modules_.keep_within(options.image_bytes);
  if (!options.module_folder.empty()) {
    device->modules_.use(ModuleFiles::open(options.module_folder, options.module_bytes));
  }
  if (!options.upload_folder.empty()) {
    device->upload_store_ = UploadStore::open(options.upload_folder, options.upload_bytes);
  }
  device->upload_chunks_ = std::make_unique<Staging>(device->driver_, kChunksReady, kChunksMost);
  device->download_chunks_ = std::make_unique<Staging>(device->driver_, kChunksReady, kChunksMost);
  device->detour_holds_ = std::make_unique<DetourHolds>(device->driver_);
  device->hold_words_ = std::make_unique<HoldWords>(device->driver_);
  device->page_porter_ = PagePorter::open(device->driver_);
  if (options.libraries) {
    device->cublas_ = Cublas::open(*options.libraries);
    device->warm_handles_ = options.warm_handles;
    device->warm_cublas();
  }
  return device;
}

std::string Device::libraries_name() const {
  if (!cublas_) return {};
  const auto attribute = [this](CUdevice_attribute which) {
    return std::to_string(facts_.attributes[static_cast<size_t>(which)]);
  };
  return std::to_string(cublas_->version()) + " " + facts_.name + " " +
         attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) + "." +
         attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
}

void Device::warm_cublas() {
  if (!cublas_ || !warm_handles_ || warm_handle_) return;
  int status = kCublasSuccess;
  void *const handle = make_cublas_handle(&status);
  if (!handle) {
    log_line(LogLevel::kWarn, 0,
             "no handle of cuBLAS could be made ready: it says " + std::to_string(status));
    return;
  }
  std::lock_guard lock(warm_mutex_);
  warm_handle_ = handle;
}

void *Device::make_cublas_handle(int *status) {
  if (cublas_handle_bytes_) return cublas_->create(status);
  const auto free = [this] {
    size_t bytes = 0, total = 0;
    driver_.cuMemGetInfo_v2(&bytes, &total);
    return bytes;
  };
  const size_t before = free();
  void *const handle = cublas_->create(status);
  const size_t after = free();
  if (handle && before > after) cublas_handle_bytes_ = before - after;
  return handle;
}

void *Device::take_cublas_handle(int *status) {
  {
    std::lock_guard lock(warm_mutex_);
    *status = kCublasSuccess;
    if (warm_handle_) return std::exchange(warm_handle_, nullptr);
  }
  return make_cublas_handle(status);
}

void Device::check(CUresult result, const char *what) const {
  if (result == CUDA_SUCCESS) return;
  const std::string failed = std::string(what) + " of device " + std::to_string(ordinal_) +
                             " failed: " + driver_.describe(result);
  if (result == CUDA_ERROR_OUT_OF_MEMORY) throw Error("OB_DEVICE_FULL", failed);
  throw Error("OB_DEVICE_OPEN", failed + ". Check that the device works without Outboard.");
}

Device::Device(const Driver &driver, int ordinal) : driver_(driver), ordinal_(ordinal) {
  check(driver_.cuDeviceGet(&device_, ordinal), "cuDeviceGet");
  char bus[64] = "";
  if (driver_.cuDeviceGetPCIBusId(bus, sizeof bus, device_) == CUDA_SUCCESS) prefer_node_of(bus);
  // Threads that wait sleep. Where it is about to be over they look for themselves
  // (Session::wait).
  check(driver_.cuDevicePrimaryCtxSetFlags_v2(device_, CU_CTX_SCHED_BLOCKING_SYNC),
        "cuDevicePrimaryCtxSetFlags");
  retain();
  check(driver_.cuCtxSetCurrent(context_), "cuCtxSetCurrent");
  check(driver_.cuStreamCreateWithPriority(&scrubber_stream_, CU_STREAM_NON_BLOCKING, 0),
        "cuStreamCreateWithPriority");
  granularity_ = find_granularity();
  peers_ = find_peers();
  stream_operations_ = measure_stream_operations(driver_, [this] { bind(); });
  scrubber_ = std::make_unique<Scrubber>(driver_, scrubber_stream_, ordinal_, granularity_);
  for (int limit = 0; limit < CU_LIMIT_MAX; limit++) {
    size_t value = 0;
    const CUresult result = driver_.cuCtxGetLimit(&value, static_cast<CUlimit>(limit));
    limits_.push_back(result == CUDA_SUCCESS ? value : kNoLimit);
  }
  describe();
}

void Device::retain() {
  const CUresult retained = driver_.cuDevicePrimaryCtxRetain(&context_, device_);
  if (retained == CUDA_SUCCESS) return;
  int mode = CU_COMPUTEMODE_DEFAULT;
  driver_.cuDeviceGetAttribute(&mode, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, device_);
  const std::string device = "device " + std::to_string(ordinal_);
  if (mode == CU_COMPUTEMODE_PROHIBITED)
    throw Error("OB_DEVICE_PROHIBITED", device + " is in prohibited mode: no process may use it");
  if (retained == CUDA_ERROR_DEVICE_UNAVAILABLE && mode == CU_COMPUTEMODE_EXCLUSIVE_PROCESS)
    throw Error("OB_DEVICE_HELD",
                device + " is in exclusive-process mode, and another process has it");
  check(retained, "cuDevicePrimaryCtxRetain");
}

Device::~Device() {
  bind();
  if (warm_handle_) cublas_->destroy(warm_handle_);
  upload_chunks_.reset();
  download_chunks_.reset();
  detour_holds_.reset();
  page_porter_.reset();
  hold_words_.reset();
  if (scrubber_) scrubber_->release();
  if (scrubber_stream_) driver_.cuStreamDestroy_v2(scrubber_stream_);
  if (window_size_) driver_.cuMemAddressFree(window_base_, window_size_);
  driver_.cuDevicePrimaryCtxRelease_v2(device_);
}

CUresult Device::reserve_at(uint64_t base, uint64_t size) {
  CUdeviceptr placed = 0;
  const CUresult result = driver_.cuMemAddressReserve(&placed, size, granularity_, base, 0);
  if (result != CUDA_SUCCESS || placed == base) return result;
  driver_.cuMemAddressFree(placed, size);
  return CUDA_ERROR_NOT_SUPPORTED;
}

bool Device::reserve_somewhere(uint64_t size) {
  CUdeviceptr base = 0;
  for (const uint64_t wanted : kBases) {
    base = wanted;
    if (reserve_at(base, size) == CUDA_SUCCESS) break;
    base = 0;
  }
  if (!base && driver_.cuMemAddressReserve(&base, size, granularity_, 0, 0) != CUDA_SUCCESS)
    return false;
  window_base_ = base;
  window_size_ = size;
  return true;
}

void Device::reserve(const DeviceOptions &options) {
  uint64_t size = options.window_size.value_or(WIRE_WINDOW_SIZE);
  if (options.window_base) {
    if (reserve_at(*options.window_base, size) != CUDA_SUCCESS)
      throw Error("OB_WINDOW",
                  "the driver cannot reserve a window at " + hex(*options.window_base));
    window_base_ = *options.window_base;
    window_size_ = size;
    return;
  }
  bool reserved = reserve_somewhere(size);
  while (!reserved && !options.window_size && size / 2 >= kLeastWindow)
    reserved = reserve_somewhere(size /= 2);
  if (!reserved)
    throw Error("OB_DEVICE_OPEN", "the driver reserves no window of " + hex(size) + " bytes");
}

void Device::move_window(uint64_t base, uint64_t size) {
  if (!claim()) throw Error("OB_INTERNAL", "the window cannot move while a session uses it");
  struct Yield {
    Device &device;
    ~Yield() { device.yield(); }
  } yield_at_end{*this};
  bind();
  CUresult result = reserve_at(base, size);
  if (result == CUDA_SUCCESS) {
    driver_.cuMemAddressFree(window_base_, window_size_);
  } else if (base < window_base_ + window_size_ && window_base_ < base + size) {
    // Old and new overlap: the old one has to go first.
    driver_.cuMemAddressFree(window_base_, window_size_);
    result = reserve_at(base, size);
    if (result != CUDA_SUCCESS && reserve_at(window_base_, window_size_) != CUDA_SUCCESS &&
        !reserve_somewhere(window_size_))
      check(result, "reserving a window again");
  }
  if (result != CUDA_SUCCESS)
    throw Error("OB_WINDOW", "the driver cannot reserve " + hex(size) + " bytes at " + hex(base));
  window_base_ = base;
  window_size_ = size;
}

uint64_t Device::resident_threads() const {
  const auto fact = [this](CUdevice_attribute attribute) {
    return static_cast<uint64_t>(facts_.attributes[static_cast<size_t>(attribute)]);
  };
  return fact(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT) *
         fact(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
}

CUresult Device::restore_limits(bool stacks) const {
  CUresult first = CUDA_SUCCESS;
  // Stacks have the size of the limit once that is set; it may have to be another one.
  const uint64_t stack = limits_[CU_LIMIT_STACK_SIZE];
  if (stacks) keep_first(first, driver_.cuCtxSetLimit(CU_LIMIT_STACK_SIZE, stack / 2));
  for (int limit = 0; limit < CU_LIMIT_MAX; limit++) {
    size_t value = 0;
    if (driver_.cuCtxGetLimit(&value, static_cast<CUlimit>(limit)) != CUDA_SUCCESS) continue;
    const uint64_t before = limits_[static_cast<size_t>(limit)];
    // What cannot be set once kernels have used it is set in any case: where the driver refuses,
    // the next session could not set it either.
    const bool fixed_by_use =
        limit == CU_LIMIT_MALLOC_HEAP_SIZE || limit == CU_LIMIT_PRINTF_FIFO_SIZE;
    if (value == before && !fixed_by_use) continue;
    keep_first(first, driver_.cuCtxSetLimit(static_cast<CUlimit>(limit), before));
  }
  return first;
}

// Of all kinds of memory that sessions get: it may differ for what is shared.
uint64_t Device::find_granularity() const {
  uint64_t most = WIRE_GRANULE_LEAST;
  for (const CUmemAllocationHandleType type :
       {CU_MEM_HANDLE_TYPE_NONE, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR}) {
    CUmemAllocationProp prop{};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, {ordinal_}};
    prop.requestedHandleTypes = type;
    size_t granule = 0;
    const CUresult result =
        driver_.cuMemGetAllocationGranularity(&granule, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    // Memory that cannot be shared on this machine is refused to who wants it.
    if (type == CU_MEM_HANDLE_TYPE_NONE) check(result, "cuMemGetAllocationGranularity");
    if (result == CUDA_SUCCESS) most = std::max<uint64_t>(most, granule);
  }
  if (wire_is_granule(most)) return most;
  throw Error("OB_DEVICE_OPEN", "device " + std::to_string(ordinal_) +
                                    " gives memory in pieces of " + std::to_string(most) +
                                    " bytes, which Outboard cannot serve.");
}

std::vector<PeerDevice> Device::find_peers() const {
  std::vector<PeerDevice> all;
  int count = 0;
  if (!driver_.cuDeviceCanAccessPeer || !driver_.cuDeviceGetP2PAttribute ||
      driver_.cuDeviceGetCount(&count) != CUDA_SUCCESS) {
    return all;
  }
  for (int i = 0; i < count; i++) {
    CUdevice other = 0;
    int can = 0;
    if (i == ordinal_ || driver_.cuDeviceGet(&other, i) != CUDA_SUCCESS ||
        driver_.cuDeviceCanAccessPeer(&can, device_, other) != CUDA_SUCCESS || !can) {
      continue;
    }
    PeerDevice peer{};
    if (driver_.cuDeviceGetUuid_v2(&peer.uuid, other) != CUDA_SUCCESS) continue;
    const auto ask = [&](CUdevice_P2PAttribute what) {
      int value = 0;
      driver_.cuDeviceGetP2PAttribute(&value, what, device_, other);
      return value;
    };
    peer.performance_rank = ask(CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK);
    peer.native_atomics = ask(CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED) != 0;
    for (int op = 0; driver_.cuDeviceGetP2PAtomicCapabilities && op < CU_ATOMIC_OPERATION_MAX;
         op++) {
      const auto operation = static_cast<CUatomicOperation>(op);
      unsigned capabilities = 0;
      driver_.cuDeviceGetP2PAtomicCapabilities(&capabilities, &operation, 1, device_, other);
      peer.atomics.push_back(capabilities);
    }
    all.push_back(std::move(peer));
  }
  return all;
}

// What stays as it is while the device is open: some 140 questions, which no session has to wait
// for.
void Device::describe() {
  DeviceSnapshot &s = facts_;
  char text[256] = "";
  check(driver_.cuDeviceGetName(text, sizeof text, device_), "cuDeviceGetName");
  s.name = text;
  check(driver_.cuDeviceGetUuid_v2(&s.uuid, device_), "cuDeviceGetUuid");
  s.gpu = gpu_of(driver_, device_, s.uuid, s.name);
  size_t total = 0;
  check(driver_.cuDeviceTotalMem_v2(&total, device_), "cuDeviceTotalMem");
  s.total_memory = total;
  s.attributes.resize(CU_DEVICE_ATTRIBUTE_MAX);
  for (int i = 1; i < CU_DEVICE_ATTRIBUTE_MAX; i++)
    ask_attribute(static_cast<CUdevice_attribute>(i));
  check(driver_.cuCtxGetStreamPriorityRange(&s.least_priority, &s.greatest_priority),
        "cuCtxGetStreamPriorityRange");
  if (driver_.cuDeviceGetPCIBusId(text, sizeof text, device_) == CUDA_SUCCESS) s.pci_bus_id = text;
  driver_.cuDriverGetVersion(&s.driver_version);
  s.limits = limits_;
  s.peers = peers_;
  s.stream_operations = stream_operations_;
  s.granularity = granularity_;
}

Capability Device::capability() const {
  return {facts_.attributes[size_t{CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR}],
          facts_.attributes[size_t{CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR}]};
}

void Device::ask_attribute(CUdevice_attribute attribute) {
  int value = 0;
  if (driver_.cuDeviceGetAttribute(&value, attribute, device_) == CUDA_SUCCESS)
    facts_.attributes[static_cast<size_t>(attribute)] = value;
}

DeviceSnapshot Device::snapshot() {
  bind();
  // Somebody may set it while we are here.
  ask_attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_MODE);
  DeviceSnapshot s = facts_;
  size_t free = 0, total = 0;
  const CUresult result = driver_.cuMemGetInfo_v2(&free, &total);
  if (result != CUDA_SUCCESS)
    throw Error("OB_GPU_LOST",
                "device " + std::to_string(ordinal_) +
                    " does not say how much memory is free any more: " + driver_.describe(result));
  s.free_memory = free;
  s.window_base = window_base_;
  s.window_size = window_size_;
  s.cublas = cublas_ ? cublas_->version() : 0;
  return s;
}

}  // namespace outboard
