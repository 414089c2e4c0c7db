// Calls that came with CUDA 13.1 to 13.5, found as a runtime of theirs finds them: numbers of
// parameters, copies with attributes, hints of host functions, parameters of any node of a graph.
// flags: -lcuda
#include <cuda.h>
#include <cstring>

#include "../check.h"
#include "../check_driver.h"

// By its name and the version that it came with; an older program does not find it.
template <class Function>
static Function newer(const char *name, int version, int before) {
  void *found = nullptr, *older = nullptr;
  CUdriverProcAddressQueryResult status;
  DRIVER(cuGetProcAddress(name, &found, version, CU_GET_PROC_ADDRESS_DEFAULT, &status));
  CUresult result = cuGetProcAddress(name, &older, before, CU_GET_PROC_ADDRESS_DEFAULT, &status);
  printf("%s at %d: %s, status %d, the same: %d\n", name, before, driver_name(result), status,
         found == older);
  return reinterpret_cast<Function>(found);
}
#define NEWER(name, version, before, ...) newer<CUresult (*)(__VA_ARGS__)>(#name, version, before)

static const char text[] = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .entry three(.param .u64 out, .param .u32 value, .param .u8 last)
{
  ret;
}
.visible .entry none()
{
  ret;
}
)";

static void parameter_counts() {
  auto function_count = NEWER(cuFuncGetParamCount, 13020, 13010, CUfunction, size_t *);
  auto kernel_count = NEWER(cuKernelGetParamCount, 13020, 13010, CUkernel, size_t *);
  CUmodule module;
  CUlibrary library;
  DRIVER(cuModuleLoadData(&module, text));
  DRIVER(cuLibraryLoadData(&library, text, nullptr, nullptr, 0, nullptr, nullptr, 0));
  for (const char *name : {"three", "none"}) {
    CUfunction function;
    CUkernel kernel;
    size_t of_function = 99, of_kernel = 99;
    DRIVER(cuModuleGetFunction(&function, module, name));
    DRIVER(cuLibraryGetKernel(&kernel, library, name));
    DRIVER(function_count(function, &of_function));
    DRIVER(kernel_count(kernel, &of_kernel));
    printf("%s: %zu and %zu parameters\n", name, of_function, of_kernel);
    SHOW_DRIVER(function_count(function, nullptr));
    SHOW_DRIVER(kernel_count(kernel, nullptr));
  }
  size_t count;
  SHOW_DRIVER(function_count(nullptr, &count));
  SHOW_DRIVER(kernel_count(nullptr, &count));
  DRIVER(cuModuleUnload(module));
  DRIVER(cuLibraryUnload(library));
}

static void copies() {
  auto copy = NEWER(cuMemcpyWithAttributesAsync, 13020, 13010, CUdeviceptr, CUdeviceptr, size_t,
                    CUmemcpyAttributes *, CUstream);
  auto copy_box = NEWER(cuMemcpy3DWithAttributesAsync, 13020, 13010, CUDA_MEMCPY3D_BATCH_OP *,
                        unsigned long long, CUstream);
  CUdeviceptr device;
  DRIVER(cuMemAlloc(&device, 64));
  char in[64], out[64] = "";
  for (int i = 0; i < 64; i++) in[i] = static_cast<char>('0' + i);
  CUmemcpyAttributes attributes = {};
  attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
  const auto at = [](void *host) { return reinterpret_cast<CUdeviceptr>(host); };
  // Unlike batches, to the legacy stream, too.
  DRIVER(copy(device, at(in), 64, &attributes, nullptr));
  memset(in, 0, sizeof in);
  DRIVER(copy(at(out), device + 16, 32, &attributes, CU_STREAM_LEGACY));
  DRIVER(cuCtxSynchronize());
  printf("%.32s\n", out);
  SHOW_DRIVER(copy(device, at(in), 64, nullptr, nullptr));
  attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_INVALID;
  SHOW_DRIVER(copy(device, at(in), 64, &attributes, nullptr));
  attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  SHOW_DRIVER(copy(device + 32, device, 64, &attributes, nullptr));

  CUDA_MEMCPY3D_BATCH_OP box = {};
  box.src.type = box.dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
  box.src.op.ptr.ptr = device;
  box.src.op.ptr.rowLength = 16;
  box.dst.op.ptr.ptr = at(out);
  box.extent = {4, 3, 1};
  box.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  memset(out, 0, sizeof out);
  DRIVER(copy_box(&box, 0, nullptr));
  DRIVER(cuCtxSynchronize());
  printf("%s\n", out);
  SHOW_DRIVER(copy_box(&box, 1, nullptr));
  SHOW_DRIVER(copy_box(nullptr, 0, nullptr));
  box.extent.depth = 0;
  SHOW_DRIVER(copy_box(&box, 0, nullptr));
  DRIVER(cuMemFree(device));
}

