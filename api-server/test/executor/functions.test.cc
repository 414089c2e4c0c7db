// What a guest is told of functions, and launches with attributes.
#include "check.h"
#include "world.h"

using namespace outboard;

namespace {

Answer open(World &w, uint64_t module, const std::string &text, const std::string &options = {}) {
  const std::string image = Guest::image(text);
  w.guest.send_image(image);
  wire_ModuleOpen q = w.guest.open_command(module, image);
  q.options_size = static_cast<uint32_t>(options.size());
  return w.guest.call(WIRE_ModuleOpen, q, options);
}

std::string jit_option(uint32_t option, uint64_t value) {
  return packed(wire_jit_option{option, 0, value});
}

std::string attribute(uint32_t id, uint64_t first = 0) {
  return packed(wire_launch_attribute{id, 0, {first, 0, 0}});
}

void launch_with(World &w, uint64_t function, const std::string &attributes) {
  wire_LaunchWith q{};
  q.function = function;
  q.grid_x = q.grid_y = q.grid_z = q.block_x = q.block_y = q.block_z = 1;
  q.attributes_size = static_cast<uint32_t>(attributes.size());
  w.guest.put(WIRE_LaunchWith, q, attributes);
}

void one_function(World &w) {
  open(w, module_handle(1), "kernel nothing\n");
  w.guest.function(module_handle(1), function_handle(1), "nothing");
}

}  // namespace

TEST(few_kernels_are_described) {
  World w;
  const Answer answer = open(w, module_handle(1), "kernel first 8\n");
  CHECK_EQUAL(answer.reply.result, CUDA_SUCCESS);
  const auto &reply = answer.frame.as<wire_ModuleOpen_reply>();
  CHECK_EQUAL(reply.state, WIRE_MODULE_LOADED);
  CHECK_EQUAL(reply.described, 1u);
  CHECK_EQUAL(reply.listed, 1u);
  struct {
    wire_kernel kernel;
    wire_description description;
    wire_parameter parameter;
    char name[8];
  } told;
  CHECK_EQUAL(reply.list_size, sizeof told);
  const std::string list = answer.frame.tail<wire_ModuleOpen_reply>(reply.list_size);
  memcpy(&told, list.data(), sizeof told);
  CHECK_EQUAL(told.description.known, 0xffffu);
  CHECK_EQUAL(told.description.attributes[3], 103);
  // 100 threads at most, says the fake driver: no block of five warps.
  CHECK_EQUAL(told.description.blocks[3], 3);
  CHECK_EQUAL(told.description.blocks[4], 0);
  CHECK_EQUAL(std::string(told.name), "first");
}

TEST(many_kernels_are_described_one_by_one) {
  World w;
  std::string text;
  for (int i = 0; i < 20; i++) text += "kernel number" + std::to_string(i) + " 4\n";
  const Answer answer = open(w, module_handle(1), text);
  const auto &reply = answer.frame.as<wire_ModuleOpen_reply>();
  CHECK_EQUAL(reply.described, 0u);
  CHECK_EQUAL(reply.listed, 20u);
  CHECK_EQUAL(World::fake().calls("cuFuncGetAttribute"), 0u);
  w.guest.function(module_handle(1), function_handle(1), "number7", 7);
  wire_FunctionDescribe q{};
  q.function = function_handle(1);
  const Answer told = w.guest.call(WIRE_FunctionDescribe, q);
  CHECK_EQUAL(told.reply.result, CUDA_SUCCESS);
  CHECK_EQUAL(told.frame.as<wire_FunctionDescribe_reply>().description_size,
              sizeof(wire_description));
  q.function = function_handle(2);
  CHECK_EQUAL(w.guest.call(WIRE_FunctionDescribe, q).reply.result, CUDA_ERROR_INVALID_HANDLE);
}

TEST(a_kernel_that_the_driver_cannot_describe) {
  World w;
  World::fake().fail("cuFuncGetAttribute", CUDA_ERROR_NOT_SUPPORTED, 0);
  const Answer answer = open(w, module_handle(1), "kernel first 8\n");
  const auto &reply = answer.frame.as<wire_ModuleOpen_reply>();
  CHECK_EQUAL(reply.listed, 1u);
  const std::string list = answer.frame.tail<wire_ModuleOpen_reply>(reply.list_size);
  wire_description told;
  memcpy(&told, list.data() + sizeof(wire_kernel), sizeof told);
  CHECK_EQUAL(told.known, 0u);
  CHECK_EQUAL(told.blocks[0], WIRE_OCCUPANCY_UNKNOWN);
}

TEST(what_the_compiler_said_comes_back) {
  World w;
  const std::string options = jit_option(CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, 1 << 30) +
                              jit_option(CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, 100) +
                              jit_option(CU_JIT_MAX_REGISTERS, 32);
  const Answer answer = open(w, module_handle(1), "kernel good\nnonsense here\n", options);
  CHECK_EQUAL(answer.reply.result, CUDA_SUCCESS);
  const auto &reply = answer.frame.as<wire_ModuleOpen_reply>();
  CHECK_EQUAL(reply.state, WIRE_MODULE_REFUSED);
  CHECK_EQUAL(reply.refused, CUDA_ERROR_INVALID_PTX);
  CHECK_EQUAL(reply.info_size, 0u);
  CHECK_EQUAL(answer.frame.tail<wire_ModuleOpen_reply>(reply.errors_size),
              "not understood: nonsense here");
}

