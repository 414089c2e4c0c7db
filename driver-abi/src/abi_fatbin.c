#include "abi_fatbin.h"

#include <elf.h>
#include <string.h>

enum { WRAPPER_MAGIC = 0x466243B1, FATBIN_HEADER = 16, ENTRY_HEADER = 64 };
static const uint32_t fatbin_magic = 0xBA55ED50u;

// Images may lie at any alignment, so everything is read by memcpy.
static uint16_t u16(const uint8_t *at) {
  uint16_t value;
  memcpy(&value, at, sizeof value);
  return value;
}

static uint32_t u32(const uint8_t *at) {
  uint32_t value;
  memcpy(&value, at, sizeof value);
  return value;
}

static uint64_t u64(const uint8_t *at) {
  uint64_t value;
  memcpy(&value, at, sizeof value);
  return value;
}

static bool fits(uint64_t offset, uint64_t size, size_t limit) {
  return offset <= limit && size <= limit - offset;
}

static bool is_text(uint8_t byte) {
  return byte == '\t' || byte == '\n' || byte == '\r' || (byte >= ' ' && byte < 0x7F);
}

enum abi_image_kind abi_image_kind(const void *image, size_t limit) {
  const uint8_t *bytes = image;
  if (!image || limit == 0) return ABI_IMAGE_UNKNOWN;
  // Text may be shorter than a magic number.
  for (size_t i = 0; i < 4 && i < limit; i++) {
    if (is_text(bytes[i])) {
      if (i == 3) return ABI_IMAGE_PTX;
      continue;
    }
    if (bytes[i] == 0 && i > 0) return ABI_IMAGE_PTX;
    break;
  }
  if (limit < 4) return ABI_IMAGE_UNKNOWN;
  if (u32(bytes) == WRAPPER_MAGIC) return ABI_IMAGE_WRAPPER;
  if (u32(bytes) == fatbin_magic) return ABI_IMAGE_FATBIN;
  if (memcmp(bytes, ELFMAG, SELFMAG) == 0) return ABI_IMAGE_ELF;
  return ABI_IMAGE_UNKNOWN;
}

static size_t fatbin_size(const uint8_t *bytes, size_t limit) {
  if (limit < FATBIN_HEADER) return 0;
  uint64_t header = u16(bytes + 6), contents = u64(bytes + 8);
  if (u16(bytes + 4) != 1 || header < FATBIN_HEADER || !fits(header, contents, limit)) return 0;
  return header + contents;
}

// Raises *end to offset + size. False when that does not fit.
static bool reach(size_t *end, uint64_t offset, uint64_t size, size_t limit) {
  if (!fits(offset, size, limit)) return false;
  if (offset + size > *end) *end = offset + size;
  return true;
}

static size_t elf_size(const uint8_t *bytes, size_t limit) {
  Elf64_Ehdr header;
  if (limit < sizeof header) return 0;
  memcpy(&header, bytes, sizeof header);
  if (header.e_ident[EI_CLASS] != ELFCLASS64) return 0;
  size_t end = sizeof header;

  if (header.e_phoff && header.e_phnum) {
    if (header.e_phentsize != sizeof(Elf64_Phdr) ||
        !reach(&end, header.e_phoff, (uint64_t)header.e_phnum * sizeof(Elf64_Phdr), limit))
      return 0;
    for (unsigned i = 0; i < header.e_phnum; i++) {
      Elf64_Phdr segment;
      memcpy(&segment, bytes + header.e_phoff + i * sizeof segment, sizeof segment);
      if (!reach(&end, segment.p_offset, segment.p_filesz, limit)) return 0;
    }
  }

  if (header.e_shoff) {
    Elf64_Shdr section;
    if (header.e_shentsize != sizeof section || !reach(&end, header.e_shoff, sizeof section, limit))
      return 0;
    uint64_t count = header.e_shnum;
    if (count == 0) {  // too many for the header: section 0 has the number
      memcpy(&section, bytes + header.e_shoff, sizeof section);
      count = section.sh_size;
    }
    if (count > UINT32_MAX || !reach(&end, header.e_shoff, count * sizeof section, limit)) return 0;
    for (uint64_t i = 0; i < count; i++) {
      memcpy(&section, bytes + header.e_shoff + i * sizeof section, sizeof section);
      if (section.sh_type == SHT_NOBITS || section.sh_type == SHT_NULL) continue;
      if (!reach(&end, section.sh_offset, section.sh_size, limit)) return 0;
    }
  }
  return end;
}

