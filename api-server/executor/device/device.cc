#include "device/device.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>

#include "base/error.h"
#include "wire.h"

namespace outboard {

namespace {

// Less address space than this is of no use to a program.
constexpr uint64_t kLeastWindow = uint64_t{4} << 30;
// Pinned chunks kept ready, and how many a session may have busy at once, each way.
constexpr unsigned kChunksReady = 8;
constexpr unsigned kChunksMost = 64;

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
    check(driver.cuDeviceTotalMem_v2(&offered.memory, device), "cuDeviceTotalMem");
    const std::pair<int *, CUdevice_attribute> attributes[] = {
        {&offered.capability_major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR},
        {&offered.capability_minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR},
        {&offered.multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT},
        {&offered.clock_khz, CU_DEVICE_ATTRIBUTE_CLOCK_RATE}};
    for (const auto &[value, attribute] : attributes) {
      check(driver.cuDeviceGetAttribute(value, attribute, device), "cuDeviceGetAttribute");
    }
  }
  return devices;
}

std::shared_ptr<Device> Device::open(const DeviceOptions &options) {
  std::shared_ptr<Device> device(new Device(Driver::open(options.library), options.ordinal));
  device->quota_page_ =
      options.quota_page_fd ? QuotaPage::open(*options.quota_page_fd) : QuotaPage::create();
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
  return device;
}

void Device::check(CUresult result, const char *what) const {
  if (result == CUDA_SUCCESS) return;
  throw Error("OB_DEVICE_OPEN", std::string(what) + " of device " + std::to_string(ordinal_) +
                                    " failed: " + driver_.describe(result) +
                                    ". Check that the device works without Outboard.");
}

Device::Device(const Driver &driver, int ordinal) : driver_(driver), ordinal_(ordinal) {
  check(driver_.cuDeviceGet(&device_, ordinal), "cuDeviceGet");
  check(driver_.cuDevicePrimaryCtxRetain(&context_, device_), "cuDevicePrimaryCtxRetain");
  check(driver_.cuCtxSetCurrent(context_), "cuCtxSetCurrent");
  check(driver_.cuStreamCreateWithPriority(&scrubber_stream_, CU_STREAM_NON_BLOCKING, 0),
        "cuStreamCreateWithPriority");
  peers_ = find_peers();
  scrubber_ = std::make_unique<Scrubber>(driver_, scrubber_stream_);
  for (int limit = 0; limit < CU_LIMIT_MAX; limit++) {
    size_t value = 0;
    const CUresult result = driver_.cuCtxGetLimit(&value, static_cast<CUlimit>(limit));
    limits_.push_back(result == CUDA_SUCCESS ? value : kNoLimit);
  }
}

Device::~Device() {
  bind();
  upload_chunks_.reset();
  download_chunks_.reset();
  if (scrubber_) scrubber_->release();
  if (scrubber_stream_) driver_.cuStreamDestroy_v2(scrubber_stream_);
  if (window_size_) driver_.cuMemAddressFree(window_base_, window_size_);
  driver_.cuDevicePrimaryCtxRelease_v2(device_);
}

void Device::reserve(const DeviceOptions &options) {
  const uint64_t wanted = options.window_base.value_or(WIRE_WINDOW_BASE);
  uint64_t size = options.window_size.value_or(WIRE_WINDOW_SIZE);
  CUdeviceptr base = 0;
  CUresult result = driver_.cuMemAddressReserve(&base, size, WIRE_GRANULE, wanted, 0);
  while (result != CUDA_SUCCESS && !options.window_size && size / 2 >= kLeastWindow) {
    size /= 2;
    result = driver_.cuMemAddressReserve(&base, size, WIRE_GRANULE, wanted, 0);
  }
  if (result != CUDA_SUCCESS) {
    throw Error("OB_DEVICE_OPEN", "the driver reserves no window of " + hex(size) +
                                      " bytes: " + driver_.describe(result));
  }
  if (options.window_base && base != wanted) {
    driver_.cuMemAddressFree(base, size);
    throw Error("OB_WINDOW", "the driver cannot reserve a window at " + hex(wanted));
  }
  window_base_ = base;
  window_size_ = size;
}

