#include "scene.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace arguments {

const char kImage[] = R"(
.version 7.0
.target sm_70
.address_size 64

.visible .global .align 4 .u32 numbers[1024];
.visible .global .texref picture;
.visible .global .surfref canvas;

.visible .entry bump(.param .u64 memory, .param .u32 count) {
  .reg .pred %p<2>;
  .reg .b32 %r<8>;
  .reg .b64 %d<4>;
  ld.param.u64 %d1, [memory];
  ld.param.u32 %r1, [count];
  mov.u32 %r4, %tid.x;
  setp.ge.u32 %p1, %r4, %r1;
  @%p1 bra DONE;
  mul.wide.u32 %d2, %r4, 4;
  add.u64 %d3, %d1, %d2;
  ld.global.u32 %r6, [%d3];
  add.u32 %r6, %r6, 1;
  st.global.u32 [%d3], %r6;
DONE:
  ret;
}
)";

// In memory, so that nothing is left behind.
const char *image_file() {
  static const std::string path = [] {
    const int file = memfd_create("driver-arguments", 0);
    const bool written = file >= 0 && write(file, kImage, sizeof kImage - 1) > 0;
    return written ? "/proc/self/fd/" + std::to_string(file) : "/nowhere/at/all";
  }();
  return path.c_str();
}

namespace {

// Where a new object is told, of whichever type.
struct Into {
  void *at;
  template <class T>
  operator T *() const {
    return static_cast<T *>(at);
  }
};

}  // namespace

void host_function(void *) {}

unsigned char *Scene::memory(size_t size) {
  return static_cast<unsigned char *>(aligned_alloc(4096, (size + 4095) & ~size_t{4095}));
}

CUdeviceptr Scene::device_memory() {
  CUdeviceptr address = 0;
  if (call.has("Prefetch") || call.has("Advise") || call.has("RangeGet") || call.has("Attach") ||
      call.has("Discard"))
    CALL(cuMemAllocManaged)(&address, kBytes, CU_MEM_ATTACH_GLOBAL);
  else if (call.has("MemFreeAsync") || call.has("ExportPointer"))
    CALL(cuMemAllocAsync)(&address, kBytes, nullptr);
  else
    CALL(cuMemAlloc_v2)(&address, kBytes);
  CALL(cuMemsetD8_v2)(address, 0, kBytes);
  CALL(cuCtxSynchronize)();
  return address;
}

CUgraph Scene::graph() { return handle<CUgraph>(object("CUgraph")); }

CUgraphNode Scene::node(CUgraphNodeType type) {
  const auto found = nodes_.find(type);
  if (found != nodes_.end()) return found->second;
  CUgraphNode made = nullptr;
  unsigned char bytes[kBuffer] = {};
  const auto filled = [&](const char *name) {
    fill(*this, name, bytes);
    return bytes;
  };
  CUcontext context = handle<CUcontext>(object("CUcontext", "current"));
  switch (type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      CALL(cuGraphAddKernelNode_v2)
      (&made, graph(), nullptr, 0,
       reinterpret_cast<CUDA_KERNEL_NODE_PARAMS *>(filled("CUDA_KERNEL_NODE_PARAMS")));
      break;
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      CALL(cuGraphAddMemcpyNode)
      (&made, graph(), nullptr, 0, reinterpret_cast<CUDA_MEMCPY3D *>(filled("CUDA_MEMCPY3D")),
       context);
      break;
    case CU_GRAPH_NODE_TYPE_MEMSET:
      CALL(cuGraphAddMemsetNode)
      (&made, graph(), nullptr, 0,
       reinterpret_cast<CUDA_MEMSET_NODE_PARAMS *>(filled("CUDA_MEMSET_NODE_PARAMS")), context);
      break;
    case CU_GRAPH_NODE_TYPE_HOST:
      CALL(cuGraphAddHostNode)
      (&made, graph(), nullptr, 0,
       reinterpret_cast<CUDA_HOST_NODE_PARAMS *>(filled("CUDA_HOST_NODE_PARAMS")));
      break;
    case CU_GRAPH_NODE_TYPE_GRAPH:
      CALL(cuGraphAddChildGraphNode)
      (&made, graph(), nullptr, 0, handle<CUgraph>(object("CUgraph", "childGraph")));
      break;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      CALL(cuGraphAddEventWaitNode)
      (&made, graph(), nullptr, 0, handle<CUevent>(object("CUevent")));
      break;
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      CALL(cuGraphAddEventRecordNode)
      (&made, graph(), nullptr, 0, handle<CUevent>(object("CUevent")));
      break;
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
      CALL(cuGraphAddMemAllocNode)
      (&made, graph(), nullptr, 0,
       reinterpret_cast<CUDA_MEM_ALLOC_NODE_PARAMS *>(filled("CUDA_MEM_ALLOC_NODE_PARAMS")));
      break;
    case CU_GRAPH_NODE_TYPE_MEM_FREE: {
      const CUgraphNode before = node(CU_GRAPH_NODE_TYPE_MEM_ALLOC);
      CUDA_MEM_ALLOC_NODE_PARAMS of = {};
      CALL(cuGraphMemAllocNodeGetParams)(before, &of);
      CALL(cuGraphAddMemFreeNode)(&made, graph(), &before, 1, of.dptr);
      break;
    }
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      CALL(cuGraphAddBatchMemOpNode)
      (&made, graph(), nullptr, 0,
       reinterpret_cast<CUDA_BATCH_MEM_OP_NODE_PARAMS *>(filled("CUDA_BATCH_MEM_OP_NODE_PARAMS")));
      break;
    default:
      CALL(cuGraphAddEmptyNode)(&made, graph(), nullptr, 0);
  }
  nodes_[type] = made;
  return made;
}

