// What structures say in a legal call.
#include <functional>

#include "scene.h"

namespace arguments {
namespace {

struct Structure {
  size_t size;
  std::function<void(Scene &, unsigned char *)> fill;
};

template <class T>
Structure structure(void (*filled)(Scene &, T &)) {
  return {sizeof(T), [filled](Scene &scene, unsigned char *bytes) {
            T of{};
            filled(scene, of);
            memcpy(bytes, &of, sizeof of);
          }};
}

template <class T>
T in(Scene &scene, const char *type) {
  return handle<T>(scene.object(type));
}

template <class T>
void plane(Scene &scene, T &of) {
  of.srcMemoryType = CU_MEMORYTYPE_HOST;
  of.srcHost = Scene::memory();
  of.srcPitch = 64;
  of.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  of.dstDevice = scene.object("CUdeviceptr");
  of.dstPitch = 64;
  of.WidthInBytes = 16;
  of.Height = 2;
}

template <class T>
void volume(Scene &scene, T &of) {
  plane(scene, of);
  of.srcHeight = of.dstHeight = 2;
  of.Depth = 2;
}

void **parameters(Scene &scene) {
  auto **all = reinterpret_cast<void **>(Scene::memory());
  auto *values = reinterpret_cast<uint64_t *>(Scene::memory());
  values[0] = scene.object("CUdeviceptr");
  values[1] = 4;
  all[0] = &values[0];
  all[1] = &values[1];
  return all;
}

template <class T>
void kernel(Scene &scene, T &of) {
  of.func = in<CUfunction>(scene, "CUfunction");
  of.gridDimX = of.gridDimY = of.gridDimZ = 1;
  of.blockDimX = of.blockDimY = of.blockDimZ = 1;
  of.kernelParams = parameters(scene);
}

template <class T>
void set(Scene &scene, T &of) {
  of.dst = scene.object("CUdeviceptr");
  of.value = 1;
  of.elementSize = 4;
  of.width = 16;
  of.height = 1;
}

template <class T>
void on_device(T &location) {
  location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  location.id = 0;
}

void pool(Scene &, CUmemPoolProps &of) {
  of.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  on_device(of.location);
}

void write_value(Scene &scene, CUstreamBatchMemOpParams &of) {
  of.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  of.writeValue.address = scene.object("CUdeviceptr");
  of.writeValue.value = 1;
}

const std::map<std::string, Structure> &all() {
  static const std::map<std::string, Structure> all = {
      {"CUDA_MEMCPY2D", structure<CUDA_MEMCPY2D>(plane)},
      {"CUDA_MEMCPY3D", structure<CUDA_MEMCPY3D>(volume)},
      {"CUDA_MEMCPY3D_PEER", structure<CUDA_MEMCPY3D_PEER>([](Scene &scene, auto &of) {
         volume(scene, of);
         of.srcContext = of.dstContext = in<CUcontext>(scene, "CUcontext");
       })},
      {"CUDA_KERNEL_NODE_PARAMS", structure<CUDA_KERNEL_NODE_PARAMS>(kernel)},
      {"CUDA_KERNEL_NODE_PARAMS_v1", structure<CUDA_KERNEL_NODE_PARAMS_v1>(kernel)},
      {"CUDA_MEMSET_NODE_PARAMS", structure<CUDA_MEMSET_NODE_PARAMS>(set)},
      {"CUDA_HOST_NODE_PARAMS",
       structure<CUDA_HOST_NODE_PARAMS>([](Scene &, auto &of) { of.fn = host_function; })},
      {"CUstreamBatchMemOpParams", structure<CUstreamBatchMemOpParams>(write_value)},
      {"CUDA_BATCH_MEM_OP_NODE_PARAMS",
       structure<CUDA_BATCH_MEM_OP_NODE_PARAMS>([](Scene &scene, auto &of) {
         of.ctx = in<CUcontext>(scene, "CUcontext");
         of.count = 1;
         of.paramArray = reinterpret_cast<CUstreamBatchMemOpParams *>(Scene::memory());
         memset(of.paramArray, 0, kBuffer);
         write_value(scene, *of.paramArray);
       })},
      {"CUDA_MEM_ALLOC_NODE_PARAMS",
       structure<CUDA_MEM_ALLOC_NODE_PARAMS>([](Scene &scene, auto &of) {
         pool(scene, of.poolProps);
         of.bytesize = kBytes;
       })},
      {"CUgraphNodeParams", structure<CUgraphNodeParams>([](Scene &scene, auto &of) {
         of.type = CU_GRAPH_NODE_TYPE_MEMSET;
         set(scene, of.memset);
         of.memset.ctx = in<CUcontext>(scene, "CUcontext");
       })},
      {"CUgraphEdgeData", structure<CUgraphEdgeData>([](Scene &, auto &) {})},
      {"CUlaunchConfig", structure<CUlaunchConfig>([](Scene &scene, auto &of) {
         of.gridDimX = of.gridDimY = of.gridDimZ = 1;
         of.blockDimX = of.blockDimY = of.blockDimZ = 1;
         of.hStream = in<CUstream>(scene, "CUstream");
         of.attrs = reinterpret_cast<CUlaunchAttribute *>(Scene::memory());
         memset(of.attrs, 0, kBuffer);
         of.attrs[0].id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
         of.attrs[0].value.cooperative = 1;
         of.numAttrs = 1;
       })},
      {"CUmemAllocationProp", structure<CUmemAllocationProp>([](Scene &, auto &of) {
         of.type = CU_MEM_ALLOCATION_TYPE_PINNED;
         on_device(of.location);
       })},
      {"CUmemPoolProps", structure<CUmemPoolProps>(pool)},
      {"CUmemAccessDesc", structure<CUmemAccessDesc>([](Scene &, auto &of) {
         on_device(of.location);
         of.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
       })},
      {"CUmemLocation", structure<CUmemLocation>([](Scene &, auto &of) { on_device(of); })},
      {"CUDA_RESOURCE_DESC", structure<CUDA_RESOURCE_DESC>([](Scene &scene, auto &of) {
         of.resType = CU_RESOURCE_TYPE_ARRAY;
         of.res.array.hArray = in<CUarray>(scene, "CUarray");
       })},
      {"CUDA_TEXTURE_DESC", structure<CUDA_TEXTURE_DESC>([](Scene &, auto &) {})},
      {"CUDA_RESOURCE_VIEW_DESC", structure<CUDA_RESOURCE_VIEW_DESC>([](Scene &, auto &of) {
         of.format = CU_RES_VIEW_FORMAT_UINT_1X32;
         of.width = 64;
         of.height = 4;
       })},
      {"CUDA_ARRAY_DESCRIPTOR", structure<CUDA_ARRAY_DESCRIPTOR>([](Scene &, auto &of) {
         of = {16, 4, CU_AD_FORMAT_UNSIGNED_INT32, 1};
       })},
      {"CUDA_ARRAY3D_DESCRIPTOR", structure<CUDA_ARRAY3D_DESCRIPTOR>([](Scene &, auto &of) {
         of = {16, 16, 0, CU_AD_FORMAT_UNSIGNED_INT32, 1, 0};
       })},
      {"CUmemcpyAttributes", structure<CUmemcpyAttributes>([](Scene &, auto &of) {
         of.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
         on_device(of.srcLocHint);
         on_device(of.dstLocHint);
       })},
      {"CUDA_MEMCPY3D_BATCH_OP", structure<CUDA_MEMCPY3D_BATCH_OP>([](Scene &scene, auto &of) {
         of.src.type = of.dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
         of.src.op.ptr.ptr = scene.object("CUdeviceptr", "src");
         of.dst.op.ptr.ptr = scene.object("CUdeviceptr");
         on_device(of.src.op.ptr.locHint);
         on_device(of.dst.op.ptr.locHint);
         of.extent = {16, 2, 2};
         of.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
       })},
      {"CUDA_GRAPH_INSTANTIATE_PARAMS",
       structure<CUDA_GRAPH_INSTANTIATE_PARAMS>(
           [](Scene &scene, auto &of) { of.hUploadStream = in<CUstream>(scene, "CUstream"); })},
      {"CUctxCreateParams", structure<CUctxCreateParams>([](Scene &, auto &) {})},
      {"CUexecAffinityParam", structure<CUexecAffinityParam>([](Scene &, auto &of) {
         of.type = CU_EXEC_AFFINITY_TYPE_SM_COUNT;
         of.param.smCount.val = 1;
       })},
      {"CUstreamAttrValue", structure<CUstreamAttrValue>([](Scene &, auto &) {})},
      {"CUkernelNodeAttrValue", structure<CUkernelNodeAttrValue>([](Scene &, auto &) {})},
  };
  return all;
}

}  // namespace

size_t size_of(const std::string &type) {
  const auto found = all().find(type);
  return found == all().end() ? 0 : found->second.size;
}

void fill(Scene &scene, const std::string &type, unsigned char *bytes) {
  all().at(type).fill(scene, bytes);
}

void put_parameters(Scene &scene, unsigned char *bytes) {
  memcpy(bytes, parameters(scene), 2 * sizeof(void *));
}

}  // namespace arguments
