// Tensor maps: one question for each description, where the address can be found in the answer.
#include <string.h>

#include "base/stats.h"
#include "check.h"
#include "guest_calls.h"
#include "server.h"
#include "session.h"

#define MIB (1ull << 20)

// Where the server's driver puts an address: its bits from the fifth on at a place of a map.
static unsigned place;
static _Bool scattered;   // ... and each of them apart from the others
static _Bool others_too;  // it makes maps of other addresses
static unsigned asked;

static void put_bit(uint8_t *map, unsigned at, _Bool value) {
  map[at / 8] = (uint8_t)((map[at / 8] & ~(1u << at % 8)) | (unsigned)value << at % 8);
}

static void pack(uint8_t map[WIRE_TENSOR_MAP_BYTES], uint32_t kind, uint64_t address) {
  memset(map, 0xa5, WIRE_TENSOR_MAP_BYTES);
  memset(map, (int)kind, 4);
  for (unsigned i = 5; i < 57; i++)
    put_bit(map, place + (i - 5) * (scattered ? 2 : 1), address >> i & 1);
}

static _Bool serve(struct server *server, const struct wire_header *h, void *context) {
  (void)context;
  struct {
    struct wire_TensorMapEncode_reply reply;
    uint8_t maps[WIRE_TENSOR_MAPS][WIRE_TENSOR_MAP_BYTES];
  } answer = {0};
  if (h->op == WIRE_TensorMapEncode) {
    const struct wire_TensorMapEncode *q = (const void *)h;
    const struct wire_tensor *tensor = (const void *)(q + 1);
    const uint32_t seed = tensor->rank * 16 + tensor->box[0];
    CHECK(q->tensor_size == sizeof *tensor);
    pack(answer.maps[0], seed, q->address);
    pack(answer.maps[1], seed, q->address ^ WIRE_TENSOR_CHANGE1);
    pack(answer.maps[2], seed, q->address ^ WIRE_TENSOR_CHANGE2);
    answer.reply.maps_size = WIRE_TENSOR_MAP_BYTES * (others_too ? WIRE_TENSOR_MAPS : 1);
    answer.reply.reply.request = q->request.request;
  } else if (h->op == WIRE_TensorMapReplace) {
    const struct wire_TensorMapReplace *q = (const void *)h;
    const uint8_t *map = (const void *)(q + 1);
    CHECK(q->map_size == WIRE_TENSOR_MAP_BYTES);
    pack(answer.maps[0], map[0], q->address);
    answer.reply.maps_size = WIRE_TENSOR_MAP_BYTES;
    answer.reply.reply.request = q->request.request;
  } else {
    return 0;
  }
  asked++;
  answer.reply.reply.header =
      (struct wire_header){WIRE_REPLY, 0, (uint32_t)sizeof answer.reply + answer.reply.maps_size};
  server_send(server, &answer, answer.reply.reply.header.size);
  return 1;
}

static const cuuint64_t sizes[] = {64, 8, 4}, strides[] = {256, 2048};
static const cuuint32_t steps[] = {1, 1, 1};