uint64_t Scene::object(const std::string &type, const std::string &which) {
  const std::string key = type + ' ' + which;
  const auto found = objects_.find(key);
  if (found != objects_.end()) return found->second;
  return objects_[key] = make(type);
}

uint64_t Scene::make(const std::string &type) {
  union {
    void *pointer;
    unsigned long long number;
  } made = {};
  const Into put{&made};
  if (type == "CUcontext") {
    CALL(cuCtxGetCurrent)(put);
    if (call.has("CtxDestroy") || call.has("CtxDetach")) {
      CUcontext before = handle<CUcontext>(made.number);
      CALL(cuCtxCreate_v2)(put, 0, 0);
      CALL(cuCtxSetCurrent)(before);
    }
  } else if (type == "CUstream") {
    CALL(cuStreamCreate)(put, 0);
    if (call.has("EndCapture") || call.has("CaptureInfo") || call.has("CaptureDependencies"))
      CALL(cuStreamBeginCapture_v2)
    (handle<CUstream>(made.number), CU_STREAM_CAPTURE_MODE_RELAXED);
  } else if (type == "CUevent") {
    CALL(cuEventCreate)
    (put, call.has("Ipc") ? CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING : 0);
  } else if (type == "CUdeviceptr" || type == "CUdeviceptr_v1") {
    if (call.has("AddressFree") || call.has("MemMap") || call.has("MemUnmap") ||
        call.has("SetAccess") || call.has("RetainAllocation")) {
      CALL(cuMemAddressReserve)(&made.number, kPiece, 0, 0, 0);
      if (!call.has("AddressFree") && !call.has("MemMap")) CALL(cuMemMap)
      (made.number, kPiece, 0, object("CUmemGenericAllocationHandle"), 0);
    } else if (call.has("AddressReserve")) {
      // Where one may well be had.
      CALL(cuMemAddressReserve)(&made.number, kPiece, 0, 0, 0);
      CALL(cuMemAddressFree)(made.number, kPiece);
    } else {
      made.number = device_memory();
    }
  } else if (type == "CUmodule") {
    CALL(cuModuleLoadData)(put, kImage);
  } else if (type == "CUfunction") {
    CALL(cuModuleGetFunction)
    (put, handle<CUmodule>(object("CUmodule")), "bump");
  } else if (type == "CUtexref") {
    if (call.has("TexRefDestroy"))
      CALL(cuTexRefCreate)(put);
    else
      CALL(cuModuleGetTexRef)
    (put, handle<CUmodule>(object("CUmodule")), "picture");
  } else if (type == "CUsurfref") {
    CALL(cuModuleGetSurfRef)
    (put, handle<CUmodule>(object("CUmodule")), "canvas");
  } else if (type == "CUlibrary") {
    CALL(cuLibraryLoadData)
    (put, kImage, nullptr, nullptr, 0, nullptr, nullptr, 0);
  } else if (type == "CUkernel") {
    CALL(cuLibraryGetKernel)
    (put, handle<CUlibrary>(object("CUlibrary")), "bump");
  } else if (type == "CUarray") {
    const CUDA_ARRAY3D_DESCRIPTOR of = {64, 4, 0, CU_AD_FORMAT_UNSIGNED_INT32, 1, 2};
    CALL(cuArray3DCreate_v2)(put, &of);
  } else if (type == "CUmipmappedArray") {
    const CUDA_ARRAY3D_DESCRIPTOR of = {64, 64, 0, CU_AD_FORMAT_UNSIGNED_INT32, 1, 0};
    CALL(cuMipmappedArrayCreate)(put, &of, 3);
  } else if (type == "CUtexObject" || type == "CUsurfObject") {
    CUDA_RESOURCE_DESC from = {};
    CUDA_TEXTURE_DESC as = {};
    from.resType = CU_RESOURCE_TYPE_ARRAY;
    from.res.array.hArray = handle<CUarray>(object("CUarray"));
    if (type == "CUtexObject")
      CALL(cuTexObjectCreate)(&made.number, &from, &as, nullptr);
    else
      CALL(cuSurfObjectCreate)(&made.number, &from);
  } else if (type == "CUmemoryPool") {
    CUmemPoolProps of = {};
    of.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    of.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    CALL(cuMemPoolCreate)(put, &of);
  } else if (type == "CUmemGenericAllocationHandle") {
    CUmemAllocationProp of = {};
    of.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    of.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    CALL(cuMemCreate)(&made.number, kPiece, &of, 0);
  } else if (type == "CUlinkState") {
    CALL(cuLinkCreate)(0, nullptr, nullptr, put);
    if (call.has("LinkComplete")) CALL(cuLinkAddData)
    (handle<CUlinkState>(made.number), CU_JIT_INPUT_PTX, const_cast<char *>(kImage),
     strlen(kImage) + 1, "image", 0, nullptr, nullptr);
  } else if (type == "CUuserObject") {
    CALL(cuUserObjectCreate)(put, nullptr, host_function, 1, 1);
  } else if (type == "CUgraph") {
    CALL(cuGraphCreate)(put, 0);
  } else if (type == "CUgraphExec") {
    CALL(cuGraphInstantiateWithFlags)(put, graph(), 0);
  } else if (type == "CUlogsCallbackHandle") {
    CALL(cuLogsRegisterCallback)
    ([](void *, CUlogLevel, char *, size_t) {}, nullptr, put);
  } else if (type == "CUasyncCallbackHandle") {
    CALL(cuDeviceRegisterAsyncNotification)
    (
        0, [](CUasyncNotificationInfo *, void *, CUasyncCallbackHandle) {}, nullptr, put);
  }
  return made.number;
}

