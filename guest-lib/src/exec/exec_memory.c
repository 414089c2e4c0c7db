// What launches of an executable graph allocate and free. The lock of graphs is held.
#include <stdlib.h>

#include "exec/exec.h"
#include "exec/internal.h"
#include "graph/allocation.h"
#include "graph/graph.h"

static CUresult add(struct graph_exec *exec, struct graph_allocation *allocation, _Bool allocates) {
  size_t i = 0;
  while (i < exec->memory_count && exec->memory[i].allocation != allocation) i++;
  if (i == exec->memory_count) {
    struct graph_balance *grown = realloc(exec->memory, (i + 1) * sizeof *grown);
    if (grown) exec->memory = grown;
    _Bool *flags = realloc(exec->allocates, (i + 1) * sizeof *flags);
    if (flags) exec->allocates = flags;
    if (!grown || !flags) return CUDA_ERROR_OUT_OF_MEMORY;
    grown[i] = (struct graph_balance){graph_allocation_ref(allocation), 0};
    flags[i] = 0;
    exec->memory_count++;
  }
  exec->memory[i].left += allocates ? 1 : -1;
  exec->allocates[i] = exec->allocates[i] || allocates;
  return CUDA_SUCCESS;
}

CUresult exec_memory_make(struct graph_exec *exec) {
  CUresult result = CUDA_SUCCESS;
  if (!exec->plan->memory_nodes) return result;
  for (const struct graph_node *node = exec->plan->first; node && !result; node = node->next) {
    if (node->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
      result = add(exec, node->task->allocate.allocation, 1);
    else if (node->type == CU_GRAPH_NODE_TYPE_MEM_FREE)
      result = add(exec, node->task->freed, 0);
  }
  // Nodes are checked by the server when they come.
  for (size_t i = 0; i < exec->memory_count && !result; i++)
    result = graph_allocation_map(exec->memory[i].allocation);
  return result;
}

CUresult exec_memory_before(struct graph_exec *exec) {
  for (size_t i = 0; i < exec->memory_count; i++) {
    const struct graph_balance *balance = &exec->memory[i];
    _Bool live = graph_allocation_is_live(balance->allocation);
    // What the launch before has allocated has not been freed, or what is to be freed is not there.
    if (balance->left > 0 && live &&
        !(exec->flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH))
      return CUDA_ERROR_INVALID_VALUE;
    if (balance->left < 0 && !live) return CUDA_ERROR_INVALID_VALUE;
  }
  CUresult result = CUDA_SUCCESS;
  for (size_t i = 0; i < exec->memory_count && !result; i++) {
    if (!exec->allocates[i]) continue;
    result = graph_allocation_map(exec->memory[i].allocation);
    if (!result) graph_allocation_count(exec->memory[i].allocation);
  }
  return result;
}

void exec_memory_after(struct graph_exec *exec) {
  for (size_t i = 0; i < exec->memory_count; i++)
    if (exec->memory[i].left)
      graph_allocation_set_live(exec->memory[i].allocation, exec->memory[i].left > 0);
}

void exec_memory_end(struct graph_exec *exec) {
  for (size_t i = 0; i < exec->memory_count; i++)
    graph_allocation_unref(exec->memory[i].allocation);
  free(exec->memory);
  free(exec->allocates);
  exec->memory = NULL;
  exec->allocates = NULL;
  exec->memory_count = 0;
}
