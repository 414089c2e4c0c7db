// Launches with attributes: clusters and what they may be, events that a launch records, priority,
// carve-out, large parameters; occupancy of clusters; launches as before CUDA 4.
// flags: -lcuda -gencode=arch=compute_90,code=compute_90 -Xcompiler=-Wno-deprecated-declarations
#include <cooperative_groups.h>
#include <cuda.h>

#include "../check.h"

struct Large {
  int words[2000];
};

__global__ void ranks(int *out) {
  out[blockIdx.x] = 100 * (int)cooperative_groups::this_cluster().num_blocks() +
                    (int)cooperative_groups::this_cluster().block_rank();
}
__global__ void __cluster_dims__(2, 1, 1) pairs(int *out) {
  out[blockIdx.x] = (int)cooperative_groups::this_cluster().block_rank();
}
__global__ void sum(int *out, Large large) {
  int total = 0;
  for (int i = threadIdx.x; i < 2000; i += blockDim.x) total += large.words[i];
  atomicAdd(out, total);
}
__global__ void scale(int *out, int factor, float added) {
  out[blockIdx.x * blockDim.x + threadIdx.x] =
      factor * (blockIdx.y * gridDim.x + blockIdx.x) + (int)added;
}

static int *out;

static void show(const char *what, CUresult result, int count) {
  const char *name = "?";
  int host[8];
  cuGetErrorName(result, &name);
  printf("%s: %s", what, name);
  if (result == CUDA_SUCCESS) {
    CHECK(cudaMemcpy(host, out, sizeof(int) * count, cudaMemcpyDeviceToHost));
    for (int i = 0; i < count; i++) printf(" %d", host[i]);
  }
  printf("\n");
}