bool Scene::end(const std::string &type, uint64_t object) {
  if (type == "CUcontext")
    CALL(cuCtxDestroy_v2)(handle<CUcontext>(object));
  else if (type == "CUstream")
    CALL(cuStreamDestroy_v2)(handle<CUstream>(object));
  else if (type == "CUevent")
    CALL(cuEventDestroy_v2)(handle<CUevent>(object));
  else if (type == "CUmodule")
    CALL(cuModuleUnload)(handle<CUmodule>(object));
  else if (type == "CUfunction" || type == "CUsurfref" || type == "CUtexref")
    CALL(cuModuleUnload)(handle<CUmodule>(this->object("CUmodule")));
  else if (type == "CUlibrary")
    CALL(cuLibraryUnload)(handle<CUlibrary>(object));
  else if (type == "CUkernel")
    CALL(cuLibraryUnload)(handle<CUlibrary>(this->object("CUlibrary")));
  else if (type == "CUarray")
    CALL(cuArrayDestroy)(handle<CUarray>(object));
  else if (type == "CUmipmappedArray")
    CALL(cuMipmappedArrayDestroy)(handle<CUmipmappedArray>(object));
  else if (type == "CUtexObject")
    CALL(cuTexObjectDestroy)(object);
  else if (type == "CUsurfObject")
    CALL(cuSurfObjectDestroy)(object);
  else if (type == "CUmemoryPool")
    CALL(cuMemPoolDestroy)(handle<CUmemoryPool>(object));
  else if (type == "CUmemGenericAllocationHandle")
    CALL(cuMemRelease)(object);
  else if (type == "CUlinkState")
    CALL(cuLinkDestroy)(handle<CUlinkState>(object));
  else if (type == "CUuserObject")
    CALL(cuUserObjectRelease)(handle<CUuserObject>(object), 1);
  else if (type == "CUgraph")
    CALL(cuGraphDestroy)(handle<CUgraph>(object));
  else if (type == "CUgraphExec")
    CALL(cuGraphExecDestroy)(handle<CUgraphExec>(object));
  else if (type == "CUgraphNode")
    CALL(cuGraphDestroyNode)(handle<CUgraphNode>(object));
  else if (type == "CUlogsCallbackHandle")
    CALL(cuLogsUnregisterCallback)(handle<CUlogsCallbackHandle>(object));
  else if (type == "CUasyncCallbackHandle")
    CALL(cuDeviceUnregisterAsyncNotification)(0, handle<CUasyncCallbackHandle>(object));
  else if (type == "CUdeviceptr" || type == "CUdeviceptr_v1")
    CALL(cuMemFree)(object);
  else
    return false;
  return true;
}

}  // namespace arguments
