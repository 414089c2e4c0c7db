#include "abi_fatbin.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"

// Images are copied to a block of exactly their size, so that a read beyond them is caught in the
// sanitizer build.
static uint8_t *exact(const void *bytes, size_t size) {
  uint8_t *copy = malloc(size);
  assert_non_null(copy);
  memcpy(copy, bytes, size);
  return copy;
}

static void put(uint8_t *at, uint64_t value, int bytes) { memcpy(at, &value, (size_t)bytes); }

enum { ENTRY = 64, HEADER = 16 };

// Two entries: PTX of 8 bytes called "a.cu", and a zstd one of 24 bytes padded from 21.
static size_t build_fatbin(uint8_t *out) {
  memset(out, 0, 512);
  uint8_t *at = out + HEADER;
  put(at, ABI_ENTRY_PTX, 2);
  put(at + 4, ENTRY + 8, 4);
  put(at + 8, 8, 8);
  put(at + 24, 0, 2), put(at + 26, 9, 2);
  put(at + 28, 75, 4);
  put(at + 32, ENTRY, 4), put(at + 36, 4, 4);
  put(at + 40, ABI_FATBIN_64BIT | ABI_FATBIN_LINUX, 8);
  memcpy(at + ENTRY, "a.cu", 4);
  memcpy(at + ENTRY + 8, ".entry ", 8);
  at += ENTRY + 8 + 8;
  put(at, ABI_ENTRY_ELF, 2);
  put(at + 4, ENTRY, 4);
  put(at + 8, 24, 8);
  put(at + 16, 21, 4);
  put(at + 28, 120, 4);
  put(at + 40, ABI_FATBIN_64BIT | ABI_FATBIN_ZSTD, 8);
  put(at + 56, 1000, 8);
  at += ENTRY + 24;
  put(out, 0xBA55ED50, 4);
  put(out + 4, 1, 2), put(out + 6, HEADER, 2);
  put(out + 8, (uint64_t)(at - out - HEADER), 8);
  return (size_t)(at - out);
}

static void reads_entries(void **state) {
  (void)state;
  uint8_t bytes[512];
  size_t size = build_fatbin(bytes);
  uint8_t *image = exact(bytes, size);
  assert_int_equal(abi_image_kind(image, size), ABI_IMAGE_FATBIN);
  assert_int_equal(abi_image_size(image, size), size);
  assert_int_equal(abi_image_size(image, ABI_NO_LIMIT), size);

  struct abi_fatbin_reader reader;
  struct abi_fatbin_entry entry;
  assert_true(abi_fatbin_open(&reader, image, size));
  assert_true(abi_fatbin_next(&reader, &entry));
  assert_int_equal(entry.kind, ABI_ENTRY_PTX);
  assert_int_equal(entry.arch, 75);
  assert_int_equal(entry.version_major, 9);
  assert_int_equal(entry.payload_size, 8);
  assert_string_equal((const char *)entry.payload, ".entry ");
  assert_int_equal(entry.compressed_size, 0);
  assert_int_equal(entry.uncompressed_size, 0);
  assert_int_equal(entry.name_length, 4);
  assert_memory_equal(entry.name, "a.cu", 4);
  assert_true(abi_fatbin_next(&reader, &entry));
  assert_int_equal(entry.kind, ABI_ENTRY_ELF);
  assert_int_equal(entry.arch, 120);
  assert_int_equal(entry.compressed_size, 21);
  assert_int_equal(entry.uncompressed_size, 1000);
  assert_null(entry.name);
  assert_false(abi_fatbin_next(&reader, &entry));
  assert_false(reader.malformed);
  free(image);
}

static void every_truncation_is_noticed(void **state) {
  (void)state;
  uint8_t bytes[512];
  size_t size = build_fatbin(bytes);
  for (size_t cut = 0; cut < size; cut++) {
    uint8_t *image = exact(bytes, cut ? cut : 1);
    struct abi_fatbin_reader reader;
    assert_false(abi_fatbin_open(&reader, image, cut));
    assert_int_equal(abi_image_size(image, cut), 0);
    free(image);
  }
}

static void lying_entries_end_the_iteration(void **state) {
  (void)state;
  static const struct {
    int at, bytes;
    uint64_t value;
  } lies[] = {{4, 4, 8}, {4, 4, 0xFFFFFFFF}, {8, 8, UINT64_MAX}, {8, 8, 1 << 20}};
  for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
    uint8_t bytes[512];
    size_t size = build_fatbin(bytes);
    put(bytes + HEADER + lies[i].at, lies[i].value, lies[i].bytes);
    uint8_t *image = exact(bytes, size);
    struct abi_fatbin_reader reader;
    struct abi_fatbin_entry entry;
    assert_true(abi_fatbin_open(&reader, image, size));
    assert_false(abi_fatbin_next(&reader, &entry));
    assert_true(reader.malformed);
    assert_false(abi_fatbin_next(&reader, &entry));
    free(image);
  }
  // The second entry claims more compressed bytes than its payload has.
  uint8_t bytes[512];
  size_t size = build_fatbin(bytes);
  put(bytes + HEADER + ENTRY + 16 + 16, 25, 4);
  struct abi_fatbin_reader reader;
  struct abi_fatbin_entry entry;
  assert_true(abi_fatbin_open(&reader, bytes, size));
  assert_true(abi_fatbin_next(&reader, &entry));
  assert_false(abi_fatbin_next(&reader, &entry));
  assert_true(reader.malformed);
}

