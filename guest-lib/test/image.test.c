// Program images as they travel: each kind a program may hand over, and what is none.
#include "images/image.h"

#include <elf.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "abi_fatbin.h"
#include "base/part_hash.h"
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
  struct part_hash hash;
  part_hash(image.bytes, image.size, &hash);
  assert_memory_equal(image.hash, hash.words, sizeof hash.words);
}

static void a_plain_fatbin(void **state) {
  (void)state;
  uint8_t bytes[64];
  size_t size = fatbin(bytes, 13, 5);
  assert_int_equal(image_read(bytes, NULL, &image), CUDA_SUCCESS);
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
  assert_int_equal(image_read(&wrapper, NULL, &image), CUDA_SUCCESS);
  check_parts(1, (uint32_t[]){WIRE_IMAGE_FATBIN}, (const void *[]){bytes}, &size);
  image_free(&image);
}

static void wrapper_version_2(void **state) {
  (void)state;
  uint8_t linked[64], first[64], second[64];
  size_t sizes[3] = {fatbin(linked, 40, 1), fatbin(first, 3, 2), fatbin(second, 17, 3)};
  const void *pieces[] = {first, second, NULL};
  struct wrapper wrapper = {0x466243B1, 2, linked, pieces};
  assert_int_equal(image_read(&wrapper, NULL, &image), CUDA_SUCCESS);
  uint32_t kinds[3] = {WIRE_IMAGE_FATBIN, WIRE_IMAGE_FATBIN, WIRE_IMAGE_FATBIN};
  check_parts(3, kinds, (const void *[]){linked, first, second}, sizes);
  image_free(&image);

  wrapper.pieces = NULL;
  assert_int_equal(image_read(&wrapper, NULL, &image), CUDA_SUCCESS);
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
    assert_int_equal(image_read(&wrappers[i], NULL, &image), CUDA_ERROR_INVALID_IMAGE);
    assert_null(image.bytes);
  }
}

static void ptx_text(void **state) {
  (void)state;
  const char *text = ".version 8.0\n.target sm_52\n";
  size_t size = strlen(text) + 1;
  assert_int_equal(image_read(text, NULL, &image), CUDA_SUCCESS);
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
  assert_int_equal(image_read(bytes, NULL, &image), CUDA_SUCCESS);
  check_parts(1, (uint32_t[]){WIRE_IMAGE_ELF}, (const void *[]){bytes}, &size);
  image_free(&image);
}

static void garbage(void **state) {
  (void)state;
  const uint64_t words[][4] = {{0}, {UINT64_MAX}, {0x0102030405060708}, {0xBA55ED51}};
  for (unsigned i = 0; i < sizeof words / sizeof *words; i++) {
    assert_int_equal(image_read(words[i], NULL, &image), CUDA_ERROR_INVALID_IMAGE);
    assert_null(image.bytes);
  }
  assert_int_equal(image_read(NULL, NULL, &image), CUDA_ERROR_INVALID_VALUE);
}

// ---- files: their length is known, so nothing beyond it is read ---------------------------------

static CUresult read_file(const void *bytes, size_t size) {
  char path[] = "/tmp/outboard-image-XXXXXX";
  int fd = mkstemp(path);
  assert_true(fd >= 0);
  assert_int_equal(write(fd, bytes, size), size);
  close(fd);
  CUresult result = image_read_file(path, NULL, &image);
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
  assert_int_equal(image_read_file("/no/such/file", NULL, &image), CUDA_ERROR_FILE_NOT_FOUND);
  assert_int_equal(image_read_file("/tmp", NULL, &image), CUDA_ERROR_FILE_NOT_FOUND);
  assert_int_equal(image_read_file(NULL, NULL, &image), CUDA_ERROR_INVALID_VALUE);
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
  assert_int_equal(image_read(bytes, NULL, &image), CUDA_SUCCESS);
  char text[200];
  image_describe(&image, text, sizeof text);
  assert_string_equal(text, "machine code for sm_75, machine code for sm_120, PTX for sm_52");
  char little[20];
  image_describe(&image, little, sizeof little);
  assert_string_equal(little, "machine code for sm");
  image_free(&image);
  assert_int_equal(image_read(".version 8.0\n", NULL, &image), CUDA_SUCCESS);
  image_describe(&image, text, sizeof text);
  assert_string_equal(text, "PTX");
  image_free(&image);
}

// ---- what travels of a fatbin -------------------------------------------------------------------

#define CODE ABI_ENTRY_ELF
#define PTX ABI_ENTRY_PTX
#define ALONE ABI_FATBIN_ARCH_SPECIFIC
#define FAMILY ABI_FATBIN_FAMILY_SPECIFIC

struct row {
  uint16_t kind;
  uint32_t arch;
  uint64_t flags;
  _Bool kept;
};

