// Program images as they travel: each kind a program may hand over, and what is none.
#include "images/image.h"

#include <elf.h>
#include <sha256.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "wire.h"

static struct image image;

// A fatbin: header and `size` bytes of contents.
static size_t fatbin(uint8_t *at, uint64_t size, uint8_t fill) {
  uint32_t magic = 0xBA55ED50;
  uint16_t version = 1, header = 16;
  memcpy(at, &magic, 4);
  memcpy(at + 4, &version, 2);
  memcpy(at + 6, &header, 2);
  memcpy(at + 8, &size, 8);
  memset(at + 16, fill, size);
  return 16 + size;
}

struct wrapper {
  uint32_t magic, version;
  const void *fatbin;
  const void *const *pieces;
};

// The parts of `image`, checked: kinds and contents; the padding is zeros and the hash is right.
static void check_parts(int count, const uint32_t *kinds, const void *const *contents,
                        const size_t *sizes) {
  uint64_t at = 0;
  for (int i = 0; i < count; i++) {
    struct wire_image_part part;
    memcpy(&part, image.bytes + at, sizeof part);
    assert_int_equal(part.kind, kinds[i]);
    assert_int_equal(part.pad, 0);
    assert_int_equal(part.size, sizes[i]);
    at += sizeof part;
    assert_memory_equal(image.bytes + at, contents[i], sizes[i]);
    at += sizes[i];
    for (; at % 8; at++) assert_int_equal(image.bytes[at], 0);
  }
  assert_int_equal(image.size, at);
  uint8_t digest[SHA256_DIGEST_LENGTH];
  SHA256_CTX context;
  SHA256_Init(&context);
  SHA256_Update(&context, image.bytes, image.size);
  SHA256_Final(digest, &context);
  assert_memory_equal(image.hash, digest, sizeof digest);
}

static void a_plain_fatbin(void **state) {
  (void)state;
  uint8_t bytes[64];
  size_t size = fatbin(bytes, 13, 5);
  assert_int_equal(image_read(bytes, &image), CUDA_SUCCESS);
  check_parts(1, (uint32_t[]){WIRE_IMAGE_FATBIN}, (const void *[]){bytes}, &size);
  image_free(&image);
  assert_null(image.bytes);
}

static void wrapper_version_1(void **state) {
  (void)state;
  uint8_t bytes[64];
  size_t size = fatbin(bytes, 24, 5);
  // The last word is no list of pieces here.
  struct wrapper wrapper = {0x466243B1, 1, bytes, (const void *const *)0x1234};
  assert_int_equal(image_read(&wrapper, &image), CUDA_SUCCESS);
  check_parts(1, (uint32_t[]){WIRE_IMAGE_FATBIN}, (const void *[]){bytes}, &size);
  image_free(&image);
}

static void wrapper_version_2(void **state) {
  (void)state;
  uint8_t linked[64], first[64], second[64];
  size_t sizes[3] = {fatbin(linked, 40, 1), fatbin(first, 3, 2), fatbin(second, 17, 3)};
  const void *pieces[] = {first, second, NULL};
  struct wrapper wrapper = {0x466243B1, 2, linked, pieces};
  assert_int_equal(image_read(&wrapper, &image), CUDA_SUCCESS);
  uint32_t kinds[3] = {WIRE_IMAGE_FATBIN, WIRE_IMAGE_FATBIN, WIRE_IMAGE_FATBIN};
  check_parts(3, kinds, (const void *[]){linked, first, second}, sizes);
  image_free(&image);

  wrapper.pieces = NULL;
  assert_int_equal(image_read(&wrapper, &image), CUDA_SUCCESS);
  check_parts(1, kinds, (const void *[]){linked}, sizes);
  image_free(&image);
}

static void bad_wrappers(void **state) {
  (void)state;
  uint8_t good[64], bad[64];
  fatbin(good, 8, 1);
  fatbin(bad, 8, 1);
  bad[4] = 9;  // an unknown version
  const void *pieces[] = {good, bad, NULL};
  const struct wrapper wrappers[] = {
      {0x466243B1, 3, good, NULL}, {0x466243B1, 0, good, NULL},   {0x466243B1, 1, NULL, NULL},
      {0x466243B1, 1, bad, NULL},  {0x466243B1, 2, good, pieces},
  };
  for (unsigned i = 0; i < sizeof wrappers / sizeof *wrappers; i++) {
    assert_int_equal(image_read(&wrappers[i], &image), CUDA_ERROR_INVALID_IMAGE);
    assert_null(image.bytes);
  }
}

static void ptx_text(void **state) {
  (void)state;
  const char *text = ".version 8.0\n.target sm_52\n";
  size_t size = strlen(text) + 1;
  assert_int_equal(image_read(text, &image), CUDA_SUCCESS);
  check_parts(1, (uint32_t[]){WIRE_IMAGE_PTX}, (const void *[]){text}, &size);
  image_free(&image);
}

