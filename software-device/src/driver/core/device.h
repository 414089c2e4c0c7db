// One device: who it is, what it can do, and what belongs to it.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/claim.h"
#include "core/models.h"
#include "core/settings.h"
#include "core/time_slices.h"
#include "core/uuid.h"
#include "core/visible.h"
#include "cuda_driver.h"
#include "engine.h"

namespace softdev::driver {

class Context;

class Device {
 public:
  // `ordinal` is what programs call it; `which` of the machine's it is. `settings` are its own.
  Device(int ordinal, Visible which, const DeviceSettings &settings);

  const int ordinal;
  const int number;    // of the machine's GPU
  const int instance;  // of that GPU; -1: all of it
  const std::string name;
  const uint64_t memory;
  const int compute_major, compute_minor;
  const int multiprocessors;
  const int clock_khz;

  CUuuid uuid() const { return instance < 0 ? of_gpu() : instance_uuid(number, instance); }
  CUuuid of_gpu() const { return gpu_uuid(number); }
  int pci_bus() const { return number + 1; }
  std::string pci_bus_id() const;

  // What there is room for on each of its multiprocessors.
  const Multiprocessor &multiprocessor() const;

  // False when there is no such attribute.
  bool attribute(CUdevice_attribute which, int *value) const;

  // The name of the device's file among those that begin with `files` (traits); empty where that
  // is.
  std::string file(const std::string &files) const;

  // For each context, before it is there and when it is gone. Otherwise than CUDA_SUCCESS: by its
  // compute mode the device is another process's, or nobody's.
  CUresult claim();
  void give_back() { claim_.give_back(); }

  std::shared_ptr<Context> primary;  // made once, for the life of the process
  std::mutex primary_mutex;          // for the three below
  unsigned retained = 0;
  unsigned primary_flags = 0;

  // Contexts that were created on it and are alive, and the primary one.
  void add_context(const std::shared_ptr<Context> &context);
  void remove_context(const Context *context);
  std::vector<std::shared_ptr<Context>> contexts() const;
  // Until all work of all its contexts is done.
  void drain();

  // Lets kernels of this device into the memory of another one, for each context that asks.
  void open_peer(int peer);
  void close_peer(int peer);
  // Whether its kernels get at the memory of a device: its own, or one that is open to it.
  bool reaches(int device) const;

  // Whose turn it is where processes share it; else null.
  std::unique_ptr<TimeSlices> time_slices;
  std::atomic<int> kernels{0};    // that run right now
  std::atomic<uint64_t> pool{0};  // the current memory pool
  std::atomic<uint64_t> default_pool{0};

 private:
  Claim claim_;
  mutable std::mutex peers_mutex_;
  std::map<int, int> peers_;  // device: contexts that have it open
  mutable std::mutex contexts_mutex_;
  std::vector<std::shared_ptr<Context>> contexts_;
};

// What the engine and the attributes agree on.
namespace limits {
inline constexpr int kThreadsPerBlock = 1024;
// Of a device that passes for no GPU.
inline constexpr Multiprocessor kMultiprocessor = {1536, 24, 100 << 10, 99 << 10, 1 << 10};
inline constexpr int kRegistersPerMultiprocessor = kBlockRegisters;  // one may have all
inline constexpr int kSharedPerBlock = 48 << 10;
inline constexpr int kPersistingCache = 3 << 20;
inline constexpr int kWarp = 32;
inline constexpr int kPortableClusterBlocks = 8, kClusterBlocks = 16;
inline constexpr int kTexturePitch = 32;
inline constexpr unsigned kGridX = 0x7FFFFFFF, kGridYZ = 65535, kBlockXY = 1024, kBlockZ = 64;
inline constexpr int kParameterBytes = 32764;
inline constexpr size_t kMostPendingLaunches = 1 << 18;  // each takes memory of the host
inline constexpr int kLeastPriority = 0, kGreatestPriority = -5;
}  // namespace limits

}  // namespace softdev::driver