int main() {
  CHECK(cudaMalloc(&out, 8 * sizeof(int)));
  CHECK(cudaMemset(out, 0, 8 * sizeof(int)));
  CUfunction function, compiled, summed, scaled;
  CHECK(cudaGetFuncBySymbol(&function, (const void *)ranks));
  CHECK(cudaGetFuncBySymbol(&compiled, (const void *)pairs));
  CHECK(cudaGetFuncBySymbol(&summed, (const void *)sum));
  CHECK(cudaGetFuncBySymbol(&scaled, (const void *)scale));

  void *parameters[] = {&out};
  CUlaunchAttribute attributes[3] = {};
  CUlaunchConfig config = {};
  config.gridDimX = 8;
  config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = 32;
  config.blockDimY = config.blockDimZ = 1;
  config.attrs = attributes;
  config.numAttrs = 1;
  attributes[0].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  attributes[0].value.clusterDim.y = attributes[0].value.clusterDim.z = 1;
  for (unsigned size : {1u, 4u, 8u, 3u, 16u, 0u}) {
    attributes[0].value.clusterDim.x = size;
    char what[40];
    snprintf(what, sizeof what, "clusters of %u", size);
    show(what, cuLaunchKernelEx(&config, function, parameters, nullptr), 8);
  }
  int clusters;
  attributes[0].value.clusterDim.x = 2;
  if (cuOccupancyMaxActiveClusters(&clusters, function, &config) == CUDA_SUCCESS)
    printf("clusters of 2 fit: %d\n", clusters > 0);
  if (cuOccupancyMaxPotentialClusterSize(&clusters, function, &config) == CUDA_SUCCESS)
    printf("the largest cluster: %d\n", clusters);

  config.numAttrs = 0;
  show("compiled for pairs", cuLaunchKernelEx(&config, compiled, parameters, nullptr), 8);
  config.gridDimX = 7;
  show("seven of them", cuLaunchKernelEx(&config, compiled, parameters, nullptr), 7);
  config.gridDimX = 8;
  config.numAttrs = 1;
  attributes[0].value.clusterDim.x = 4;
  show("four of them", cuLaunchKernelEx(&config, compiled, parameters, nullptr), 8);

  // What a function is told.
  int value = -1;
  show("wider", cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, 2), 0);
  config.numAttrs = 0;
  show("with a width alone", cuLaunchKernelEx(&config, function, parameters, nullptr), 8);
  show("high", cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT, 1), 0);
  show("deep", cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH, 1), 0);
  show("as the function says", cuLaunchKernelEx(&config, function, parameters, nullptr), 8);
  show("compiled is compiled",
       cuFuncSetAttribute(compiled, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, 4), 0);
  show("carve-out",
       cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 50), 0);
  cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, function);
  printf("it is %d\n", value);
  show("too much",
       cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 101), 0);
  show("registers", cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_NUM_REGS, 16), 0);
  show("no attribute", cuFuncSetAttribute(function, (CUfunction_attribute)50, 1), 0);

  // An event that the launch records, and hints.
  CUevent event, timed;
  cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
  cuEventCreate(&timed, 0);
  attributes[0].id = CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT;
  attributes[0].value.launchCompletionEvent.event = event;
  attributes[0].value.launchCompletionEvent.flags = 0;
  attributes[1].id = CU_LAUNCH_ATTRIBUTE_PRIORITY;
  attributes[1].value.priority = -1;
  attributes[2].id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
  attributes[2].value.programmaticStreamSerializationAllowed = 1;
  config.numAttrs = 3;
  CHECK(cudaMemset(out, 0, 8 * sizeof(int)));
  show("with hints", cuLaunchKernelEx(&config, function, parameters, nullptr), 8);
  show("the event", cuEventSynchronize(event), 0);
  attributes[2].id = CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING;
  for (unsigned wanted : {0u, 1u, 2u}) {
    attributes[2].value.nvlinkUtilCentricScheduling = wanted;
    show("even use of NVLink", cuLaunchKernelEx(&config, function, parameters, nullptr), 8);
  }
  attributes[2].value.nvlinkUtilCentricScheduling = 0;
  attributes[0].value.launchCompletionEvent.event = timed;
  show("one with time", cuLaunchKernelEx(&config, function, parameters, nullptr), 8);
  attributes[0].value.launchCompletionEvent.event = nullptr;
  show("none", cuLaunchKernelEx(&config, function, parameters, nullptr), 8);

  // What no launch, node or stream can have.
  const auto refused = [](const char *what, CUresult result, CUresult expected) {
    show(what, result == CUDA_SUCCESS ? CUDA_ERROR_UNKNOWN : result, 0);
    if (result != expected) exit(1);
  };
  config.numAttrs = 1;
  for (int unknown : {15, 17, 99, -1}) {
    attributes[0] = {};
    attributes[0].id = (CUlaunchAttributeID)unknown;
    refused("an unknown attribute", cuLaunchKernelEx(&config, function, parameters, nullptr),
            CUDA_ERROR_INVALID_VALUE);
    refused("of a cluster", cuOccupancyMaxActiveClusters(&clusters, function, &config),
            CUDA_ERROR_INVALID_VALUE);
    refused("of a stream",
            cuStreamSetAttribute(nullptr, (CUstreamAttrID)unknown, &attributes[0].value),
            CUDA_ERROR_INVALID_VALUE);
    refused("asked of a stream",
            cuStreamGetAttribute(nullptr, (CUstreamAttrID)unknown, &attributes[0].value),
            CUDA_ERROR_INVALID_VALUE);
  }
  attributes[0] = {};
  attributes[0].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE;
  attributes[0].value.clusterSchedulingPolicyPreference = (CUclusterSchedulingPolicy)3;
  refused("no policy", cuLaunchKernelEx(&config, function, parameters, nullptr),
          CUDA_ERROR_INVALID_VALUE);
  attributes[0].id = CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN;
  attributes[0].value.memSyncDomain = (CUlaunchMemSyncDomain)2;
  refused("no domain", cuLaunchKernelEx(&config, function, parameters, nullptr),
          CUDA_ERROR_INVALID_VALUE);
  refused("no domain", cuStreamSetAttribute(nullptr, attributes[0].id, &attributes[0].value),
          CUDA_ERROR_INVALID_VALUE);
  attributes[0] = {};
  attributes[0].id = CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW;
  attributes[0].value.accessPolicyWindow.hitProp = (CUaccessProperty)3;
  refused("no property", cuStreamSetAttribute(nullptr, attributes[0].id, &attributes[0].value),
          CUDA_ERROR_INVALID_VALUE);
  CUgraph graph;
  CUgraphNode node;
  CUDA_KERNEL_NODE_PARAMS kernel = {};
  kernel.func = function;
  kernel.gridDimX = 8;
  kernel.gridDimY = kernel.gridDimZ = kernel.blockDimX = kernel.blockDimY = kernel.blockDimZ = 1;
  kernel.kernelParams = parameters;
  cuGraphCreate(&graph, 0);
  show("a node", cuGraphAddKernelNode(&node, graph, nullptr, 0, &kernel), 0);
  refused("no property",
          cuGraphKernelNodeSetAttribute(node, attributes[0].id, &attributes[0].value),
          CUDA_ERROR_INVALID_VALUE);
  const auto nvlink = (CUkernelNodeAttrID)CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING;
  CUkernelNodeAttrValue hint = {};
  hint.nvlinkUtilCentricScheduling = 1;
  show("a node's hint", cuGraphKernelNodeSetAttribute(node, nvlink, &hint), 0);
  hint = {};
  show("asked", cuGraphKernelNodeGetAttribute(node, nvlink, &hint), 0);
  printf("it is %u\n", hint.nvlinkUtilCentricScheduling);
  refused("an unknown attribute",
          cuGraphKernelNodeSetAttribute(node, (CUkernelNodeAttrID)99, &attributes[0].value),
          CUDA_ERROR_INVALID_VALUE);
  cuGraphDestroy(graph);
  refused("no flag",
          cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&value, function, 32, 0, 2),
          CUDA_ERROR_INVALID_VALUE);

  Large large;
  for (int i = 0; i < 2000; i++) large.words[i] = i;
  void *both[] = {&out, &large};
  CHECK(cudaMemset(out, 0, 8 * sizeof(int)));
  show("8000 bytes of parameters",
       cuLaunchKernel(summed, 1, 1, 1, 64, 1, 1, 0, nullptr, both, nullptr), 1);

  // Bit by bit.
  show("no shape", cuLaunch(scaled), 0);
  show("shape", cuFuncSetBlockShape(scaled, 2, 1, 1), 0);
  show("no parameters", cuLaunchGrid(scaled, 2, 1), 0);
  cuParamSetv(scaled, 0, &out, sizeof out);
  cuParamSeti(scaled, 8, 10);
  cuParamSetf(scaled, 12, 5.0f);
  show("size", cuParamSetSize(scaled, 16), 0);
  show("a grid", cuLaunchGrid(scaled, 3, 1), 6);
  show("too large", cuParamSetSize(scaled, 40000), 0);
  show("before the start", cuParamSeti(scaled, -1, 1), 0);
  show("no width", cuLaunchGrid(scaled, 0, 1), 0);

  CHECK(cudaFree(out));
  return 0;
}
