// The attach dialogue for tests: just enough protobuf to read a Hello and to write a Welcome or a
// Refusal (proto/control.proto). In production TypeScript does this.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "device/device.h"

namespace outboard {

struct Hello {
  std::string program;
  uint64_t memory = 0;
  std::vector<uint64_t> window_bases;
  bool query = false;  // no session is wanted, only a report
};

struct Welcome {
  uint64_t session;
  DeviceSnapshot device;
  uint64_t memory_limit;
  uint64_t pinned_memory;  // beside it
};

// Reads a preface and the Hello. Nothing, and a reason, when it is not one.
std::optional<Hello> read_hello(int fd, std::string *why);
bool send_welcome(int fd, const Welcome &welcome);
// What a query gets: the version of the driver.
bool send_version(int fd, int driver_version);
bool send_refusal(int fd, const std::string &code, const std::string &sentence);

}  // namespace outboard