static void wrappers(void **state) {
  (void)state;
  uint8_t bytes[512];
  build_fatbin(bytes);
  const void *pieces[] = {bytes, bytes + 1, NULL};
  struct {
    uint32_t magic, version;
    const void *data, *more;
  } image = {0x466243B1, 1, bytes, "not a list"};
  struct abi_wrapper wrapper;
  assert_int_equal(abi_image_kind(&image, sizeof image), ABI_IMAGE_WRAPPER);
  assert_true(abi_wrapper_read(&image, &wrapper));
  assert_ptr_equal(wrapper.fatbin, bytes);
  assert_int_equal(wrapper.piece_count, 0);
  assert_null(wrapper.pieces);

  image.version = 2;
  image.more = pieces;
  assert_true(abi_wrapper_read(&image, &wrapper));
  assert_int_equal(wrapper.version, 2);
  assert_int_equal(wrapper.piece_count, 2);
  assert_ptr_equal(wrapper.pieces[1], bytes + 1);

  image.version = 3;
  assert_false(abi_wrapper_read(&image, &wrapper));
  image.version = 1;
  image.data = NULL;
  assert_false(abi_wrapper_read(&image, &wrapper));
  image.magic = 0;
  assert_false(abi_wrapper_read(&image, &wrapper));
}

static void length_of_an_elf_is_where_its_furthest_part_ends(void **state) {
  (void)state;
  struct {
    Elf64_Ehdr header;
    Elf64_Shdr sections[3];
    char text[40];
  } image;
  memset(&image, 0, sizeof image);
  memcpy(image.header.e_ident, ELFMAG, SELFMAG);
  image.header.e_ident[EI_CLASS] = ELFCLASS64;
  image.header.e_shoff = sizeof image.header;
  image.header.e_shentsize = sizeof(Elf64_Shdr);
  image.header.e_shnum = 3;
  image.sections[1].sh_type = SHT_PROGBITS;
  image.sections[1].sh_offset = sizeof image.header + sizeof image.sections;
  image.sections[1].sh_size = 33;
  image.sections[2].sh_type = SHT_NOBITS;  // takes no room in the file
  image.sections[2].sh_offset = 100000;
  image.sections[2].sh_size = 100000;
  size_t expected = sizeof image.header + sizeof image.sections + 33;
  assert_int_equal(abi_image_kind(&image, sizeof image), ABI_IMAGE_ELF);
  assert_int_equal(abi_image_size(&image, sizeof image), expected);
  assert_int_equal(abi_image_size(&image, expected), expected);
  for (size_t cut = 1; cut < expected; cut++) {
    uint8_t *copy = exact(&image, cut);
    assert_int_equal(abi_image_size(copy, cut), 0);
    free(copy);
  }
  image.sections[1].sh_size = UINT64_MAX - 8;
  assert_int_equal(abi_image_size(&image, sizeof image), 0);
  image.header.e_shoff = UINT64_MAX - 4;
  assert_int_equal(abi_image_size(&image, sizeof image), 0);
}

static void text(void **state) {
  (void)state;
  assert_int_equal(abi_image_kind("//", 3), ABI_IMAGE_PTX);
  assert_int_equal(abi_image_kind("\n.version 8.0", 13), ABI_IMAGE_PTX);
  assert_int_equal(abi_image_size(".version 8.0\n", 14), 14);
  assert_int_equal(abi_image_size(".version 8.0\n", ABI_NO_LIMIT), 14);
  uint8_t *open_ended = exact(".version", 8);
  assert_int_equal(abi_image_size(open_ended, 8), 0);
  free(open_ended);
  assert_int_equal(abi_image_kind("\0\0\0\0", 4), ABI_IMAGE_UNKNOWN);
  assert_int_equal(abi_image_kind("\x01\x02\x03\x04", 4), ABI_IMAGE_UNKNOWN);
  assert_int_equal(abi_image_kind(NULL, 4), ABI_IMAGE_UNKNOWN);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reads_entries),
      cmocka_unit_test(every_truncation_is_noticed),
      cmocka_unit_test(lying_entries_end_the_iteration),
      cmocka_unit_test(wrappers),
      cmocka_unit_test(length_of_an_elf_is_where_its_furthest_part_ends),
      cmocka_unit_test(text),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
