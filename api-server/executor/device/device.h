// A device of a driver library, which is opened for sessions that follow one another. Its primary
// context is retained, its window of addresses is reserved and pinned memory is allocated, so that
// a session need not wait for that.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/driver.h"
#include "copies/detour_holds.h"
#include "copies/page_porter.h"
#include "copies/staging.h"
#include "copies/upload_store.h"
#include "gate/hold_words.h"
#include "gate/quota_page.h"
#include "gate/turn_page.h"
#include "images/layouts.h"
#include "images/module_store.h"
#include "libraries/cublas.h"
#include "memory/scrubber.h"

namespace outboard {

struct DeviceOptions {
  std::string library;
  int ordinal = 0;
  std::optional<uint64_t> window_base;
  std::optional<uint64_t> window_size;
  // The memory file of the quota page, which stays the caller's. Without it nothing is held back.
  std::optional<int> quota_page_fd;
  // Of all slots of the device, and which of them this is; absent: there is no other.
  std::optional<int> turn_page_fd;
  unsigned slot = 0;
  // The folder in which images are kept on disk, and how many bytes of them. Empty: there is none.
  std::string module_folder{};
  uint64_t module_bytes = 0;
  // The same for uploads of tenants; the bytes are those of each tenant.
  std::string upload_folder{};
  uint64_t upload_bytes = 0;
  // How many bytes of the host's memory the images of a session's modules may take; those that are
  // kept for later sessions may take as much.
  uint64_t image_bytes = uint64_t{1} << 30;
  // The folder of cuBLAS and cuBLASLt, for sessions that call those whole (libraries/); empty:
  // where the dynamic linker finds them. Absent: sessions get none.
  std::optional<std::string> libraries{};
  // Whether a handle of theirs is made ready before a session asks for one.
  bool warm_handles = true;
  // The device that is meant, whatever its ordinal has become. An instance in MIG mode has that of
  // the instance.
  std::optional<CUuuid> uuid{};
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
  std::optional<CUuuid> gpu;  // an instance in MIG mode: the GPU that it is of
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
  unsigned stream_operations;
  uint64_t granularity;
  int cublas;  // its version, as 130002; 0: there is none
};

class Device {
 public:
  // Opens a device. Throws Error.
  static std::shared_ptr<Device> open(const DeviceOptions &options);
  ~Device();
  Device(const Device &) = delete;
  Device &operator=(const Device &) = delete;

  // Returns what a guest is told. What cannot change was asked when the device was opened. Throws
  // Error (OB_GPU_LOST) where the device does not answer. From one thread.
  DeviceSnapshot snapshot();
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
  // May be null.
  const std::shared_ptr<TurnPage> &turn_page() const { return turn_page_; }
  unsigned slot() const { return slot_; }
  Staging &upload_chunks() { return *upload_chunks_; }
  Staging &download_chunks() { return *download_chunks_; }
  DetourHolds &detour_holds() { return *detour_holds_; }
  // May be null.
  PagePorter *page_porter() { return page_porter_.get(); }
  // By which the gate holds streams.
  HoldWords &hold_words() { return *hold_words_; }
  ModuleStore &modules() { return modules_; }
  uint64_t image_bytes() const { return image_bytes_; }
  // Returns where uploads are kept; null when they are not.
  UploadStore *upload_store() { return upload_store_.get(); }

  // Returns cuBLAS; null where sessions get none.
  const Cublas *cublas() const { return cublas_.get(); }
  // Returns what tells it apart from that of another release, or for another kind of device.
  std::string libraries_name() const;
  // Makes a handle of it ready for the next session. One thread, with the context current.
  void warm_cublas();
  // Returns a handle, the one that is ready or a new one; null: `status` says why. Any thread with
  // the context current.
  void *take_cublas_handle(int *status);
  // Returns how many bytes of the device's memory one takes; 0 before there was one.
  uint64_t cublas_handle_bytes() const { return cublas_handle_bytes_; }
  // Whether the memory of one is the slot's since before a session asks for it.
  bool warms_handles() const { return warm_handles_; }