static size_t text_size(const uint8_t *bytes, size_t limit) {
  if (limit == ABI_NO_LIMIT) return strlen((const char *)bytes) + 1;
  size_t length = strnlen((const char *)bytes, limit);
  return length < limit ? length + 1 : 0;
}

size_t abi_image_size(const void *image, size_t limit) {
  switch (abi_image_kind(image, limit)) {
    case ABI_IMAGE_FATBIN:
      return fatbin_size(image, limit);
    case ABI_IMAGE_ELF:
      return elf_size(image, limit);
    case ABI_IMAGE_PTX:
      return text_size(image, limit);
    case ABI_IMAGE_WRAPPER:
    case ABI_IMAGE_UNKNOWN:
      break;
  }
  return 0;
}

bool abi_wrapper_read(const void *image, struct abi_wrapper *wrapper) {
  if (abi_image_kind(image, sizeof(uint32_t)) != ABI_IMAGE_WRAPPER) return false;
  struct {
    uint32_t magic, version;
    const void *fatbin;
    const void *const *pieces;
  } raw;
  memcpy(&raw, image, sizeof raw);
  if ((raw.version != 1 && raw.version != 2) || !raw.fatbin) return false;
  *wrapper = (struct abi_wrapper){.version = raw.version, .fatbin = raw.fatbin};
  // In version 1 the last word is a file name or nothing.
  if (raw.version == 2 && raw.pieces) {
    while (raw.pieces[wrapper->piece_count]) wrapper->piece_count++;
    if (wrapper->piece_count) wrapper->pieces = raw.pieces;
  }
  return true;
}

bool abi_fatbin_open(struct abi_fatbin_reader *reader, const void *fatbin, size_t limit) {
  *reader = (struct abi_fatbin_reader){0};
  if (abi_image_kind(fatbin, limit) != ABI_IMAGE_FATBIN) return false;
  size_t size = fatbin_size(fatbin, limit);
  if (!size) return false;
  const uint8_t *bytes = fatbin;
  reader->next = bytes + u16(bytes + 6);
  reader->end = bytes + size;
  return true;
}

void abi_fatbin_set_contents(void *fatbin, uint64_t size) {
  memcpy((uint8_t *)fatbin + 8, &size, sizeof size);
}

bool abi_fatbin_next(struct abi_fatbin_reader *reader, struct abi_fatbin_entry *entry) {
  if (reader->next == reader->end) return false;
  const uint8_t *at = reader->next;
  size_t left = (size_t)(reader->end - at);
  reader->next = reader->end;
  reader->malformed = true;  // until it is found to be well-formed

  if (left < ENTRY_HEADER) return false;
  uint64_t header = u32(at + 4), payload = u64(at + 8);
  if (header < ENTRY_HEADER || !fits(header, payload, left)) return false;
  *entry = (struct abi_fatbin_entry){
      .kind = u16(at),
      .version_major = u16(at + 26),
      .version_minor = u16(at + 24),
      .arch = u32(at + 28),
      .flags = u64(at + 40),
      .payload = at + header,
      .payload_size = payload,
  };
  if (entry->flags & (ABI_FATBIN_LZ4 | ABI_FATBIN_ZSTD)) {
    entry->compressed_size = u32(at + 16);
    entry->uncompressed_size = u64(at + 56);
    if (entry->compressed_size > payload) return false;
  }
  uint32_t name = u32(at + 32), length = u32(at + 36);
  if (length && fits(name, length, header)) {
    entry->name = (const char *)at + name;
    entry->name_length = length;
  }
  reader->next = at + header + payload;
  reader->malformed = false;
  return true;
}
