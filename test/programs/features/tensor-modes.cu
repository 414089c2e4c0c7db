// What tensor maps have since capability 10.0: four rows at a time, pixels of one row of each
// image, larger chunks that change places, and elements of 4 and 6 bits. flags: -gencode
// arch=compute_100a,code=compute_100a -lcuda
#include <cstring>
#include <vector>

#include "../check.h"
#include "../check_driver.h"
#include "tensor_copies.h"

constexpr unsigned kBox = 32768;  // bytes
constexpr unsigned kTensor = 1 << 16;

enum Way { kTile, kGather, kWide, kWide128, kStore, kScatter };

struct Place {
  int at[5];
  unsigned short halo, offset;
};

// One thread copies a box in or out; in shared memory are what the host gave, and then the copy.
__global__ void copy(const __grid_constant__ CUtensorMap map, Way way, unsigned bytes, Place place,
                     unsigned *image) {
  __shared__ alignas(1024) unsigned box[kBox / 4];
  __shared__ uint64_t bar;
  for (unsigned i = threadIdx.x; i < kBox / 4; i += blockDim.x) box[i] = image[i];
  if (threadIdx.x == 0) {
    barrier_init(&bar, 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    if (way < kStore) barrier_expect(&bar, bytes);
  }
  publish_for_copies();
  __syncthreads();
  const int *at = place.at;
  if (threadIdx.x == 0) {
    const uint32_t to = shared_address(box), object = shared_address(&bar);
    if (way == kTile) load_2d(box, map, at[0], at[1], &bar);
    if (way == kGather)
      asm volatile(
          "cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes"
          " [%0], [%1, {%2, %3, %4, %5, %6}], [%7];" ::"r"(to),
          "l"(&map), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]), "r"(at[4]), "r"(object)
          : "memory");
    if (way == kWide)
      asm volatile(
          "cp.async.bulk.tensor.4d.shared::cta.global.im2col::w.mbarrier::complete_tx::bytes"
          " [%0], [%1, {%2, %3, %4, %5}], [%6], {%7, %8};" ::"r"(to),
          "l"(&map), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]), "r"(object), "h"(place.halo),
          "h"(place.offset)
          : "memory");
    if (way == kWide128)
      asm volatile(
          "cp.async.bulk.tensor.4d.shared::cluster.global.im2col::w::128"
          ".mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], [%6], {%7, %8};" ::"r"(to),
          "l"(&map), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]), "r"(object), "h"(place.halo),
          "h"(place.offset)
          : "memory");
    if (way == kStore) store_2d(map, at[0], at[1], box);
    if (way == kScatter)
      asm volatile(
          "cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group"
          " [%0, {%1, %2, %3, %4, %5}], [%6];" ::"l"(&map),
          "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]), "r"(at[4]), "r"(to)
          : "memory");
    if (way >= kStore) wait_for_stores();
  }
  if (way < kStore) barrier_wait(&bar, 0);
  __syncthreads();
  for (unsigned i = threadIdx.x; i < kBox / 4; i += blockDim.x) image[i] = box[i];
}

using Bytes = std::vector<unsigned char>;

unsigned char *tensor;
unsigned *image;
Bytes tensor_before, image_before, wanted;

unsigned get(const Bytes &from, size_t bit, unsigned count) {
  unsigned value = 0;
  for (unsigned i = 0; i < count; i++, bit++) value |= (from[bit / 8] >> bit % 8 & 1u) << i;
  return value;
}
void put(Bytes &to, size_t bit, unsigned count, unsigned value) {
  for (unsigned i = 0; i < count; i++, bit++) {
    const unsigned mask = 1u << bit % 8;
    to[bit / 8] = static_cast<unsigned char>((to[bit / 8] & ~mask) | (value >> i & 1 ? mask : 0));
  }
}

