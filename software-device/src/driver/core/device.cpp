#include "core/device.h"

#include <algorithm>
#include <cstdio>

#include "core/driver.h"
#include "streams/context.h"

namespace softdev::driver {

Device::Device(int as_ordinal, Visible which, const DeviceSettings &settings)
    : ordinal(as_ordinal),
      number(which.gpu),
      instance(which.instance),
      name(settings.name),
      memory(settings.memory),
      compute_major(settings.compute_major),
      compute_minor(settings.compute_minor),
      multiprocessors(settings.multiprocessors),
      clock_khz(settings.clock_khz) {}

std::string Device::pci_bus_id() const {
  char text[16];
  snprintf(text, sizeof text, "0000:%02X:00.0", static_cast<unsigned>(pci_bus()) & 0xFF);
  return text;
}

std::string Device::file(const std::string &files) const {
  if (files.empty()) return {};
  std::string name = files + "." + std::to_string(number);
  return instance < 0 ? name : name + "." + std::to_string(instance);
}

CUresult Device::claim() {
  const Traits &traits = driver()->settings.traits;
  if (traits.prohibited) return refuse(CUDA_ERROR_UNKNOWN, "the device is in prohibited mode");
  if (claim_.take(file(traits.exclusive))) return CUDA_SUCCESS;
  return refuse(CUDA_ERROR_DEVICE_UNAVAILABLE, "another process has the device");
}

void Device::add_context(const std::shared_ptr<Context> &context) {
  std::lock_guard guard(contexts_mutex_);
  contexts_.push_back(context);
}

void Device::remove_context(const Context *context) {
  std::lock_guard guard(contexts_mutex_);
  std::erase_if(contexts_, [&](const auto &candidate) { return candidate.get() == context; });
}

std::vector<std::shared_ptr<Context>> Device::contexts() const {
  std::lock_guard guard(contexts_mutex_);
  return contexts_;
}

void Device::open_peer(int peer) {
  std::lock_guard guard(peers_mutex_);
  if (peers_[peer]++ == 0) driver()->memory.open_to_peer(ordinal, peer, true);
}

void Device::close_peer(int peer) {
  std::lock_guard guard(peers_mutex_);
  if (--peers_[peer] == 0) driver()->memory.open_to_peer(ordinal, peer, false);
}

bool Device::reaches(int device) const {
  if (device == ordinal) return true;
  std::lock_guard guard(peers_mutex_);
  auto found = peers_.find(device);
  return found != peers_.end() && found->second > 0;
}

void Device::drain() {
  for (const auto &context : contexts()) context->drain();
}

}  // namespace softdev::driver
