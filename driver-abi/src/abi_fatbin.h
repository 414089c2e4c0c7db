// Reading what programs hand to cuModuleLoadData and cuLibraryLoadData: images without a length.
//
// Lengths come from inside the image, so a caller who knows how many bytes are readable passes
// them as `limit` (nothing beyond is read); a driver that is handed a bare pointer has to trust
// it and passes ABI_NO_LIMIT. With a limit, any bytes at all are safe input.
#ifndef ABI_FATBIN_H
#define ABI_FATBIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ABI_NO_LIMIT SIZE_MAX

enum abi_image_kind {
  ABI_IMAGE_UNKNOWN,
  ABI_IMAGE_WRAPPER,  // the structure nvcc puts around a fatbin: points at it, holds no code
  ABI_IMAGE_FATBIN,   // a container of entries
  ABI_IMAGE_ELF,      // a cubin, 64 bit
  ABI_IMAGE_PTX,      // text, ended by a NUL
};

// Judged by the first bytes. Text counts as PTX when it is printable: whether it is PTX indeed is
// the compiler's business.
enum abi_image_kind abi_image_kind(const void *image, size_t limit);

// Bytes of a fatbin (header and entries), an ELF (furthest section, segment or table end) or PTX
// (with its NUL). 0 when the image is malformed, does not fit `limit` or is a wrapper, which is
// read by abi_wrapper_read.
size_t abi_image_size(const void *image, size_t limit);

// A wrapper version 1 has one fatbin; version 2 (-rdc) has the fatbin of the linked program, and
// the pieces it was linked from.
struct abi_wrapper {
  uint32_t version;
  const void *fatbin;
  const void *const *pieces;  // `piece_count` fatbins; NULL when there are none
  size_t piece_count;
};

// False when `image` is no wrapper of a known version. Reads the wrapper and the list of pieces,
// which lie in the memory of the program.
bool abi_wrapper_read(const void *image, struct abi_wrapper *wrapper);

enum abi_entry_kind { ABI_ENTRY_PTX = 1, ABI_ENTRY_ELF = 2 };  // other kinds exist: skip them

#define ABI_FATBIN_64BIT 0x1ull
#define ABI_FATBIN_DEBUG 0x2ull
#define ABI_FATBIN_LINUX 0x10ull
#define ABI_FATBIN_LZ4 0x2000ull
#define ABI_FATBIN_ZSTD 0x8000ull
#define ABI_FATBIN_ARCH_SPECIFIC 0x100000ull    // sm_90a: runs on that very architecture only
#define ABI_FATBIN_FAMILY_SPECIFIC 0x200000ull  // sm_100f

struct abi_fatbin_entry {
  uint16_t kind;
  uint16_t version_major, version_minor;  // of PTX ISA, or of the ELF format
  uint32_t arch;                          // 75 for sm_75
  uint64_t flags;
  const uint8_t *payload;
  uint64_t payload_size;       // as stored, padding included
  uint64_t compressed_size;    // of the payload when compressed, else 0
  uint64_t uncompressed_size;  // as the entry claims; 0 when not compressed
  const char *name;            // of the source file; not terminated, `name_length` bytes, or NULL
  uint32_t name_length;
};

struct abi_fatbin_reader {
  const uint8_t *next;
  const uint8_t *end;
  bool malformed;  // set when an entry did not fit; iteration ends there
};

// False when there is no well-formed fatbin header whose contents fit `limit`.
bool abi_fatbin_open(struct abi_fatbin_reader *reader, const void *fatbin, size_t limit);

// Writes into the header of a fatbin how many bytes its entries have.
void abi_fatbin_set_contents(void *fatbin, uint64_t size);

// False at the end, or at a malformed entry.
bool abi_fatbin_next(struct abi_fatbin_reader *reader, struct abi_fatbin_entry *entry);

#ifdef __cplusplus
}
#endif
#endif