#define ROWS 8

// A fatbin of these entries, each of a size of its own; of those that are kept alone if `only`.
static size_t fatbin_of(uint8_t *at, const struct row *rows, _Bool only) {
  size_t used = 16;
  for (unsigned i = 0; i < ROWS && rows[i].kind; i++) {
    if (only && !rows[i].kept) continue;
    size_t size = entry(at + used, rows[i].kind, rows[i].arch, 8 * (i + 1));
    memcpy(at + used + 40, &rows[i].flags, 8);
    memset(at + used + 64, (int)i + 1, size - 64);
    used += size;
  }
  uint8_t header[16];
  fatbin(header, 0, 0);
  memcpy(header + 8, &(uint64_t){used - 16}, 8);
  memcpy(at, header, sizeof header);
  return used;
}

static void check_selection(const struct selection *devices, const struct row *rows) {
  static uint8_t all[4096], left[4096];
  fatbin_of(all, rows, 0);
  size_t size = fatbin_of(left, rows, 1);
  assert_int_equal(image_read(all, devices, &image), CUDA_SUCCESS);
  check_parts(1, (uint32_t[]){WIRE_IMAGE_FATBIN}, (const void *[]){left}, &size);
  image_free(&image);
}

static void a_device_gets_what_it_can_use(void **state) {
  (void)state;
  const struct {
    int major, minor;
    struct row rows[ROWS + 1];
  } cases[] = {
      // Code of its architecture, of which the newest, and the newest PTX that is not above it.
      {8,
       6,
       {{CODE, 75, 0, 0},
        {CODE, 80, 0, 0},
        {CODE, 86, 0, 1},
        {CODE, 89, 0, 0},
        {CODE, 90, 0, 0},
        {PTX, 80, 0, 0},
        {PTX, 86, 0, 1},
        {PTX, 90, 0, 0}}},
      {8,
       9,
       {{CODE, 75, 0, 0}, {CODE, 80, 0, 0}, {CODE, 86, 0, 1}, {CODE, 90, 0, 0}, {PTX, 90, 0, 0}}},
      {12, 0, {{CODE, 75, 0, 0}, {CODE, 90, 0, 0}, {PTX, 52, 0, 0}, {PTX, 80, 0, 1}}},
      // Of one architecture may be several, and all are one program.
      {7,
       5,
       {{CODE, 75, 0, 1}, {CODE, 75, 2, 1}, {CODE, 80, 0, 0}, {PTX, 52, 0, 1}, {PTX, 52, 0, 1}}},
      // What is for one architecture alone, or for its family, and what is for all.
      {9,
       0,
       {{CODE, 90, 0, 1},
        {CODE, 90, ALONE, 1},
        {CODE, 100, ALONE, 0},
        {PTX, 80, 0, 1},
        {PTX, 90, ALONE, 1},
        {PTX, 100, FAMILY, 0}}},
      {10,
       3,
       {{CODE, 90, ALONE, 0},
        {CODE, 100, 0, 1},
        {CODE, 100, ALONE, 0},
        {CODE, 100, FAMILY, 1},
        {PTX, 90, ALONE, 0},
        {PTX, 100, FAMILY, 1},
        {PTX, 90, 0, 1}}},
      {12,
       0,
       {{CODE, 120, 0, 1}, {PTX, 90, ALONE, 0}, {PTX, 100, FAMILY, 1}, {PTX, 90, FAMILY, 0}}},
      // What nobody knows is kept.
      {8, 0, {{CODE, 80, 0, 1}, {CODE, 75, 0, 0}, {8, 75, 0, 1}, {PTX, 75, 0, 1}}},
      // Nothing can be used: the driver says so, of all of it.
      {6, 1, {{CODE, 75, 0, 1}, {CODE, 80, 0, 1}, {PTX, 75, 0, 1}}},
      {9, 0, {{CODE, 80, 0, 1}, {CODE, 100, 0, 1}, {PTX, 80, ALONE, 1}}},
  };
  for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct selection device = {0};
    selection_add(&device, cases[i].major, cases[i].minor);
    check_selection(&device, cases[i].rows);
  }
}

static void several_devices_get_what_each_can_use(void **state) {
  (void)state;
  struct selection devices = {0};
  selection_add(&devices, 8, 6);
  selection_add(&devices, 9, 0);
  selection_add(&devices, 8, 6);
  assert_int_equal(devices.count, 2);
  check_selection(&devices, (struct row[ROWS + 1]){{CODE, 75, 0, 0},
                                                   {CODE, 80, 0, 1},
                                                   {CODE, 90, 0, 1},
                                                   {CODE, 100, 0, 0},
                                                   {PTX, 75, 0, 0},
                                                   {PTX, 80, 0, 1},
                                                   {PTX, 90, 0, 1}});
  // One that can use nothing gets all, so that its driver says so.
  selection_add(&devices, 5, 2);
  check_selection(&devices, (struct row[ROWS + 1]){{CODE, 75, 0, 1}, {CODE, 90, 0, 1}});
  check_selection(&(struct selection){0},
                  (struct row[ROWS + 1]){{CODE, 75, 0, 1}, {CODE, 90, 0, 1}});
}