  // Returns how many operations a stream takes before the driver keeps whoever puts one more there
  // waiting; 0: any number.
  unsigned stream_operations() const { return stream_operations_; }

  // Returns the compute capability.
  Capability capability() const;

  // Returns what sizes and addresses of memory are multiples of: a power of two.
  uint64_t granularity() const { return granularity_; }

  // Stands for a limit that the driver refuses to tell.
  static constexpr uint64_t kNoLimit = UINT64_MAX;
  // Returns what a limit of the context (CUlimit) was before any session changed it.
  uint64_t limit(int which) const { return limits_[static_cast<size_t>(which)]; }
  // Returns how many threads can be on the device at once.
  uint64_t resident_threads() const;

  // Sets limits that a session has changed back to what they were. After an error the context is
  // not as it was. `stacks`: kernels have made the stacks larger.
  CUresult restore_limits(bool stacks) const;

  // Takes the device for a session. False when another session has it. Any thread.
  bool claim() { return !claimed_.exchange(true); }
  // Says that the session which has claimed it is over.
  void yield() { claimed_.store(false); }
  // Says that the context is not clean and must not serve another session.
  void spoil() { spoiled_.store(true); }
  bool spoiled() const { return spoiled_.load(); }

 private:
  Device(const Driver &driver, int ordinal);
  void retain();
  void reserve(const DeviceOptions &options);
  // Reserves addresses there and nowhere else. Returns the driver's result, and
  // CUDA_ERROR_NOT_SUPPORTED where it reserves other ones.
  CUresult reserve_at(uint64_t base, uint64_t size);
  // Makes a window of that size wherever one is to be had.
  bool reserve_somewhere(uint64_t size);
  std::vector<PeerDevice> find_peers() const;
  uint64_t find_granularity() const;
  void describe();
  void ask_attribute(CUdevice_attribute attribute);
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
  unsigned stream_operations_ = 0;
  uint64_t granularity_ = WIRE_GRANULE;
  DeviceSnapshot facts_{};
  std::vector<uint64_t> limits_;
  std::unique_ptr<Staging> upload_chunks_;
  std::unique_ptr<Staging> download_chunks_;
  std::unique_ptr<DetourHolds> detour_holds_;
  std::unique_ptr<PagePorter> page_porter_;
  std::unique_ptr<HoldWords> hold_words_;
  uint64_t image_bytes_ = 0;
  ModuleStore modules_;
  std::unique_ptr<UploadStore> upload_store_;
  std::shared_ptr<const Cublas> cublas_;
  bool warm_handles_ = true;
  // Makes a handle, and notes what it takes if that is not known yet; null: `status` says why.
  void *make_cublas_handle(int *status);
  std::mutex warm_mutex_;  // of the next one
  void *warm_handle_ = nullptr;
  std::atomic<uint64_t> cublas_handle_bytes_ = 0;
  std::shared_ptr<QuotaPage> quota_page_;
  std::shared_ptr<TurnPage> turn_page_;
  unsigned slot_ = 0;
  std::atomic<bool> claimed_{false};
  std::atomic<bool> spoiled_{false};
};

// What a driver library offers, asked without making a context.
struct Offered {
  std::string name;
  std::string pci_bus_id;
  CUuuid uuid;
  std::optional<CUuuid> gpu;  // an instance in MIG mode: the GPU that it is of
  int compute_mode = 0;       // CUcomputemode
  int capability_major = 0, capability_minor = 0;
  int multiprocessors = 0;
  int clock_khz = 0;
  size_t memory = 0;  // bytes
};
// Returns the devices of a driver library. Throws Error when it cannot be loaded, or a call of it
// fails.
std::vector<Offered> offered_devices(const std::string &library);

}  // namespace outboard
