// Entry points: occupancy.
#include <algorithm>

#include "entry/entry.h"
#include "streams/launch.h"

using namespace softdev::driver;

namespace {

CUresult find_prepared(const void *handle, Callable *callable) {
  std::shared_ptr<Context> context;
  if (CUresult bad = enter(&context)) return bad;
  return guarded([&]() -> CUresult {
    if (CUresult bad = find_callable(handle, context, callable)) return bad;
    return prepare(*callable->kernel);
  });
}

// Blocks of a launch that the whole device holds.
int blocks_at_once(const Callable &callable, const CUlaunchConfig &config) {
  uint64_t threads = uint64_t{config.blockDimX} * config.blockDimY * config.blockDimZ;
  if (threads > limits::kThreadsPerBlock) return 0;
  const Device &device = callable.instance->context()->device();
  int per_multiprocessor = blocks_per_multiprocessor(
      device, callable.kernel->attributes(), static_cast<int>(threads), config.sharedMemBytes);
  return device.multiprocessors * per_multiprocessor;
}

CUresult apply_all(const CUlaunchConfig *config, LaunchRequest *request) {
  if (!config || (config->numAttrs && !config->attrs)) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < config->numAttrs; i++)
    if (CUresult bad = apply(config->attrs[i], request)) return bad;
  return CUDA_SUCCESS;
}

CUresult active_blocks(int *blocks, CUfunction function, int block_size, size_t shared,
                       unsigned flags) {
  Callable callable;
  if (CUresult bad = find_prepared(function, &callable)) return bad;
  if (!blocks || block_size <= 0 || flags > CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE)
    return CUDA_ERROR_INVALID_VALUE;
  *blocks = blocks_per_multiprocessor(callable.instance->context()->device(),
                                      callable.kernel->attributes(), block_size, shared);
  return CUDA_SUCCESS;
}

CUresult potential_block_size(int *least_grid, int *best_block, CUfunction function,
                              CUoccupancyB2DSize shared_of, size_t shared, int limit,
                              unsigned flags) {
  Callable callable;
  if (CUresult bad = find_prepared(function, &callable)) return bad;
  if (!least_grid || !best_block || limit < 0 || flags > CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE)
    return CUDA_ERROR_INVALID_VALUE;
  const softdev::KernelAttributes &attributes = callable.kernel->attributes();
  const Device &device = callable.instance->context()->device();
  int most = static_cast<int>(attributes.max_threads);
  if (limit) most = std::min(most, limit);
  int threads = 0, block = 0, blocks = 0;
  // From large to small, so that the largest of equals is kept.
  for (int size = round_up(static_cast<uint64_t>(most), limits::kWarp); size > 0;
       size -= limits::kWarp) {
    int tried = std::min(size, most);
    int fit =
        blocks_per_multiprocessor(device, attributes, tried, shared_of ? shared_of(tried) : shared);
    if (fit * tried <= threads) continue;
    threads = fit * tried;
    block = tried;
    blocks = fit;
  }
  *best_block = block;
  *least_grid = blocks * device.multiprocessors;
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function,
                                                     int block_size, size_t shared) {
  return active_blocks(blocks, function, block_size, shared, CU_OCCUPANCY_DEFAULT);
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, CUfunction function,
                                                              int block_size, size_t shared,
                                                              unsigned int flags) {
  return active_blocks(blocks, function, block_size, shared, flags);
}

CUresult cuOccupancyMaxPotentialBlockSize(int *least_grid, int *block, CUfunction function,
                                          CUoccupancyB2DSize shared_of, size_t shared, int limit) {
  return potential_block_size(least_grid, block, function, shared_of, shared, limit,
                              CU_OCCUPANCY_DEFAULT);
}

CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int *least_grid, int *block, CUfunction function,
                                                   CUoccupancyB2DSize shared_of, size_t shared,
                                                   int limit, unsigned int flags) {
  return potential_block_size(least_grid, block, function, shared_of, shared, limit, flags);
}

CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, CUfunction function, int blocks,
                                                 int block_size) {
  Callable callable;
  if (CUresult bad = find_prepared(function, &callable)) return bad;
  if (!bytes || blocks <= 0 || block_size <= 0) return CUDA_ERROR_INVALID_VALUE;
  const softdev::KernelAttributes &attributes = callable.kernel->attributes();
  const Device &device = callable.instance->context()->device();
  if (blocks_per_multiprocessor(device, attributes, block_size, 0) < blocks)
    return CUDA_ERROR_INVALID_VALUE;
  const Multiprocessor &room = device.multiprocessor();
  int share = room.shared / blocks - room.reserved;
  int most = std::min(share, room.shared_of_block) - static_cast<int>(attributes.static_shared);
  *bytes = static_cast<size_t>(std::max(most, 0));
  return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxPotentialClusterSize(int *size, CUfunction function,
                                            const CUlaunchConfig *config) {
  Callable callable;
  if (CUresult bad = find_prepared(function, &callable)) return bad;
  LaunchRequest request;
  if (!size) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult bad = apply_all(config, &request)) return bad;
  if (blocks_at_once(callable, *config) == 0)
    return refuse(CUDA_ERROR_INVALID_VALUE, "no block of this launch fits the device");
  *size = static_cast<int>(cluster_limit(callable.kernel->attributes(), *callable.settings));
  return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveClusters(int *clusters, CUfunction function,
                                      const CUlaunchConfig *config) {
  Callable callable;
  if (CUresult bad = find_prepared(function, &callable)) return bad;
  LaunchRequest request;
  if (!clusters) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult bad = apply_all(config, &request)) return bad;
  softdev::Dim3 cluster;
  if (CUresult bad = find_cluster(*callable.kernel, *callable.settings, request.cluster, &cluster))
    return bad;
  int blocks = cluster.x ? static_cast<int>(cluster.x * cluster.y * cluster.z) : 1;
  *clusters = blocks_at_once(callable, *config) / blocks;
  return CUDA_SUCCESS;
}

}  // extern "C"