static void inputs_of_a_link_travel_whole(void **state) {
  (void)state;
  struct selection device = {0};
  selection_add(&device, 9, 0);
  uint8_t linked[1024], piece[1024];
  const struct row rows[ROWS + 1] = {
      {CODE, 75, 0, 0}, {CODE, 90, 0, 0}, {PTX, 75, 0, 0}, {PTX, 90, 0, 0}};
  size_t sizes[2] = {fatbin_of(linked, rows, 0), fatbin_of(piece, rows, 0)};
  const void *pieces[] = {piece, NULL};
  struct wrapper wrapper = {0x466243B1, 2, linked, pieces};
  assert_int_equal(image_read(&wrapper, &device, &image), CUDA_SUCCESS);
  check_parts(2, (uint32_t[]){WIRE_IMAGE_FATBIN, WIRE_IMAGE_FATBIN},
              (const void *[]){linked, piece}, sizes);
  image_free(&image);
}

static void a_damaged_fatbin_travels_whole(void **state) {
  (void)state;
  struct selection device = {0};
  selection_add(&device, 9, 0);
  uint8_t bytes[1024];
  size_t size = fatbin_of(bytes, (struct row[ROWS + 1]){{CODE, 75, 0, 0}, {CODE, 90, 0, 0}}, 0);
  memcpy(bytes + 16 + 64 + 8 + 8, &(uint64_t){1 << 20}, 8);  // the second entry's payload
  assert_int_equal(image_read(bytes, &device, &image), CUDA_SUCCESS);
  check_parts(1, (uint32_t[]){WIRE_IMAGE_FATBIN}, (const void *[]){bytes}, &size);
  image_free(&image);
}

// A library whose code for another device has `hole` bytes, and for this one `own`; all are zeros
// that the file does not hold.
static CUresult read_large(uint64_t hole, uint64_t own) {
  char path[] = "/tmp/outboard-image-XXXXXX";
  int fd = mkstemp(path);
  assert_true(fd >= 0);
  uint8_t header[16], one[64];
  fatbin(header, 0, 0);
  memcpy(header + 8, &(uint64_t){2 * 64 + hole + own}, 8);
  assert_int_equal(pwrite(fd, header, sizeof header, 0), sizeof header);
  entry(one, CODE, 75, 0);
  memcpy(one + 8, &hole, 8);
  assert_int_equal(pwrite(fd, one, sizeof one, 16), sizeof one);
  entry(one, CODE, 90, 0);
  memcpy(one + 8, &own, 8);
  assert_int_equal(pwrite(fd, one, sizeof one, (off_t)(16 + 64 + hole)), sizeof one);
  assert_int_equal(ftruncate(fd, (off_t)(16 + 2 * 64 + hole + own)), 0);
  close(fd);
  struct selection device = {0};
  selection_add(&device, 9, 0);
  CUresult result = image_read_file(path, &device, &image);
  unlink(path);
  return result;
}

static long most_resident(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss >> 10;  // in MiB
}

static void a_large_library_is_not_read_whole(void **state) {
  (void)state;
  long before = most_resident();
  assert_int_equal(read_large(2ull << 30, 1000), CUDA_SUCCESS);
  assert_int_equal(image.size, sizeof(struct wire_image_part) + 16 + 64 + 1000);
  image_free(&image);
  assert_in_range(most_resident() - before, 0, 64);
}

static void what_no_server_takes_is_out_of_memory(void **state) {
  (void)state;
  long before = most_resident();
  assert_int_equal(read_large(1000, WIRE_IMAGE_MAX - 16 - 64 + 1), CUDA_ERROR_OUT_OF_MEMORY);
  assert_null(image.bytes);
  assert_int_equal(read_large(1000, 3ull << 30), CUDA_ERROR_OUT_OF_MEMORY);
  assert_in_range(most_resident() - before, 0, 64);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_device_gets_what_it_can_use),
      cmocka_unit_test(several_devices_get_what_each_can_use),
      cmocka_unit_test(inputs_of_a_link_travel_whole),
      cmocka_unit_test(a_damaged_fatbin_travels_whole),
      cmocka_unit_test(a_large_library_is_not_read_whole),
      cmocka_unit_test(what_no_server_takes_is_out_of_memory),
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
