#include "core/device.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "core/driver.h"
#include "streams/context.h"

namespace softdev::driver {

Device::Device(int as_ordinal, int which, const DeviceSettings &settings)
    : ordinal(as_ordinal),
      number(which),
      name(settings.name),
      memory(settings.memory),
      compute_major(settings.compute_major),
      compute_minor(settings.compute_minor),
      multiprocessors(settings.multiprocessors),
      clock_khz(settings.clock_khz) {}

// The same on every machine and in every run, so that programs may remember it: a name-based
// pattern with the device's number in its last bytes.
CUuuid Device::uuid_of(int number) {
  static constexpr unsigned char base[16] = {0x50, 0xf7, 0xde, 0x71, 0xce, 0x00, 0x4c, 0x50,
                                             0x95, 0x5d, 0x0e, 0xc0, 0xde, 0x00, 0x00, 0x00};
  CUuuid uuid;
  memcpy(uuid.bytes, base, sizeof base);
  uuid.bytes[0] = static_cast<char>(base[0] + number);  // first, so that prefixes tell them apart
  uuid.bytes[15] = static_cast<char>(number);
  return uuid;
}

std::string Device::uuid_text(int number) {
  CUuuid uuid = uuid_of(number);
  std::string text = "GPU-";
  for (size_t i = 0; i < sizeof uuid.bytes; i++) {
    char byte[3];
    snprintf(byte, sizeof byte, "%02x", static_cast<unsigned char>(uuid.bytes[i]));
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += byte;
  }
  return text;
}

std::string Device::pci_bus_id() const {
  char text[16];
  snprintf(text, sizeof text, "0000:%02X:00.0", static_cast<unsigned>(pci_bus()) & 0xFF);
  return text;
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