// Contents of their own for each copy.
void prepare() {
  static unsigned seed = 1;
  for (Bytes *all : {&tensor_before, &image_before}) {
    all->resize(all == &tensor_before ? kTensor : kBox);
    for (unsigned char &one : *all) {
      seed = seed * 1664525 + 1013904223;
      one = static_cast<unsigned char>(seed >> 24);
    }
  }
  CHECK(cudaMemcpy(tensor, tensor_before.data(), kTensor, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(image, image_before.data(), kBox, cudaMemcpyHostToDevice));
}
// Whether a copy gave `wanted`, in shared memory or in the tensor.
void show(const char *what, const CUtensorMap &map, Way way, unsigned bytes, const Place &place) {
  copy<<<1, 64>>>(map, way, bytes, place, image);
  Bytes got(wanted.size());
  CHECK(cudaMemcpy(got.data(), way < kStore ? reinterpret_cast<void *>(image) : tensor, got.size(),
                   cudaMemcpyDeviceToHost));
  printf("%s: %s\n", what, got == wanted ? "right" : "wrong");
}

struct alignas(128) Maps {
  CUtensorMap map;
};

// Where 16 bytes lie that have so many before them: chunks of `atom` bytes change places.
unsigned moved(unsigned place, unsigned atom) {
  if (!atom) return place;
  const unsigned count = 128 / atom, line = place / 128, chunk = place % 128 / atom;
  return line * 128 + (chunk ^ line % count) * atom + place % atom;
}

// Tensors of two dimensions; `padded`: sixteen elements to 16 bytes of shared memory, at their
// begin or each in a byte.
struct Flat {
  const char *name;
  CUtensorMapDataType type;
  CUtensorMapSwizzle swizzle;
  unsigned bits, row, atom;
  bool padded;
};

constexpr unsigned kRows = 20;

CUresult encode(CUtensorMap *map, const Flat &flat, unsigned elements, unsigned rows) {
  const cuuint64_t sizes[] = {elements, kRows}, strides[] = {512};
  const cuuint32_t box[] = {flat.row, rows}, steps[] = {1, 1};
  return cuTensorMapEncodeTiled(map, flat.type, 2, tensor, sizes, strides, box, steps,
                                CU_TENSOR_MAP_INTERLEAVE_NONE, flat.swizzle,
                                CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

// Bits of shared memory and of the tensor that belong together; f(shared, tensor or -1).
template <class F>
void each(const Flat &flat, unsigned elements, const Place &place, unsigned rows, bool gathers,
          bool in_bytes, F f) {
  const unsigned pitch = flat.padded || flat.atom ? 128 : flat.row * flat.bits / 8;
  for (unsigned r = 0; r < rows; r++)
    for (unsigned x = 0; x < flat.row; x++) {
      const int column = place.at[0] + static_cast<int>(x);
      const int row = gathers ? place.at[1 + r] : place.at[1] + static_cast<int>(r);
      unsigned bit = x * flat.bits;
      if (flat.padded) bit = x / 16 * 128 + x % 16 * (in_bytes ? 8 : flat.bits);
      const unsigned byte = moved(r * pitch + bit / 8, flat.atom);
      const bool inside = column >= 0 && column < static_cast<int>(elements) && row >= 0 &&
                          row < static_cast<int>(kRows);
      f(byte * 8 + bit % 8, inside ? row * 512 * 8 + column * static_cast<int>(flat.bits) : -1);
    }
}

void flat_copies(const Flat &flat, unsigned elements, const Place &place, bool stores) {
  for (bool gathers : {false, true}) {
    const unsigned rows = gathers ? 4 : 9;
    const char *ways[][2] = {{"in", "out"}, {"four rows in", "four rows out"}};
    Maps maps;
    DRIVER(encode(&maps.map, flat, elements, gathers ? 1 : rows));
    char name[64];
    prepare();
    wanted = image_before;
    each(flat, elements, place, rows, gathers, false, [&](unsigned to, int from) {
      put(wanted, to, flat.bits, from < 0 ? 0 : get(tensor_before, from, flat.bits));
    });
    snprintf(name, sizeof name, "%s, %s", flat.name, ways[gathers][0]);
    show(name, maps.map, gathers ? kGather : kTile, rows * flat.row * flat.bits / 8, place);
    if (!stores) continue;
    prepare();
    wanted = tensor_before;
    each(flat, elements, place, rows, gathers, true, [&](unsigned from, int to) {
      if (to >= 0) put(wanted, to, flat.bits, get(image_before, from, flat.bits));
    });
    snprintf(name, sizeof name, "%s, %s", flat.name, ways[gathers][1]);
    show(name, maps.map, gathers ? kScatter : kStore, 0, place);
  }
}

// Images of 9 x 5 pixels of 16 channels, of which 8 are copied: from one pixel of a row on, to the
// right, and on in the same row of the next image.
constexpr int kChannels = 16, kX = 9, kY = 5, kImages = 20;

void wide_copies(bool all) {
  const cuuint64_t sizes[] = {kChannels, kX, kY, kImages};
  const cuuint64_t strides[] = {kChannels * 4, kChannels * kX * 4, kChannels * kX * kY * 4};
  const cuuint32_t steps[] = {1, 2, 3, 1};  // that of the rows does not count
  constexpr int kLower = -1, kUpper = -2, kPixels = 40;
  Maps maps;
  DRIVER(cuTensorMapEncodeIm2colWide(
      &maps.map, CU_TENSOR_MAP_DATA_TYPE_UINT32, 4, tensor, sizes, strides, kLower, kUpper, 8,
      kPixels, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
      all ? CU_TENSOR_MAP_IM2COL_WIDE_MODE_W128 : CU_TENSOR_MAP_IM2COL_WIDE_MODE_W,
      CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B, CU_TENSOR_MAP_L2_PROMOTION_NONE,
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
  const Place place = {{4, 3, 2, 1}, static_cast<unsigned short>(all ? 0 : 2), 1};
  const unsigned pixels = all ? 128 : kPixels + place.halo;
  prepare();
  wanted = image_before;
  int x = place.at[1], picture = place.at[3];
  for (unsigned p = 0; p < pixels; p++, x += 2) {
    if (x > kX - 1 + kUpper) x = kLower, picture++;
    const int here = x + place.offset;
    for (unsigned c = 0; c < 8; c++) {
      const int element = ((picture * kY + place.at[2]) * kX + here) * kChannels + place.at[0] + c;
      const bool inside = here >= 0 && here < kX && picture < kImages;
      put(wanted, moved(p * 128 + c * 4, 32) * 8, 32,
          inside ? get(tensor_before, element * 32, 32) : 0);
    }
  }
  show(all ? "128 pixels of rows" : "pixels of rows", maps.map, all ? kWide128 : kWide, pixels * 32,
       place);
}

int main() {
  CHECK(cudaMalloc(&tensor, kTensor));
  CHECK(cudaMalloc(&image, kBox));
  // Copies out begin inside of the tensor.
  const Place corner = {{-4, -2, 0, 19, 20}, 0, 0}, inside = {{8, 3, 17, 5, 4}, 0, 0};
  const Place far = {{128, 13, 1, 18, 2}, 0, 0}, out = {{384, 0, 1, 2, 3}, 0, 0};
  using T = CUtensorMapDataType_enum;
  using S = CUtensorMapSwizzle_enum;
  const Flat words = {
      "words", T::CU_TENSOR_MAP_DATA_TYPE_UINT32, S::CU_TENSOR_MAP_SWIZZLE_NONE, 32, 24, 0, false};
  flat_copies(words, 50, corner, false);
  flat_copies(words, 50, inside, true);
  for (unsigned atom : {16, 32, 64}) {
    const Flat flat = {atom == 16   ? "chunks of 16 bytes"
                       : atom == 32 ? "chunks of 32 bytes"
                                    : "chunks of 64 bytes",
                       T::CU_TENSOR_MAP_DATA_TYPE_UINT16,
                       atom == 16   ? S::CU_TENSOR_MAP_SWIZZLE_128B
                       : atom == 32 ? S::CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B
                                    : S::CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B,
                       16,
                       64,
                       atom,
                       false};
    flat_copies(flat, 100, inside, true);
    flat_copies(flat, 100, corner, false);
  }
  wide_copies(false);
  wide_copies(true);
  const Flat four = {
      "4 bits", T::CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B, S::CU_TENSOR_MAP_SWIZZLE_NONE, 4, 96, 0,
      false};
  flat_copies(four, 150, corner, false);
  flat_copies(four, 150, inside, true);
  Flat padded = {"4 bits, padded",
                 T::CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B,
                 S::CU_TENSOR_MAP_SWIZZLE_NONE,
                 4,
                 128,
                 0,
                 true};
  for (const Place &place : {far, out}) flat_copies(padded, 384, place, false);
  padded.swizzle = S::CU_TENSOR_MAP_SWIZZLE_128B;
  padded.atom = 16;
  flat_copies(padded, 384, far, false);
  Flat six = {"6 bits, padded",
              T::CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B,
              S::CU_TENSOR_MAP_SWIZZLE_NONE,
              6,
              128,
              0,
              true};
  for (const Place &place : {far, out}) flat_copies(six, 384, place, true);
  six.swizzle = S::CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B;
  six.atom = 32;
  flat_copies(six, 384, far, true);

  // What there is not.
  Maps maps;
  Flat wrong = six;
  SHOW_DRIVER(encode(&maps.map, wrong, 320, 4));
  wrong.row = 64;
  SHOW_DRIVER(encode(&maps.map, wrong, 384, 4));
  wrong = four;
  SHOW_DRIVER(encode(&maps.map, wrong, 151, 4));
  wrong.row = 80;
  SHOW_DRIVER(encode(&maps.map, wrong, 160, 4));
  return 0;
}
