// Tensor maps. Only the server's driver knows what they look like, but one differs from that of
// another address by the address alone: the first of a description is asked for, with two of other
// addresses beside it, from which is learnt where the address is. Where it cannot be found the
// server is asked each time.
#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include "guest_calls.h"
#include "session/context.h"
#include "wire/answer.h"

#define WORDS (WIRE_TENSOR_MAP_BYTES / 8)
#define ALIGNMENT 64
#define TABLE 256
#define ADDRESS_BITS (((1ull << WIRE_TENSOR_BITS) - 1) << WIRE_TENSOR_LOWEST_BIT)

struct map {
  uint64_t words[WORDS];
};

// A description whose map is known for all addresses that differ in ADDRESS_BITS only.
struct learnt {
  struct session *session;  // NULL: nothing
  struct wire_tensor tensor;
  uint64_t address;
  struct map map;
  unsigned place;  // where in the map the lowest of these bits is
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct learnt table[TABLE];
static unsigned next;  // that is overwritten

static unsigned lowest_bit(const struct map *map) {
  for (unsigned i = 0; i < WORDS; i++)
    if (map->words[i]) return i * 64 + (unsigned)__builtin_ctzll(map->words[i]);
  return WORDS * 64;
}

// The map with the address's bits at `place`.
static struct map put_address(const struct map *map, unsigned place, uint64_t address) {
  struct map made = *map;
  const uint64_t mask = (1ull << WIRE_TENSOR_BITS) - 1;
  const uint64_t bits = address >> WIRE_TENSOR_LOWEST_BIT & mask;
  const unsigned word = place / 64, shift = place % 64;
  made.words[word] = (made.words[word] & ~(mask << shift)) | bits << shift;
  if (shift + WIRE_TENSOR_BITS > 64)
    made.words[word + 1] = (made.words[word + 1] & ~(mask >> (64 - shift))) | bits >> (64 - shift);
  return made;
}

// Whether the address lies in the map of maps[0] as a row of bits, and where: what is found must
// make each of the three maps out of the first.
static _Bool find_address(const struct map maps[WIRE_TENSOR_MAPS], uint64_t address,
                          unsigned *place) {
  static const uint64_t changes[WIRE_TENSOR_MAPS] = {0, WIRE_TENSOR_CHANGE1, WIRE_TENSOR_CHANGE2};
  struct map difference;
  for (unsigned i = 0; i < WORDS; i++) difference.words[i] = maps[0].words[i] ^ maps[1].words[i];
  *place = lowest_bit(&difference);
  if (*place + WIRE_TENSOR_BITS > WORDS * 64) return 0;
  for (unsigned i = 0; i < WIRE_TENSOR_MAPS; i++) {
    struct map made = put_address(&maps[0], *place, address ^ changes[i]);
    if (memcmp(&made, &maps[i], sizeof made) != 0) return 0;
  }
  return 1;
}

static _Bool fits(const struct learnt *known, const struct session *session, uint64_t address) {
  return known->session == session && !((known->address ^ address) & ~ADDRESS_BITS);
}

static _Bool known_map(const struct session *session, const struct wire_tensor *tensor,
                       uint64_t address, struct map *map) {
  _Bool found = 0;
  pthread_mutex_lock(&lock);
  for (unsigned i = 0; i < TABLE && !found; i++) {
    const struct learnt *known = &table[i];
    found = fits(known, session, address) && !memcmp(&known->tensor, tensor, sizeof *tensor);
    if (found) *map = put_address(&known->map, known->place, address);
  }
  pthread_mutex_unlock(&lock);
  return found;
}

static void learn(struct session *session, const struct wire_tensor *tensor, uint64_t address,
                  const struct map maps[WIRE_TENSOR_MAPS]) {
  struct learnt learnt = {session, *tensor, address, maps[0], 0};
  if (!find_address(maps, address, &learnt.place)) return;
  pthread_mutex_lock(&lock);
  table[next++ % TABLE] = learnt;
  pthread_mutex_unlock(&lock);
}

static CUresult make(CUtensorMap *out, const struct wire_tensor *tensor, const void *pointer) {
  if (!out || (uintptr_t)out % ALIGNMENT) return CUDA_ERROR_INVALID_VALUE;
  const uint64_t address = (uintptr_t)pointer;
  struct session *session = session_here();
  struct map maps[WIRE_TENSOR_MAPS];
  if (known_map(session, tensor, address, &maps[0])) {
    memcpy(out, &maps[0], sizeof maps[0]);
    return CUDA_SUCCESS;
  }
  struct answer answer;
  answer_init(&answer);
  CUresult result = ask_TensorMapEncode(session, address, tensor, sizeof *tensor, &answer);
  if (!result) {
    const struct wire_TensorMapEncode_reply *reply = answer.reply;
    const size_t size = reply->maps_size, there = reply->reply.header.size - sizeof *reply;
    if (there >= size && (size == sizeof maps || size == sizeof maps[0])) {
      memcpy(maps, reply + 1, size);
      memcpy(out, &maps[0], sizeof maps[0]);
      if (size == sizeof maps) learn(session, tensor, address, maps);
    } else {
      result = CUDA_ERROR_UNKNOWN;
    }
  }
  answer_free(&answer);
  return result;
}

// What all kinds have; false when there is no such tensor.
static _Bool describe(struct wire_tensor *tensor, uint32_t kind, CUtensorMapDataType type,
                      cuuint32_t rank, const cuuint64_t *sizes, const cuuint64_t *strides,
                      const cuuint32_t *steps, CUtensorMapInterleave interleave,
                      CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                      CUtensorMapFloatOOBfill fill) {
  if (rank < (kind == WIRE_TENSOR_TILED ? 1 : 3) || rank > 5) return 0;
  if (!sizes || !steps || (!strides && rank > 1)) return 0;
  *tensor = (struct wire_tensor){.kind = kind,
                                 .type = (uint32_t)type,
                                 .rank = rank,
                                 .interleave = (uint32_t)interleave,
                                 .swizzle = (uint32_t)swizzle,
                                 .promotion = (uint32_t)promotion,
                                 .fill = (uint32_t)fill};
  memcpy(tensor->sizes, sizes, rank * sizeof *sizes);
  memcpy(tensor->steps, steps, rank * sizeof *steps);
  if (rank > 1) memcpy(tensor->strides, strides, (rank - 1) * sizeof *strides);
  return 1;
}

// ---- entry points ------------------------------------------------------------------------------

CUresult guest_cuTensorMapEncodeTiled(CUtensorMap *tensorMap, CUtensorMapDataType tensorDataType,
                                      cuuint32_t tensorRank, void *globalAddress,
                                      const cuuint64_t *globalDim, const cuuint64_t *globalStrides,
                                      const cuuint32_t *boxDim, const cuuint32_t *elementStrides,
                                      CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                      CUtensorMapL2promotion l2Promotion,
                                      CUtensorMapFloatOOBfill oobFill) {
  struct wire_tensor tensor;
  if (!boxDim ||
      !describe(&tensor, WIRE_TENSOR_TILED, tensorDataType, tensorRank, globalDim, globalStrides,
                elementStrides, interleave, swizzle, l2Promotion, oobFill))
    return CUDA_ERROR_INVALID_VALUE;
  memcpy(tensor.box, boxDim, tensorRank * sizeof *boxDim);
  return make(tensorMap, &tensor, globalAddress);
}

CUresult guest_cuTensorMapEncodeIm2col(CUtensorMap *tensorMap, CUtensorMapDataType tensorDataType,
                                       cuuint32_t tensorRank, void *globalAddress,
                                       const cuuint64_t *globalDim, const cuuint64_t *globalStrides,
                                       const int *pixelBoxLowerCorner,
                                       const int *pixelBoxUpperCorner, cuuint32_t channelsPerPixel,
                                       cuuint32_t pixelsPerColumn, const cuuint32_t *elementStrides,
                                       CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                       CUtensorMapL2promotion l2Promotion,
                                       CUtensorMapFloatOOBfill oobFill) {
  struct wire_tensor tensor;
  if (!pixelBoxLowerCorner || !pixelBoxUpperCorner ||
      !describe(&tensor, WIRE_TENSOR_IM2COL, tensorDataType, tensorRank, globalDim, globalStrides,
                elementStrides, interleave, swizzle, l2Promotion, oobFill))
    return CUDA_ERROR_INVALID_VALUE;
  memcpy(tensor.lower, pixelBoxLowerCorner, (tensorRank - 2) * sizeof(int));
  memcpy(tensor.upper, pixelBoxUpperCorner, (tensorRank - 2) * sizeof(int));
  tensor.channels = channelsPerPixel;
  tensor.pixels = pixelsPerColumn;
  return make(tensorMap, &tensor, globalAddress);
}

CUresult guest_cuTensorMapEncodeIm2colWide(
    CUtensorMap *tensorMap, CUtensorMapDataType tensorDataType, cuuint32_t tensorRank,
    void *globalAddress, const cuuint64_t *globalDim, const cuuint64_t *globalStrides,
    int pixelBoxLowerCornerWidth, int pixelBoxUpperCornerWidth, cuuint32_t channelsPerPixel,
    cuuint32_t pixelsPerColumn, const cuuint32_t *elementStrides, CUtensorMapInterleave interleave,
    CUtensorMapIm2ColWideMode mode, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2Promotion,
    CUtensorMapFloatOOBfill oobFill) {
  struct wire_tensor tensor;
  if (!describe(&tensor, WIRE_TENSOR_IM2COL_WIDE, tensorDataType, tensorRank, globalDim,
                globalStrides, elementStrides, interleave, swizzle, l2Promotion, oobFill))
    return CUDA_ERROR_INVALID_VALUE;
  tensor.mode = (uint32_t)mode;
  tensor.lower[0] = pixelBoxLowerCornerWidth;
  tensor.upper[0] = pixelBoxUpperCornerWidth;
  tensor.channels = channelsPerPixel;
  tensor.pixels = pixelsPerColumn;
  return make(tensorMap, &tensor, globalAddress);
}

CUresult guest_cuTensorMapReplaceAddress(CUtensorMap *tensorMap, void *globalAddress) {
  if (!tensorMap || (uintptr_t)tensorMap % ALIGNMENT) return CUDA_ERROR_INVALID_VALUE;
  const uint64_t address = (uintptr_t)globalAddress;
  struct session *session = session_here();
  struct map map;
  memcpy(&map, tensorMap, sizeof map);
  // One that differs from a known map by the address alone.
  _Bool found = 0;
  pthread_mutex_lock(&lock);
  for (unsigned i = 0; i < TABLE && !found; i++) {
    const struct learnt *known = &table[i];
    if (!fits(known, session, address)) continue;
    const struct map wanted = put_address(&known->map, known->place, address),
                     given = put_address(&map, known->place, address);
    found = !memcmp(&wanted, &given, sizeof wanted);
    if (found) map = wanted;
  }
  pthread_mutex_unlock(&lock);
  CUresult result = CUDA_SUCCESS;
  if (!found) {
    struct answer answer;
    answer_init(&answer);
    result = ask_TensorMapReplace(session, address, &map, sizeof map, &answer);
    if (!result) {
      const struct wire_TensorMapReplace_reply *reply = answer.reply;
      if (reply->map_size == sizeof map && reply->reply.header.size - sizeof *reply >= sizeof map)
        memcpy(&map, reply + 1, sizeof map);
      else
        result = CUDA_ERROR_UNKNOWN;
    }
    answer_free(&answer);
  }
  if (!result) memcpy(tensorMap, &map, sizeof map);
  return result;
}
