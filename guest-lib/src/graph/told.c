#include "graph/told.h"

#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

#include "graph/task.h"

// The newest is written again for each task that fits in. A larger one is at least twice as large:
// however often parameters change, all of them are no more than two of the largest.
struct graph_told {
  struct graph_told *older;
  size_t room;
  _Bool current;  // it is of the node's task
  alignas(16) unsigned char bytes[];
};

static struct graph_told *with_room(struct graph_node *node, size_t bytes) {
  struct graph_told *newest = node->told;
  if (newest && bytes <= newest->room) return newest;
  const size_t room = newest && 2 * newest->room > bytes ? 2 * newest->room : bytes;
  struct graph_told *larger = malloc(sizeof *larger + room);
  if (!larger) return NULL;
  *larger = (struct graph_told){.older = newest, .room = room};
  node->told = larger;
  return larger;
}

static CUresult keep_kernel(struct graph_node *node, CUDA_KERNEL_NODE_PARAMS_v3 *params) {
  const struct kernel_task *kernel = &node->task->kernel;
  if (!params->kernelParams) return CUDA_SUCCESS;
  // Behind the pointers, where values of any type may lie.
  const size_t begin = (kernel->pointer_count * sizeof(void *) + 15) / 16 * 16;
  struct graph_told *told = with_room(node, begin + kernel->parameter_bytes);
  if (!told) return CUDA_ERROR_OUT_OF_MEMORY;
  params->kernelParams = (void **)(void *)told->bytes;
  if (told->current) return CUDA_SUCCESS;
  memcpy(told->bytes + begin, kernel->parameters, kernel->parameter_bytes);
  for (uint32_t i = 0; i < kernel->pointer_count; i++)
    params->kernelParams[i] =
        told->bytes + begin + ((unsigned char *)kernel->pointers[i] - kernel->parameters);
  told->current = 1;
  return CUDA_SUCCESS;
}

static CUresult keep_values(struct graph_node *node, CUDA_BATCH_MEM_OP_NODE_PARAMS_v2 *params) {
  const size_t bytes = params->count * sizeof *params->paramArray;
  struct graph_told *told = with_room(node, bytes);
  if (!told) return CUDA_ERROR_OUT_OF_MEMORY;
  if (!told->current) memcpy(told->bytes, params->paramArray, bytes);
  told->current = 1;
  params->paramArray = (CUstreamBatchMemOpParams *)(void *)told->bytes;
  return CUDA_SUCCESS;
}

CUresult told_keep(struct graph_node *node, CUgraphNodeParams *params) {
  switch (params->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return keep_kernel(node, &params->kernel);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      return keep_values(node, &params->memOp);
    default:
      return CUDA_SUCCESS;
  }
}

void told_outdate(struct graph_node *node) {
  if (node->told) node->told->current = 0;
}

void told_free(struct graph_node *node) {
  for (struct graph_told *told = node->told, *older; told; told = older) {
    older = told->older;
    free(told);
  }
}
