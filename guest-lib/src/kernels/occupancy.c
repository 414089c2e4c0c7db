// Occupancy: how many blocks a multiprocessor holds is the driver's to say. What it says of a
// kernel without dynamic shared memory comes with its description, for blocks of every number of
// warps; otherwise it is asked once for all of them.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "guest_calls.h"
#include "kernels/function.h"
#include "kernels/internal.h"
#include "kernels/launch.h"
#include "kernels/lookup.h"
#include "session/context.h"
#include "session/device.h"
#include "wire/answer.h"

// Answers kept for a function.
#define TABLES_MAX 16

struct occupancy {
  size_t shared;
  unsigned flags;
  uint8_t blocks[WIRE_OCCUPANCY_SIZES];
  struct occupancy *next;
};

// Guards the tables of all functions.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

// A block of these has so many warps, from 1; 0 when a kernel of at most `most` threads has no
// such.
static int warps_of(int threads, int most) {
  return threads <= most && threads <= WIRE_OCCUPANCY_SIZES * WIRE_WARP
             ? (threads + WIRE_WARP - 1) / WIRE_WARP
             : 0;
}

// The largest block of that many warps.
static int threads_of(int warps, int most) {
  return warps * WIRE_WARP < most ? warps * WIRE_WARP : most;
}

static CUresult ask(struct session *session, uint64_t wire, unsigned flags,
                    const struct wire_block_shape *shapes, uint32_t count, uint8_t *blocks) {
  struct answer answer;
  answer_init(&answer);
  CUresult result =
      ask_Occupancies(session, wire, flags, shapes, count * (uint32_t)sizeof *shapes, &answer);
  if (!result) {
    const struct wire_Occupancies_reply *reply = answer.reply;
    if (reply->blocks_size == count && reply->reply.header.size - sizeof *reply >= count)
      memcpy(blocks, reply + 1, count);
    else
      result = CUDA_ERROR_UNKNOWN;
  }
  answer_free(&answer);
  return result;
}

void function_add_occupancy(struct function *function, size_t shared, unsigned flags,
                            const uint8_t blocks[WIRE_OCCUPANCY_SIZES]) {
  struct occupancy *table = malloc(sizeof *table);
  if (!table) return;
  table->shared = shared;
  table->flags = flags;
  memcpy(table->blocks, blocks, sizeof table->blocks);
  pthread_mutex_lock(&lock);
  table->next = function->occupancy;
  function->occupancy = table;
  int count = 0;
  struct occupancy **link = &function->occupancy;
  while (*link && count++ < TABLES_MAX) link = &(*link)->next;
  struct occupancy *last = *link;
  *link = NULL;
  pthread_mutex_unlock(&lock);
  free(last);
}

static _Bool recall(struct function *function, size_t shared, unsigned flags, uint8_t *blocks) {
  pthread_mutex_lock(&lock);
  const struct occupancy *table = function->occupancy;
  while (table && (table->shared != shared || table->flags != flags)) table = table->next;
  if (table) memcpy(blocks, table->blocks, sizeof table->blocks);
  pthread_mutex_unlock(&lock);
  return table != NULL;
}

void function_forget_occupancy(struct function *function) {
  pthread_mutex_lock(&lock);
  struct occupancy *table = function->occupancy;
  function->occupancy = NULL;
  pthread_mutex_unlock(&lock);
  while (table) {
    struct occupancy *next = table->next;
    free(table);
    table = next;
  }
}

// For blocks of every number of warps with `shared` bytes each.
static CUresult table_for(struct session *session, struct function *function, uint64_t wire,
                          int most, size_t shared, unsigned flags, uint8_t *blocks) {
  if (recall(function, shared, flags, blocks)) return CUDA_SUCCESS;
  struct wire_block_shape shapes[WIRE_OCCUPANCY_SIZES];
  for (int i = 0; i < WIRE_OCCUPANCY_SIZES; i++)
    shapes[i] = (struct wire_block_shape){(uint32_t)threads_of(i + 1, most), 0, shared};
  CUresult result = ask(session, wire, flags, shapes, WIRE_OCCUPANCY_SIZES, blocks);
  if (!result) function_add_occupancy(function, shared, flags, blocks);
  return result;
}

static CUresult most_threads(struct session *session, struct function *function, uint64_t wire,
                             int *most) {
  CUresult result = function_describe(session, function, wire);
  if (result) return result;
  result =
      function_attribute(session, function, wire, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, most);
  // A server's number, and a program loops over what lies below it.
  if (!result && *most > WIRE_OCCUPANCY_SIZES * WIRE_WARP) *most = WIRE_OCCUPANCY_SIZES * WIRE_WARP;
  return result;
}

CUresult function_occupancy(struct session *session, struct function *function, uint64_t wire,
                            int threads, size_t shared, unsigned flags, int *blocks) {
  int most;
  CUresult result = most_threads(session, function, wire, &most);
  if (result) return result;
  int warps = warps_of(threads, most);
  *blocks = 0;
  if (!warps) return CUDA_SUCCESS;
  uint8_t table[WIRE_OCCUPANCY_SIZES];
  if ((result = table_for(session, function, wire, most, shared, flags, table))) return result;
  *blocks = table[warps - 1];
  return *blocks == WIRE_OCCUPANCY_UNKNOWN ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

// ---- entry points ------------------------------------------------------------------------------

CUresult guest_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *numBlocks, CUfunction func,
                                                                    int blockSize,
                                                                    size_t dynamicSMemSize,
                                                                    unsigned int flags) {
  struct function *function;
  uint64_t wire;
  CUresult result = function_resolve(func, &function, &wire);
  if (result) return result;
  if (!numBlocks || blockSize <= 0 || flags > CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE)
    return CUDA_ERROR_INVALID_VALUE;
  return function_occupancy(session_here(), function, wire, blockSize, dynamicSMemSize, flags,
                            numBlocks);
}