TEST(options_that_are_none) {
  World w;
  // Addresses are no business of a guest's, nor are numbers that mean nothing.
  const std::string options = jit_option(CU_JIT_ERROR_LOG_BUFFER, 0x1000) +
                              jit_option(CU_JIT_WALL_TIME, 7) + jit_option(UINT32_MAX, 7) +
                              jit_option(CU_JIT_GLOBAL_SYMBOL_ADDRESSES, 0x2000);
  const Answer answer = open(w, module_handle(1), "kernel good\n", options);
  CHECK_EQUAL(answer.frame.as<wire_ModuleOpen_reply>().state, WIRE_MODULE_LOADED);
  wire_ModuleOpen q = w.guest.open_command(module_handle(2), Guest::image("kernel good\n"));
  q.options_size = 24;
  w.guest.put(WIRE_ModuleOpen, q, std::string(24, '\0'));
  w.expect_violation("not whole");
}

TEST(attributes_are_set_without_an_answer) {
  World w;
  one_function(w);
  wire_FunctionSet q{};
  q.function = function_handle(1);
  q.attribute = CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT;
  w.guest.put(WIRE_FunctionSet, q);
  CHECK_EQUAL(w.guest.synchronize().async, 0);
  CHECK_EQUAL(World::fake().calls("cuFuncSetAttribute"), 1u);
  q.attribute = UINT32_MAX;
  w.guest.put(WIRE_FunctionSet, q);
  CHECK_EQUAL(w.guest.synchronize().async, CUDA_ERROR_INVALID_VALUE);
  q.function = 77;
  w.guest.put(WIRE_FunctionSet, q);
  CHECK_EQUAL(w.guest.synchronize().async, CUDA_ERROR_INVALID_HANDLE);
  CHECK_EQUAL(World::fake().calls("cuFuncSetAttribute"), 1u);
}

TEST(occupancies_of_many_shapes) {
  World w;
  one_function(w);
  wire_Occupancies q{};
  q.function = function_handle(1);
  std::string shapes;
  for (uint32_t i = 0; i < 3; i++) shapes += packed(wire_block_shape{32 * i, 0, UINT64_MAX});
  q.shapes_size = static_cast<uint32_t>(shapes.size());
  const Answer answer = w.guest.call(WIRE_Occupancies, q, shapes);
  CHECK_EQUAL(answer.frame.as<wire_Occupancies_reply>().blocks_size, 3u);
  CHECK_EQUAL(answer.frame.tail<wire_Occupancies_reply>(3), "\3\3\3");
  q.function = function_handle(9);
  CHECK_EQUAL(w.guest.call(WIRE_Occupancies, q, shapes).reply.result, CUDA_ERROR_INVALID_HANDLE);
  q.shapes_size = 33 * sizeof(wire_block_shape);
  w.guest.put(WIRE_Occupancies, q, std::string(q.shapes_size, '\0'));
  w.expect_violation("too many");
}

TEST(clusters_are_asked_with_attributes) {
  World w;
  one_function(w);
  wire_OccupancyClusters q{};
  q.function = function_handle(1);
  const std::string attributes = attribute(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, 2);
  q.attributes_size = static_cast<uint32_t>(attributes.size());
  const Answer answer = w.guest.call(WIRE_OccupancyClusters, q, attributes);
  CHECK_EQUAL(answer.frame.as<wire_OccupancyClusters_reply>().clusters, 5);
  q.most = 1;
  CHECK_EQUAL(w.guest.call(WIRE_OccupancyClusters, q, attributes)
                  .frame.as<wire_OccupancyClusters_reply>()
                  .clusters,
              8);
  q.function = 0;
  CHECK_EQUAL(w.guest.call(WIRE_OccupancyClusters, q, attributes).reply.result,
              CUDA_ERROR_INVALID_HANDLE);
}

TEST(launches_with_attributes) {
  World w;
  one_function(w);
  const uint64_t event = w.guest.event(1);
  launch_with(w, function_handle(1),
              attribute(CU_LAUNCH_ATTRIBUTE_PRIORITY, UINT64_MAX) +
                  attribute(CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT, event));
  CHECK_EQUAL(w.guest.synchronize().async, 0);
  CHECK_EQUAL(World::fake().calls("cuLaunchKernel"), 1u);
  // An event of nobody, memory of nobody, a function of nobody.
  launch_with(w, function_handle(1), attribute(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT, 0x1234));
  CHECK_EQUAL(w.guest.synchronize().async, CUDA_ERROR_INVALID_HANDLE);
  launch_with(w, function_handle(1),
              packed(wire_launch_attribute{
                  CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW, 0, {0x1000, UINT64_MAX, 0}}));
  CHECK_EQUAL(w.guest.synchronize().async, CUDA_ERROR_INVALID_VALUE);
  launch_with(w, function_handle(5), {});
  CHECK_EQUAL(w.guest.synchronize().async, CUDA_ERROR_INVALID_HANDLE);
  CHECK_EQUAL(World::fake().calls("cuLaunchKernel"), 1u);
}

TEST(an_attribute_of_unknown_kind) {
  World w;
  one_function(w);
  launch_with(w, function_handle(1), attribute(CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE));
  w.expect_violation("unknown kind");
}

TEST(attributes_that_are_not_whole) {
  World w;
  one_function(w);
  launch_with(w, function_handle(1), std::string(24, '\0'));
  w.expect_violation("not whole");
}