static void a_cubin(void **state) {
  (void)state;
  uint8_t bytes[512] = {0};
  Elf64_Ehdr header = {.e_shoff = 64, .e_shentsize = sizeof(Elf64_Shdr), .e_shnum = 2};
  memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  Elf64_Shdr section = {.sh_type = SHT_PROGBITS, .sh_offset = 300, .sh_size = 101};
  memcpy(bytes, &header, sizeof header);
  memcpy(bytes + 64 + sizeof section, &section, sizeof section);
  size_t size = 401;
  assert_int_equal(image_read(bytes, &image), CUDA_SUCCESS);
  check_parts(1, (uint32_t[]){WIRE_IMAGE_ELF}, (const void *[]){bytes}, &size);
  image_free(&image);
}

static void garbage(void **state) {
  (void)state;
  const uint64_t words[][4] = {{0}, {UINT64_MAX}, {0x0102030405060708}, {0xBA55ED51}};
  for (unsigned i = 0; i < sizeof words / sizeof *words; i++) {
    assert_int_equal(image_read(words[i], &image), CUDA_ERROR_INVALID_IMAGE);
    assert_null(image.bytes);
  }
  assert_int_equal(image_read(NULL, &image), CUDA_ERROR_INVALID_VALUE);
}

// ---- files: their length is known, so nothing beyond it is read ---------------------------------

static CUresult read_file(const void *bytes, size_t size) {
  char path[] = "/tmp/outboard-image-XXXXXX";
  int fd = mkstemp(path);
  assert_true(fd >= 0);
  assert_int_equal(write(fd, bytes, size), size);
  close(fd);
  CUresult result = image_read_file(path, &image);
  unlink(path);
  return result;
}

static void files(void **state) {
  (void)state;
  uint8_t bytes[64];
  size_t size = fatbin(bytes, 40, 7);
  assert_int_equal(read_file(bytes, size), CUDA_SUCCESS);
  check_parts(1, (uint32_t[]){WIRE_IMAGE_FATBIN}, (const void *[]){bytes}, &size);
  image_free(&image);
  const char *text = ".version 8.0\n";
  size = strlen(text) + 1;
  assert_int_equal(read_file(text, size - 1), CUDA_SUCCESS);
  check_parts(1, (uint32_t[]){WIRE_IMAGE_PTX}, (const void *[]){text}, &size);
  image_free(&image);
}

static void bad_files(void **state) {
  (void)state;
  uint8_t bytes[64];
  size_t size = fatbin(bytes, 40, 7);
  for (size_t cut = 0; cut < size; cut++)
    assert_int_equal(read_file(bytes, cut), CUDA_ERROR_INVALID_IMAGE);
  struct wrapper wrapper = {0x466243B1, 1, bytes, NULL};  // pointers in a file mean nothing
  assert_int_equal(read_file(&wrapper, sizeof wrapper), CUDA_ERROR_INVALID_IMAGE);
  assert_int_equal(image_read_file("/no/such/file", &image), CUDA_ERROR_FILE_NOT_FOUND);
  assert_int_equal(image_read_file("/tmp", &image), CUDA_ERROR_FILE_NOT_FOUND);
  assert_int_equal(image_read_file(NULL, &image), CUDA_ERROR_INVALID_VALUE);
}

// An entry as nvcc writes it, 64 bytes and nothing behind them but `size` bytes.
static size_t entry(uint8_t *at, uint16_t kind, uint32_t arch, uint32_t size) {
  memset(at, 0, 64 + size);
  memcpy(at, &(uint16_t[]){kind, 0x101}, 4);
  memcpy(at + 4, &(uint32_t){64}, 4);
  memcpy(at + 8, &(uint64_t){size}, 8);
  memcpy(at + 28, &arch, 4);
  return 64 + size;
}

static void what_it_holds_in_words(void **state) {
  (void)state;
  uint8_t bytes[1024];
  fatbin(bytes, 3 * 64 + 16 + 8 + 8, 0);
  uint8_t *at = bytes + 16;
  at += entry(at, 2, 75, 16);
  at += entry(at, 2, 120, 8);
  entry(at, 1, 52, 8);
  assert_int_equal(image_read(bytes, &image), CUDA_SUCCESS);
  char text[200];
  image_describe(&image, text, sizeof text);
  assert_string_equal(text, "machine code for sm_75, machine code for sm_120, PTX for sm_52");
  char little[20];
  image_describe(&image, little, sizeof little);
  assert_string_equal(little, "machine code for sm");
  image_free(&image);
  assert_int_equal(image_read(".version 8.0\n", &image), CUDA_SUCCESS);
  image_describe(&image, text, sizeof text);
  assert_string_equal(text, "PTX");
  image_free(&image);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_it_holds_in_words),
      cmocka_unit_test(a_plain_fatbin),
      cmocka_unit_test(wrapper_version_1),
      cmocka_unit_test(wrapper_version_2),
      cmocka_unit_test(bad_wrappers),
      cmocka_unit_test(ptx_text),
      cmocka_unit_test(a_cubin),
      cmocka_unit_test(garbage),
      cmocka_unit_test(files),
      cmocka_unit_test(bad_files),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
