// Tensor maps: what the driver is asked for, and what is not its to see.
#include "check.h"
#include "world.h"

using namespace outboard;

namespace {

wire_tensor tiled() {
  wire_tensor tensor{};
  tensor.rank = 2;
  tensor.sizes[0] = tensor.sizes[1] = 64;
  tensor.strides[0] = 256;
  for (uint32_t &side : tensor.box) side = 8;
  for (uint32_t &step : tensor.steps) step = 1;
  return tensor;
}

template <class Part>
std::string bytes_of(const Part &part) {
  return std::string(reinterpret_cast<const char *>(&part), sizeof part);
}

Answer encode(World &w, const wire_tensor &tensor, uint64_t address) {
  wire_TensorMapEncode q{};
  q.address = address;
  q.tensor_size = sizeof tensor;
  return w.guest.call(WIRE_TensorMapEncode, q, bytes_of(tensor));
}

std::vector<CUtensorMap> maps_of(const Answer &answer) {
  const auto reply = answer.frame.as<wire_TensorMapEncode_reply>();
  std::vector<CUtensorMap> maps(reply.maps_size / sizeof(CUtensorMap));
  if (!maps.empty())
    memcpy(static_cast<void *>(maps.data()), answer.frame.bytes.data() + sizeof reply,
           reply.maps_size);
  return maps;
}

}  // namespace

TEST(a_map_comes_with_two_of_other_addresses) {
  World w;
  const uint64_t at = World::base() + 64;
  const auto maps = maps_of(encode(w, tiled(), at));
  CHECK_EQUAL(maps.size(), 3u);
  CHECK_EQUAL(maps[0].opaque[3], at);
  CHECK_EQUAL(maps[1].opaque[3], at ^ WIRE_TENSOR_CHANGE1);
  CHECK_EQUAL(maps[2].opaque[3], at ^ WIRE_TENSOR_CHANGE2);
  for (const CUtensorMap &map : maps) CHECK_EQUAL(map.opaque[4], 1064u);
  wire_tensor pixels = tiled();
  pixels.kind = WIRE_TENSOR_IM2COL;
  pixels.rank = 4;
  CHECK_EQUAL(maps_of(encode(w, pixels, at))[0].opaque[4], 2064u);
}

TEST(what_the_driver_refuses_has_no_maps) {
  World w;
  const Answer answer = encode(w, tiled(), World::base() + 8);
  CHECK_EQUAL(answer.reply.result, CUDA_ERROR_INVALID_VALUE);
  CHECK_EQUAL(maps_of(answer).size(), 0u);
  // What a driver lacks, as older ones do.
  wire_tensor wide = tiled();
  wide.kind = WIRE_TENSOR_IM2COL_WIDE;
  wide.rank = 4;
  CHECK_EQUAL(encode(w, wide, World::base()).reply.result, CUDA_ERROR_NOT_SUPPORTED);
}

TEST(numbers_that_are_not_known_do_not_reach_the_driver) {
  World w;
  const auto result = [&](auto change) {
    wire_tensor tensor = tiled();
    change(tensor);
    return encode(w, tensor, World::base()).reply.result;
  };
  for (const auto member :
       {&wire_tensor::kind, &wire_tensor::type, &wire_tensor::rank, &wire_tensor::interleave,
        &wire_tensor::swizzle, &wire_tensor::promotion, &wire_tensor::fill, &wire_tensor::mode})
    CHECK_EQUAL(result([&](wire_tensor &tensor) { tensor.*member = 100; }),
                CUDA_ERROR_INVALID_VALUE);
  CHECK_EQUAL(result([](wire_tensor &tensor) { tensor.rank = 0; }), CUDA_ERROR_INVALID_VALUE);
  CHECK_EQUAL(result([](wire_tensor &tensor) { tensor.kind = WIRE_TENSOR_IM2COL; }),
              CUDA_ERROR_INVALID_VALUE);
  CHECK_EQUAL(World::fake().calls("cuTensorMapEncodeTiled"), 0u);
  CHECK_EQUAL(World::fake().calls("cuTensorMapEncodeIm2col"), 0u);
}

TEST(an_address_is_replaced) {
  World w;
  CUtensorMap map = maps_of(encode(w, tiled(), World::base()))[0];
  wire_TensorMapReplace q{};
  q.address = World::base() + 4096;
  q.map_size = sizeof map;
  const Answer answer = w.guest.call(WIRE_TensorMapReplace, q, bytes_of(map));
  CHECK_EQUAL(answer.reply.result, CUDA_SUCCESS);
  map.opaque[3] = q.address;
  CHECK(memcmp(answer.frame.bytes.data() + sizeof(wire_TensorMapReplace_reply), &map, sizeof map) ==
        0);
}

TEST(descriptions_of_another_size) {
  World w;
  wire_TensorMapEncode q{};
  q.tensor_size = 8;
  w.guest.ask(WIRE_TensorMapEncode, q, std::string(8, '\0'));
  w.expect_violation("another size");
}

TEST(maps_of_another_size) {
  World w;
  wire_TensorMapReplace q{};
  q.map_size = 8;
  w.guest.ask(WIRE_TensorMapReplace, q, std::string(8, '\0'));
  w.expect_violation("another size");
}