void Device::move_window(uint64_t base, uint64_t size) {
  if (!claim()) throw Error("OB_INTERNAL", "the window cannot move while a session uses it");
  struct Yield {
    Device &device;
    ~Yield() { device.yield(); }
  } yield_at_end{*this};
  bind();
  CUdeviceptr placed = 0;
  CUresult result = driver_.cuMemAddressReserve(&placed, size, WIRE_GRANULE, base, 0);
  if (result == CUDA_SUCCESS && placed != base) {
    driver_.cuMemAddressFree(placed, size);
    result = CUDA_ERROR_NOT_SUPPORTED;
  }
  if (result != CUDA_SUCCESS && base < window_base_ + window_size_ && window_base_ < base + size) {
    // Old and new overlap: the old one has to go first.
    driver_.cuMemAddressFree(window_base_, window_size_);
    result = driver_.cuMemAddressReserve(&placed, size, WIRE_GRANULE, base, 0);
    if (result == CUDA_SUCCESS && placed == base) {
      window_base_ = base;
      window_size_ = size;
      return;
    }
    if (result == CUDA_SUCCESS) driver_.cuMemAddressFree(placed, size);
    CUdeviceptr back = 0;
    check(driver_.cuMemAddressReserve(&back, window_size_, WIRE_GRANULE, window_base_, 0),
          "reserving the old window again");
    window_base_ = back;
    result = CUDA_ERROR_NOT_SUPPORTED;
  }
  if (result != CUDA_SUCCESS) {
    throw Error("OB_WINDOW", "the driver cannot reserve " + hex(size) + " bytes at " + hex(base));
  }
  driver_.cuMemAddressFree(window_base_, window_size_);
  window_base_ = base;
  window_size_ = size;
}

uint64_t Device::resident_threads() const {
  int processors = 0, threads = 0;
  driver_.cuDeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device_);
  driver_.cuDeviceGetAttribute(&threads, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR,
                               device_);
  return static_cast<uint64_t>(processors) * static_cast<uint64_t>(threads);
}

CUresult Device::restore_limits() const {
  CUresult first = CUDA_SUCCESS;
  for (int limit = 0; limit < CU_LIMIT_MAX; limit++) {
    size_t value = 0;
    if (driver_.cuCtxGetLimit(&value, static_cast<CUlimit>(limit)) != CUDA_SUCCESS) continue;
    const uint64_t before = limits_[static_cast<size_t>(limit)];
    // What cannot be set once kernels have used it is set in any case: where the driver refuses,
    // the next session could not set it either.
    const bool fixed_by_use =
        limit == CU_LIMIT_MALLOC_HEAP_SIZE || limit == CU_LIMIT_PRINTF_FIFO_SIZE;
    if (value == before && !fixed_by_use) continue;
    const CUresult result = driver_.cuCtxSetLimit(static_cast<CUlimit>(limit), before);
    if (first == CUDA_SUCCESS) first = result;
  }
  return first;
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

DeviceSnapshot Device::snapshot() const {
  bind();
  DeviceSnapshot s{};
  char text[256] = "";
  check(driver_.cuDeviceGetName(text, sizeof text, device_), "cuDeviceGetName");
  s.name = text;
  check(driver_.cuDeviceGetUuid_v2(&s.uuid, device_), "cuDeviceGetUuid");
  size_t free = 0, total = 0;
  check(driver_.cuMemGetInfo_v2(&free, &total), "cuMemGetInfo");
  s.free_memory = free;
  check(driver_.cuDeviceTotalMem_v2(&total, device_), "cuDeviceTotalMem");
  s.total_memory = total;
  s.attributes.resize(CU_DEVICE_ATTRIBUTE_MAX);
  for (int i = 1; i < CU_DEVICE_ATTRIBUTE_MAX; i++) {
    int value = 0;
    const auto attribute = static_cast<CUdevice_attribute>(i);
    if (driver_.cuDeviceGetAttribute(&value, attribute, device_) == CUDA_SUCCESS) {
      s.attributes[static_cast<size_t>(i)] = value;
    }
  }
  s.limits = limits_;
  check(driver_.cuCtxGetStreamPriorityRange(&s.least_priority, &s.greatest_priority),
        "cuCtxGetStreamPriorityRange");
  if (driver_.cuDeviceGetPCIBusId(text, sizeof text, device_) == CUDA_SUCCESS) s.pci_bus_id = text;
  s.peers = peers_;
  driver_.cuDriverGetVersion(&s.driver_version);
  s.window_base = window_base_;
  s.window_size = window_size_;
  return s;
}

}  // namespace outboard
