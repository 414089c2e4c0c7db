// A device of a driver library, which is opened for sessions that follow one another. Its primary
// context is retained, its window of addresses is reserved and pinned memory is allocated, so that
// a session need not wait for that.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/driver.h"
#include "copies/staging.h"
#include "copies/upload_store.h"
#include "gate/quota_page.h"
#include "images/module_store.h"
#include "memory/scrubber.h"

namespace outboard {

struct DeviceOptions {
  std::string library;
  int ordinal = 0;
  std::optional<uint64_t> window_base;
  std::optional<uint64_t> window_size;
  // The memory file of the quota page, which stays the caller's. Without it nothing is held back.
  std::optional<int> quota_page_fd;
  // The folder in which images are kept on disk, and how many bytes of them. Empty: there is none.
  std::string module_folder{};
  uint64_t module_bytes = 0;
  // The same for uploads of tenants; the bytes are those of each tenant.
  std::string upload_folder{};
  uint64_t upload_bytes = 0;
  // How many bytes of the host's memory the images of a session's modules may take; those that are
  // kept for later sessions may take as much.
  uint64_t image_bytes = uint64_t{1} << 30;
};

// Another device of the driver whose memory kernels of this one can reach.
struct PeerDevice {
  CUuuid uuid;
  int performance_rank;
  bool native_atomics;
  std::vector<uint32_t> atomics;  // CUatomicOperationCapability by CUatomicOperation
};

// What a guest is told about the device: api-server/src/native.ts, DeviceSnapshot.
struct DeviceSnapshot {
  std::string name;
  CUuuid uuid;
  uint64_t total_memory;
  uint64_t free_memory;
  std::vector<int32_t> attributes;
  std::vector<uint64_t> limits;
  int least_priority;
  int greatest_priority;
  std::string pci_bus_id;
  std::vector<PeerDevice> peers;
  int driver_version;
  uint64_t window_base;
  uint64_t window_size;
};

class Device {
 public:
  // Opens a device. Throws Error.
  static std::shared_ptr<Device> open(const DeviceOptions &options);
  ~Device();
  Device(const Device &) = delete;
  Device &operator=(const Device &) = delete;

  // Asks the driver what a guest is told. Throws Error.
  DeviceSnapshot snapshot() const;
  // Reserves another window of addresses in place of the old one. No session may use the device.
  // Throws Error when it cannot be had; the old window stays then.
  void move_window(uint64_t base, uint64_t size);

  // Makes the context current to the calling thread.
  void bind() const { driver_.cuCtxSetCurrent(context_); }

  const Driver &driver() const { return driver_; }
  int ordinal() const { return ordinal_; }
  uint64_t window_base() const { return window_base_; }
  uint64_t window_size() const { return window_size_; }
  CUcontext context() const { return context_; }
  bool has_peers() const { return !peers_.empty(); }
  Scrubber &scrubber() { return *scrubber_; }
  const std::shared_ptr<QuotaPage> &quota_page() const { return quota_page_; }
  Staging &upload_chunks() { return *upload_chunks_; }
  Staging &download_chunks() { return *download_chunks_; }
  ModuleStore &modules() { return modules_; }
  uint64_t image_bytes() const { return image_bytes_; }
  // Returns where uploads are kept; null when they are not.
  UploadStore *upload_store() { return upload_store_.get(); }

  // Stands for a limit that the driver refuses to tell.
  static constexpr uint64_t kNoLimit = UINT64_MAX;
  // Returns what a limit of the context (CUlimit) was before any session changed it.
  uint64_t limit(int which) const { return limits_[static_cast<size_t>(which)]; }
  // Returns how many threads can be on the device at once.
  uint64_t resident_threads() const;

  // Sets limits that a session has changed back to what they were. After an error the context is
  // not as it was.
  CUresult restore_limits() const;

  // Takes the device for a session. False when another session has it. Any thread.
  bool claim() { return !claimed_.exchange(true); }
  // Says that the session which has claimed it is over.
  void yield() { claimed_.store(false); }
  // Says that the context is not clean and must not serve another session.
  void spoil() { spoiled_.store(true); }
  bool spoiled() const { return spoiled_.load(); }

 private:
  Device(const Driver &driver, int ordinal);
  void reserve(const DeviceOptions &options);
  std::vector<PeerDevice> find_peers() const;
  void check(CUresult result, const char *what) const;

  const Driver driver_;
  const int ordinal_;
  CUdevice device_ = 0;
  CUcontext context_ = nullptr;
  CUstream scrubber_stream_ = nullptr;
  std::unique_ptr<Scrubber> scrubber_;
  std::vector<PeerDevice> peers_;
  uint64_t window_base_ = 0;
  uint64_t window_size_ = 0;
  std::vector<uint64_t> limits_;
  std::unique_ptr<Staging> upload_chunks_;
  std::unique_ptr<Staging> download_chunks_;
  uint64_t image_bytes_ = 0;
  ModuleStore modules_;
  std::unique_ptr<UploadStore> upload_store_;
  std::shared_ptr<QuotaPage> quota_page_;
  std::atomic<bool> claimed_{false};
  std::atomic<bool> spoiled_{false};
};

// What a driver library offers, asked without making a context.
struct Offered {
  std::string name;
  std::string pci_bus_id;
  CUuuid uuid;
  int capability_major = 0, capability_minor = 0;
  int multiprocessors = 0;
  int clock_khz = 0;
  size_t memory = 0;  // bytes
};
// Returns the devices of a driver library. Throws Error when it cannot be loaded, or a call of it
// fails.
std::vector<Offered> offered_devices(const std::string &library);

}  // namespace outboard
