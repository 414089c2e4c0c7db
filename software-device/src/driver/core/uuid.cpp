#include "core/uuid.h"

#include <cstdio>
#include <cstring>

namespace softdev::driver {

// A pattern with the GPU's number in its last byte.
CUuuid gpu_uuid(int number) {
  static constexpr unsigned char base[16] = {0x50, 0xf7, 0xde, 0x71, 0xce, 0x00, 0x4c, 0x50,
                                             0x95, 0x5d, 0x0e, 0xc0, 0xde, 0x00, 0x00, 0x00};
  CUuuid uuid;
  memcpy(uuid.bytes, base, sizeof base);
  uuid.bytes[0] = static_cast<char>(base[0] + number);  // first, so that prefixes tell them apart
  uuid.bytes[15] = static_cast<char>(number);
  return uuid;
}

CUuuid instance_uuid(int number, int instance) {
  CUuuid uuid = gpu_uuid(number);
  uuid.bytes[1] = static_cast<char>(instance);
  uuid.bytes[14] = static_cast<char>(instance + 1);
  return uuid;
}

std::string uuid_text(std::string_view kind, const CUuuid &uuid) {
  std::string text(kind);
  text += '-';
  for (size_t i = 0; i < sizeof uuid.bytes; i++) {
    char byte[3];
    snprintf(byte, sizeof byte, "%02x", static_cast<unsigned char>(uuid.bytes[i]));
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += byte;
  }
  return text;
}

}  // namespace softdev::driver