static CUresult encode(CUtensorMap *map, uint64_t address, cuuint32_t side) {
  const cuuint32_t box[] = {side, 4, 2};
  return cuTensorMapEncodeTiled(map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 3, (void *)address, sizes,
                                strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                                CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

// The map is the one that the server would have made.
static void expect_map(uint64_t address, cuuint32_t side) {
  _Alignas(64) CUtensorMap map;
  uint8_t wanted[WIRE_TENSOR_MAP_BYTES];
  assert_int_equal(encode(&map, address, side), CUDA_SUCCESS);
  pack(wanted, 3 * 16 + side, address);
  assert_memory_equal(&map, wanted, sizeof map);
}

static const uint64_t addresses[] = {0x7f0012345680, 0x7f0012345660, 0x100000000, 0x55aa33cc0fe0, 0,
                                     0x7fffffffffe0};

static void one_question_for_each_description(void **state) {
  (void)state;
  static const unsigned places[] = {0, 37, 64, 100, 128, 517, 900};
  others_too = 1;
  session_start(64 * MIB, (struct server_hook){serve, NULL});
  for (unsigned p = 0; p < sizeof places / sizeof *places; p++) {
    place = places[p];
    for (cuuint32_t side = 4; side <= 12; side += 4) {
      // Other descriptions than those of the places before.
      const cuuint32_t other = side + 16 * p;
      const unsigned before = asked;
      for (unsigned i = 0; i < sizeof addresses / sizeof *addresses; i++)
        expect_map(addresses[i], other);
      assert_int_equal(asked, before + 1);
    }
  }
  // Bits that the server was not asked about may be of the map, or of the address.
  const unsigned before = asked;
  expect_map(0x1007f0012345680, 4 + 16 * 6);
  assert_int_equal(asked, before + 1);
  expect_map(0x1007f0012345660, 4 + 16 * 6);
  assert_int_equal(asked, before + 1);
}

static void what_cannot_be_found_is_asked_for(void **state) {
  (void)state;
  session_start(64 * MIB, (struct server_hook){serve, NULL});
  scattered = 1;
  others_too = 1;
  place = 200;
  for (unsigned i = 0; i < 4; i++) expect_map(addresses[i], 4);
  assert_int_equal(asked, 4);
  scattered = 0;
  others_too = 0;
  for (unsigned i = 0; i < 4; i++) expect_map(addresses[i], 8);
  assert_int_equal(asked, 8);
}

static void addresses_are_replaced(void **state) {
  (void)state;
  session_start(64 * MIB, (struct server_hook){serve, NULL});
  place = 77;
  _Alignas(64) CUtensorMap map;
  _Alignas(64) CUtensorMap other;
  others_too = 0;
  assert_int_equal(encode(&map, addresses[0], 4), CUDA_SUCCESS);
  assert_int_equal(cuTensorMapReplaceAddress(&map, (void *)addresses[1]), CUDA_SUCCESS);
  assert_int_equal(asked, 2);  // nothing was learnt
  others_too = 1;
  assert_int_equal(encode(&other, addresses[1], 4), CUDA_SUCCESS);
  assert_memory_equal(&map, &other, sizeof map);
  assert_int_equal(cuTensorMapReplaceAddress(&map, (void *)addresses[3]), CUDA_SUCCESS);
  assert_int_equal(encode(&other, addresses[3], 4), CUDA_SUCCESS);
  assert_memory_equal(&map, &other, sizeof map);
  assert_int_equal(asked, 3);
}

static void what_is_refused_at_once(void **state) {
  (void)state;
  session_start(64 * MIB, (struct server_hook){serve, NULL});
  _Alignas(64) CUtensorMap maps[2];
  const CUresult wrong = CUDA_ERROR_INVALID_VALUE;
  assert_int_equal(encode(NULL, addresses[0], 4), wrong);
  assert_int_equal(encode((CUtensorMap *)&maps[0].opaque[2], addresses[0], 4), wrong);
  assert_int_equal(cuTensorMapReplaceAddress(NULL, (void *)addresses[0]), wrong);
  const int corner[3] = {0};
  for (cuuint32_t rank = 0; rank < 8; rank++) {
    if (rank >= 3 && rank <= 5) continue;
    assert_int_equal(
        cuTensorMapEncodeIm2col(maps, CU_TENSOR_MAP_DATA_TYPE_UINT8, rank, (void *)addresses[0],
                                sizes, strides, corner, corner, 16, 16, steps,
                                CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                                CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
        wrong);
  }
  assert_int_equal(asked, 0);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_question_for_each_description),
      cmocka_unit_test(what_cannot_be_found_is_asked_for),
      cmocka_unit_test(addresses_are_replaced),
      cmocka_unit_test(what_is_refused_at_once),
  };
  RUN_ONE_TEST(tests, argc, argv);
}
