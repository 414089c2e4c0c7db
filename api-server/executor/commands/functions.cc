// Attributes and occupancy of functions.
#include <algorithm>
#include <cstring>

#include "commands/launch_attributes.h"
#include "dispatch.h"
#include "images/describe.h"
#include "session/session.h"

namespace outboard {

void handle_FunctionDescribe(Session &s, const wire_FunctionDescribe &q) {
  const uint64_t request = q.request.request;
  wire_FunctionDescribe_reply reply{};
  const Function *function = s.objects().find_function(q.function);
  if (!function) {
    return s.answers().send(request, CUDA_ERROR_INVALID_HANDLE, &reply.reply, sizeof reply);
  }
  const wire_description description = describe_function(s.driver(), function->object);
  reply.description_size = sizeof description;
  s.answers().send(request, CUDA_SUCCESS, &reply.reply, sizeof reply, &description,
                   sizeof description);
}

void handle_FunctionSet(Session &s, const wire_FunctionSet &q) {
  const Function *function = s.objects().find_function(q.function);
  if (!function) return s.posted(WIRE_FunctionSet, CUDA_ERROR_INVALID_HANDLE);
  if (q.attribute >= CU_FUNC_ATTRIBUTE_MAX) {
    return s.posted(WIRE_FunctionSet, CUDA_ERROR_INVALID_VALUE);
  }
  s.posted(WIRE_FunctionSet,
           s.driver().cuFuncSetAttribute(function->object,
                                         static_cast<CUfunction_attribute>(q.attribute), q.value));
}

void handle_Occupancies(Session &s, const wire_Occupancies &q, std::span<const uint8_t> shapes) {
  const uint64_t request = q.request.request;
  wire_Occupancies_reply reply{};
  if (q.flags > CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE) {
    return s.answers().send(request, CUDA_ERROR_INVALID_VALUE, &reply.reply, sizeof reply);
  }
  const size_t count = shapes.size() / sizeof(wire_block_shape);
  if (shapes.size() % sizeof(wire_block_shape) != 0 || count > WIRE_OCCUPANCY_SIZES) {
    return s.violation("malformed Occupancies: its shapes are not whole, or too many");
  }
  const Function *function = s.objects().find_function(q.function);
  if (!function) {
    return s.answers().send(request, CUDA_ERROR_INVALID_HANDLE, &reply.reply, sizeof reply);
  }
  uint8_t blocks[WIRE_OCCUPANCY_SIZES] = {};
  for (size_t i = 0; i < count; i++) {
    wire_block_shape shape;
    memcpy(&shape, shapes.data() + i * sizeof shape, sizeof shape);
    const int threads = static_cast<int>(std::min<uint32_t>(shape.threads, INT32_MAX));
    blocks[i] = blocks_for(s.driver(), function->object, threads, shape.shared, q.flags);
  }
  reply.blocks_size = static_cast<uint32_t>(count);
  s.answers().send(request, CUDA_SUCCESS, &reply.reply, sizeof reply, blocks, count);
}

void handle_OccupancyClusters(Session &s, const wire_OccupancyClusters &q,
                              std::span<const uint8_t> attributes) {
  const uint64_t request = q.request.request;
  wire_OccupancyClusters_reply reply{};
  LaunchAttributes read;
  if (const char *why = read.decode(attributes)) return s.violation(why);
  const Function *function = s.objects().find_function(q.function);
  CUresult result = function ? read.resolve(s) : CUDA_ERROR_INVALID_HANDLE;
  if (result == CUDA_SUCCESS) {
    const CUlaunchConfig config = {q.grid_x,  q.grid_y, q.grid_z, q.block_x,   q.block_y,
                                   q.block_z, q.shared, nullptr,  read.data(), read.count()};
    result = q.most ? s.driver().cuOccupancyMaxPotentialClusterSize(&reply.clusters,
                                                                    function->object, &config)
                    : s.driver().cuOccupancyMaxActiveClusters(&reply.clusters, function->object,
                                                              &config);
  }
  s.answers().send(request, result, &reply.reply, sizeof reply);
}

}  // namespace outboard