CUresult guest_cuOccupancyMaxActiveBlocksPerMultiprocessor(int *numBlocks, CUfunction func,
                                                           int blockSize, size_t dynamicSMemSize) {
  return guest_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(numBlocks, func, blockSize,
                                                                    dynamicSMemSize, 0);
}

// The largest block that keeps a multiprocessor fullest, as the vendor's reference describes it.
CUresult guest_cuOccupancyMaxPotentialBlockSizeWithFlags(
    int *minGridSize, int *blockSize, CUfunction func,
    CUoccupancyB2DSize blockSizeToDynamicSMemSize, size_t dynamicSMemSize, int blockSizeLimit,
    unsigned int flags) {
  struct function *function;
  uint64_t wire;
  CUresult result = function_resolve(func, &function, &wire);
  if (result) return result;
  if (!minGridSize || !blockSize || blockSizeLimit < 0 ||
      flags > CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE)
    return CUDA_ERROR_INVALID_VALUE;
  int allowed;
  struct session *session = session_here();  // before a function of the program makes calls
  if ((result = most_threads(session, function, wire, &allowed))) return result;
  int most = blockSizeLimit > 0 && blockSizeLimit < allowed ? blockSizeLimit : allowed;
  int count = warps_of(most, most);
  uint8_t blocks[WIRE_OCCUPANCY_SIZES];
  if (blockSizeToDynamicSMemSize) {
    // What each size needs is known first, so that one question has them all.
    struct wire_block_shape shapes[WIRE_OCCUPANCY_SIZES];
    _Bool varies = 0;
    for (int i = count - 1; i >= 0; i--) {
      int threads = threads_of(i + 1, most);
      shapes[i] =
          (struct wire_block_shape){(uint32_t)threads, 0, blockSizeToDynamicSMemSize(threads)};
      varies = varies || shapes[i].shared != shapes[count - 1].shared;
    }
    if (!varies && count) dynamicSMemSize = shapes[0].shared;
    result = varies ? ask(session, wire, flags, shapes, (uint32_t)count, blocks)
                    : table_for(session, function, wire, allowed, dynamicSMemSize, flags, blocks);
  } else {
    result = table_for(session, function, wire, allowed, dynamicSMemSize, flags, blocks);
  }
  if (result) return result;
  int best_threads = 0, best_block = 0, best_blocks = 0;
  for (int i = count - 1; i >= 0; i--) {
    int threads = threads_of(i + 1, most);
    if (blocks[i] == WIRE_OCCUPANCY_UNKNOWN || blocks[i] * threads <= best_threads) continue;
    best_threads = blocks[i] * threads;
    best_block = threads;
    best_blocks = blocks[i];
  }
  *blockSize = best_block;
  *minGridSize = best_blocks * device_attribute(context_current()->device,
                                                CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  return CUDA_SUCCESS;
}

CUresult guest_cuOccupancyMaxPotentialBlockSize(int *minGridSize, int *blockSize, CUfunction func,
                                                CUoccupancyB2DSize blockSizeToDynamicSMemSize,
                                                size_t dynamicSMemSize, int blockSizeLimit) {
  return guest_cuOccupancyMaxPotentialBlockSizeWithFlags(
      minGridSize, blockSize, func, blockSizeToDynamicSMemSize, dynamicSMemSize, blockSizeLimit, 0);
}

// ---- clusters ----------------------------------------------------------------------------------

static CUresult ask_clusters(int *out, CUfunction func, const CUlaunchConfig *config,
                             uint32_t most) {
  struct function *function;
  uint64_t wire;
  CUresult result = function_resolve(func, &function, &wire);
  if (result) return result;
  if (!out || !config || (config->numAttrs && !config->attrs)) return CUDA_ERROR_INVALID_VALUE;
  struct launch_shape shape = {0};
  struct launch_attributes attributes;
  result = launch_attributes_read(config->attrs, config->numAttrs, &attributes, &shape);
  if (result) return result;
  struct answer answer;
  answer_init(&answer);
  result = ask_OccupancyClusters(session_here(), wire, most, config->gridDimX, config->gridDimY,
                                 config->gridDimZ, config->blockDimX, config->blockDimY,
                                 config->blockDimZ, config->sharedMemBytes, attributes.travel,
                                 attributes.count * (uint32_t)sizeof *attributes.travel, &answer);
  if (!result) *out = ((const struct wire_OccupancyClusters_reply *)answer.reply)->clusters;
  answer_free(&answer);
  return result;
}

CUresult guest_cuOccupancyMaxActiveClusters(int *numClusters, CUfunction func,
                                            const CUlaunchConfig *config) {
  return ask_clusters(numClusters, func, config, 0);
}

CUresult guest_cuOccupancyMaxPotentialClusterSize(int *clusterSize, CUfunction func,
                                                  const CUlaunchConfig *config) {
  return ask_clusters(clusterSize, func, config, 1);
}
