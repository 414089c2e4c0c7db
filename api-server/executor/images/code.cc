#include "images/code.h"

#include <lz4.h>
#include <zstd.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <new>

#include "wire.h"

namespace outboard {

namespace {

// What an image may make this process unpack. Held while a part is unpacked, and read: a guest may
// load as many images at a time as there are threads.
constexpr uint64_t kMostUnpacked = uint64_t{512} << 20;
std::mutex unpacked_mutex;

class CodeReader {
 public:
  CodeReader(CodeVisitor &visitor, std::string *why) : visitor_(visitor), why_(why) {}

  // False: what follows need not be read.
  bool code(const void *start, size_t most);

 private:
  bool fatbin(const void *start, size_t most);
  bool entry(const abi_fatbin_entry &entry);
  bool ptx(const void *start, size_t most) {
    const auto *text = static_cast<const char *>(start);
    return visitor_.ptx({text, strnlen(text, most)});
  }
  bool fail(const char *why) {
    *why_ = why;
    return false;
  }

  CodeVisitor &visitor_;
  std::string *const why_;
  uint64_t unpacked_ = 0;
};

bool CodeReader::entry(const abi_fatbin_entry &entry) {
  if (entry.kind != ABI_ENTRY_PTX && entry.kind != ABI_ENTRY_ELF) return true;
  if (!visitor_.wants(entry)) return true;
  CodeBytes bytes{entry.payload, entry.payload_size};
  std::unique_lock<std::mutex> lock;
  std::unique_ptr<uint8_t[]> unpacked;
  if (entry.flags & (ABI_FATBIN_LZ4 | ABI_FATBIN_ZSTD)) {
    const uint64_t size = entry.uncompressed_size;
    unpacked_ += size;
    if (size > kMostUnpacked || unpacked_ > kMostUnpacked)
      return fail("an image unpacks to more than can be read");
    lock = std::unique_lock(unpacked_mutex);
    // Not filled: of what is claimed and never written no memory is taken.
    unpacked.reset(new (std::nothrow) uint8_t[size + 1]);
    if (!unpacked) return fail("there is no memory to unpack an image");
    const bool whole =
        entry.flags & ABI_FATBIN_ZSTD
            ? ZSTD_decompress(unpacked.get(), size, entry.payload, entry.compressed_size) == size
            : LZ4_decompress_safe(reinterpret_cast<const char *>(entry.payload),
                                  reinterpret_cast<char *>(unpacked.get()),
                                  static_cast<int>(entry.compressed_size),
                                  static_cast<int>(size)) == static_cast<int>(size);
    if (!whole) return fail("a packed part of an image cannot be unpacked");
    bytes = {unpacked.get(), size};
  }
  return entry.kind == ABI_ENTRY_ELF ? visitor_.machine_code(bytes)
                                     : ptx(bytes.data(), bytes.size());
}

bool CodeReader::fatbin(const void *start, size_t most) {
  abi_fatbin_reader reader;
  abi_fatbin_entry one;
  if (!abi_fatbin_open(&reader, start, most)) return fail("a container of code is damaged");
  while (abi_fatbin_next(&reader, &one)) {
    if (!entry(one)) return false;
  }
  return !reader.malformed || fail("a container of code is damaged");
}

bool CodeReader::code(const void *start, size_t most) {
  switch (abi_image_kind(start, most)) {
    case ABI_IMAGE_FATBIN:
      return fatbin(start, most);
    case ABI_IMAGE_ELF:
      return visitor_.machine_code({static_cast<const uint8_t *>(start), most});
    case ABI_IMAGE_PTX:
      return ptx(start, most);
    default:
      return fail("an image is of a kind that is not known");
  }
}

}  // namespace

bool visit_code(const Image &image, CodeVisitor &visitor, std::string *why) {
  CodeReader reader(visitor, why);
  uint64_t offset = 0;
  while (offset < image.size()) {
    wire_image_part part;
    if (image.size() - offset < sizeof part) break;
    memcpy(&part, image.data() + offset, sizeof part);
    offset += sizeof part;
    if (part.size > image.size() - offset) break;
    if (!reader.code(image.data() + offset, part.size)) return false;
    offset += std::min((part.size + 7) & ~uint64_t{7}, image.size() - offset);
  }
  return true;
}

}  // namespace outboard