static void say(void *what) { printf("%s\n", static_cast<const char *>(what)); }

static void host_functions() {
  auto call = NEWER(cuLaunchHostFunc, 13010, 13000, CUstream, CUhostFn, void *, unsigned);
  for (unsigned mode = 0; mode < 3; mode++) {
    char line[32];
    snprintf(line, sizeof line, "waited for in way %u", mode);
    const CUresult result = call(nullptr, say, line, mode);
    DRIVER(cuCtxSynchronize());
    printf("%s\n", driver_name(result));
  }
  SHOW_DRIVER(call(nullptr, nullptr, nullptr, 0));
}

// As the header of CUDA 13.4 has the parameters of a host node.
struct HostParams {
  CUhostFn function;
  void *data;
  unsigned mode;
  CUcontext context;
};

static void nodes() {
  auto add = NEWER(cuGraphAddNode, 13040, 13000, CUgraphNode *, CUgraph, const CUgraphNode *,
                   const CUgraphEdgeData *, size_t, CUgraphNodeParams *);
  auto set = NEWER(cuGraphNodeSetParams, 13040, 13030, CUgraphNode, CUgraphNodeParams *);
  auto get = NEWER(cuGraphNodeGetParams, 13020, 13010, CUgraphNode, CUgraphNodeParams *);
  auto containing = NEWER(cuGraphNodeGetContainingGraph, 13010, 13000, CUgraphNode, CUgraph *);
  CUcontext context;
  DRIVER(cuCtxGetCurrent(&context));
  CUgraph graph, inner, of;
  DRIVER(cuGraphCreate(&graph, 0));
  DRIVER(cuGraphCreate(&inner, 0));

  char first[] = "first", second[] = "second";
  CUgraphNodeParams params = {}, told;
  auto *host = reinterpret_cast<HostParams *>(&params.host);
  params.type = CU_GRAPH_NODE_TYPE_HOST;
  *host = {say, first, 1, context};
  CUgraphNode node, empty, child, record, fill;
  DRIVER(add(&node, graph, nullptr, nullptr, 0, &params));
  DRIVER(get(node, &told));
  const auto *told_host = reinterpret_cast<HostParams *>(&told.host);
  printf("type %d: %s, way %u, this context: %d\n", told.type, static_cast<char *>(told_host->data),
         told_host->mode, told_host->context == context);
  host->mode = 2;
  SHOW_DRIVER(add(&child, graph, nullptr, nullptr, 0, &params));
  SHOW_DRIVER(set(node, &params));
  // Callers of older versions leave what they do not know as it was.
  host->data = second;
  host->context = reinterpret_cast<CUcontext>(0x1230);
  SHOW_DRIVER(cuGraphNodeSetParams(node, &params));
  DRIVER(get(node, &told));
  printf("%s, way %u, this context: %d\n", static_cast<char *>(told_host->data), told_host->mode,
         told_host->context == context);
  // What is told can be set.
  SHOW_DRIVER(set(node, &told));

  DRIVER(cuGraphAddEmptyNode(&empty, inner, nullptr, 0));
  DRIVER(cuGraphAddChildGraphNode(&child, graph, &node, 1, inner));
  DRIVER(get(child, &told));
  printf("type %d, its own graph: %d, ownership %d\n", told.type, told.graph.graph != inner,
         static_cast<int>(told.graph.ownership));
  size_t count = 1;
  CUgraphNode copied;
  DRIVER(cuGraphGetNodes(told.graph.graph, &copied, &count));
  DRIVER(containing(copied, &of));
  printf("in the child: %d\n", of == told.graph.graph);
  DRIVER(containing(empty, &of));
  printf("in the original: %d\n", of == inner);
  DRIVER(get(copied, &told));
  printf("type %d\n", told.type);

  CUevent event;
  DRIVER(cuEventCreate(&event, 0));
  params = {};
  params.type = CU_GRAPH_NODE_TYPE_EVENT_RECORD;
  params.eventRecord.event = event;
  DRIVER(add(&record, graph, &child, nullptr, 1, &params));
  DRIVER(get(record, &told));
  printf("type %d, the event: %d\n", told.type, told.eventRecord.event == event);
  CUdeviceptr device;
  DRIVER(cuMemAlloc(&device, 64));
  params = {};
  params.type = CU_GRAPH_NODE_TYPE_MEMSET;
  params.memset = {device, 0, 7, 4, 16, 1, context};
  DRIVER(add(&fill, graph, &record, nullptr, 1, &params));
  DRIVER(get(fill, &told));
  printf("type %d: %zu of %u bytes of %u, the address: %d\n", told.type, told.memset.width,
         told.memset.elementSize, told.memset.value, told.memset.dst == device);

  CUgraphConditionalHandle handle;
  CUgraphNode condition;
  DRIVER(cuGraphConditionalHandleCreate(&handle, graph, context, 0, 1));
  params = {};
  params.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
  params.conditional.handle = handle;
  params.conditional.type = CU_GRAPH_COND_TYPE_IF;
  params.conditional.size = 2;
  params.conditional.ctx = context;
  DRIVER(add(&condition, graph, &fill, nullptr, 1, &params));
  DRIVER(get(condition, &told));
  printf("type %d, kind %d of %u, the handle: %d, the bodies: %d\n", told.type,
         told.conditional.type, told.conditional.size, told.conditional.handle == handle,
         memcmp(told.conditional.phGraph_out, params.conditional.phGraph_out,
                2 * sizeof(CUgraph)) == 0);

  SHOW_DRIVER(get(node, nullptr));
  SHOW_DRIVER(get(nullptr, &told));
  SHOW_DRIVER(containing(node, nullptr));
  SHOW_DRIVER(containing(nullptr, &of));
  CUgraphExec exec;
  DRIVER(cuGraphInstantiate(&exec, graph, 0));
  DRIVER(cuGraphLaunch(exec, nullptr));
  unsigned value = 0;
  DRIVER(cuMemcpyDtoH(&value, device + 60, 4));
  printf("%u\n", value);
  DRIVER(cuGraphExecDestroy(exec));
  DRIVER(cuGraphDestroy(graph));
  DRIVER(cuGraphDestroy(inner));
  DRIVER(cuEventDestroy(event));
  DRIVER(cuMemFree(device));
}

int main() {
  CHECK(cudaFree(nullptr));
  parameter_counts();
  copies();
  host_functions();
  nodes();
  // Known, and not served.
  void *found;
  CUdriverProcAddressQueryResult status;
  for (int version : {13040, 13050}) {
    CUresult result = cuGetProcAddress("cuFabricCpyBatchAsync", &found, version, 0, &status);
    printf("at %d: %s, status %d\n", version, driver_name(result), status);
  }
  return 0;
}
