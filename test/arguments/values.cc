#include "values.h"

#include <algorithm>
#include <climits>
#include <cmath>

namespace arguments {
namespace {

using Names = std::vector<std::string>;

bool among(const Names &names, const std::string &name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool is_handle(const std::string &type) {
  static const Names kinds = {"CUcontext",
                              "CUstream",
                              "CUevent",
                              "CUmodule",
                              "CUfunction",
                              "CUtexref",
                              "CUsurfref",
                              "CUlibrary",
                              "CUkernel",
                              "CUarray",
                              "CUmipmappedArray",
                              "CUmemoryPool",
                              "CUgraph",
                              "CUgraphExec",
                              "CUgraphNode",
                              "CUlinkState",
                              "CUuserObject",
                              "CUlogsCallbackHandle",
                              "CUasyncCallbackHandle",
                              "CUgreenCtx"};
  return among(kinds, type);
}

/** Numbers that stand for objects and addresses. */
bool is_name(const std::string &type) {
  static const Names kinds = {"CUdeviceptr", "CUdeviceptr_v1", "CUtexObject", "CUsurfObject",
                              "CUmemGenericAllocationHandle"};
  return among(kinds, type);
}

/** What one library tells otherwise than another: names, and what a session has of a device. */
bool is_own(const Buffer &buffer) {
  static const Names kinds = {"CUgraphConditionalHandle", "CUipcMemHandle", "CUipcEventHandle",
                              "CUmemPoolPtrExportData",   "CUuuid",         "CUtensorMap"};
  static const Names names = {"free", "total", "streamId"};
  return is_handle(buffer.type) || is_name(buffer.type) || buffer.type == "void*" ||
         among(kinds, buffer.type) || among(names, buffer.name);
}

bool is_function(const std::string &type) {
  static const Names kinds = {"CUhostFn", "CUstreamCallback", "CUlogsCallback", "CUasyncCallback",
                              "CUoccupancyB2DSize"};
  return among(kinds, type);
}

// What is where the library is to tell something.
constexpr uint32_t kFill = 0x5a5a5a5a;

template <class T>
constexpr T kMost = static_cast<T>(~T{0});

CUgraphNodeType node_type(const Call &call) {
  static const std::vector<std::pair<const char *, CUgraphNodeType>> types = {
      {"BatchMemOpNode", CU_GRAPH_NODE_TYPE_BATCH_MEM_OP},
      {"KernelNode", CU_GRAPH_NODE_TYPE_KERNEL},
      {"MemcpyNode", CU_GRAPH_NODE_TYPE_MEMCPY},
      {"HostNode", CU_GRAPH_NODE_TYPE_HOST},
      {"ChildGraphNode", CU_GRAPH_NODE_TYPE_GRAPH},
      {"EventRecordNode", CU_GRAPH_NODE_TYPE_EVENT_RECORD},
      {"EventWaitNode", CU_GRAPH_NODE_TYPE_WAIT_EVENT},
      {"MemAllocNode", CU_GRAPH_NODE_TYPE_MEM_ALLOC},
      {"MemFreeNode", CU_GRAPH_NODE_TYPE_MEM_FREE}};
  // What a new node depends on is of no kind in particular.
  if (!call.has("GraphAdd"))
    for (const auto &[part, type] : types)
      if (call.has(part)) return type;
  return CU_GRAPH_NODE_TYPE_MEMSET;
}

uint64_t number(const Call &call, const Parameter &parameter) {
  static const std::map<std::string, uint64_t> by_name = {{"gridDimX", 1},
                                                          {"gridDimY", 1},
                                                          {"gridDimZ", 1},
                                                          {"blockDimX", 1},
                                                          {"blockDimY", 1},
                                                          {"blockDimZ", 1},
                                                          {"x", 1},
                                                          {"y", 1},
                                                          {"z", 1},
                                                          {"grid_width", 1},
                                                          {"grid_height", 1},
                                                          {"numBlocks", 1},
                                                          {"blockSize", 32},
                                                          {"count", 1},
                                                          {"numOptions", 1},
                                                          {"numParams", 1},
                                                          {"numJitOptions", 1},
                                                          {"numLibraryOptions", 1},
                                                          {"numAttributes", 1},
                                                          {"numAttrs", 1},
                                                          {"numDependencies", 1},
                                                          {"numOps", 1},
                                                          {"numPrefetchLocs", 1},
                                                          {"numMipmapLevels", 3},
                                                          {"numFunctions", 1},
                                                          {"numKernels", 1},
                                                          {"bytesize", 4096},
                                                          {"bytes", 64},
                                                          {"ByteCount", 64},
                                                          {"N", 16},
                                                          {"Width", 16},
                                                          {"WidthInBytes", 64},
                                                          {"Height", 2},
                                                          {"dstPitch", 256},
                                                          {"Pitch", 256},
                                                          {"dataSize", 4},
                                                          {"bufferSize", kBuffer},
                                                          {"length", 64},
                                                          {"ElementSizeBytes", 4},
                                                          {"initialRefcount", 1},
                                                          {"NumPackedComponents", 1},
                                                          {"numChannels", 1},
                                                          {"maxAniso", 1},
                                                          {"len", 64},
                                                          {"numbytes", 16},
                                                          {"cudaVersion", 12000},
                                                          {"tensorRank", 3},
                                                          {"channelsPerPixel", 32},
                                                          {"pixelsPerColumn", 16}};
  if (parameter.name == "size") {
    if (call.has("LinkAdd")) return strlen(kImage) + 1;
    return call.has("Attributes") ? 64 : kPiece;
  }
  if (parameter.name == "value" && call.has("SetLimit")) return 1024;
  if (parameter.name == "count" &&
      (call.has("Prefetch") || call.has("Advise") || call.has("RangeGet")) && !call.has("Batch"))
    return kBytes;
  if (parameter.name == "flags" && (call.has("MemAllocManaged") || call.has("AttachMem"))) return 1;
  if (parameter.name == "flags" && call.has("UserObjectCreate")) return 1;
  const auto found = by_name.find(parameter.name);
  return found == by_name.end() ? 0 : found->second;
}

int enumerator(const std::string &type) {
  static const std::map<std::string, int> by_type = {
      {"CUarray_format", 3},      {"CUdevice_P2PAttribute", 1},     {"CUdevice_attribute", 1},
      {"CUmemAllocationType", 1}, {"CUmemAllocationHandleType", 1}, {"CUmemPool_attribute", 4},
      {"CUmem_advise", 1},        {"CUmem_range_attribute", 1},     {"CUpointer_attribute", 2},
      {"CUjitInputType", 1},      {"CUstreamCaptureMode", 2},       {"CUstreamAttrID", 8},
      {"CUkernelNodeAttrID", 2},  {"CUlibraryOption", 1},           {"CUtensorMapSwizzle", 2}};
  const auto found = by_type.find(type);
  return found == by_type.end() ? 0 : found->second;
}

const char *text(const Call &call, const std::string &name) {
  if (name == "path" && call.has("Dot")) return "/dev/null";
  if (name == "pathToFile") return "/dev/null";
  if (name == "fname" || name == "fileName" || name == "path") return image_file();
  if (name == "symbol") return "cuMemAlloc";
  if (name == "pciBusId") {
    static char id[32];
    CALL(cuDeviceGetPCIBusId)(id, sizeof id, 0);
    return id;
  }
  if (call.has("Global")) return "numbers";
  if (call.has("TexRef")) return "picture";
  if (call.has("SurfRef")) return "canvas";
  return "bump";
}

// Memory of the host that the driver knows.
void *known_memory(const Call &call) {
  void *memory = Scene::memory();
  if (call.has("Unregister"))
    CALL(cuMemHostRegister_v2)(memory, kBuffer, 0);
  else
    CALL(cuMemHostAlloc)(&memory, kBuffer, CU_MEMHOSTALLOC_DEVICEMAP);
  return memory;
}

// A tensor of bytes, and boxes of it.
struct TensorSizes {
  cuuint64_t dimensions[3] = {64, 8, 8}, strides[2] = {64, 512};
  cuuint32_t box[3] = {32, 4, 4}, steps[3] = {1, 1, 1};
};
CUtensorMap tensor_map() {
  alignas(64) CUtensorMap map = {};
  const TensorSizes sizes;
  CALL(cuTensorMapEncodeTiled)
  (&map, CU_TENSOR_MAP_DATA_TYPE_UINT8, 3, nullptr, sizes.dimensions, sizes.strides, sizes.box,
   sizes.steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
   CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return map;
}

// What a pointer points to.
void contents(Scene &scene, const Parameter &parameter, Buffer &buffer) {
  const Call &call = scene.call;
  const std::string &type = parameter.type, &name = parameter.name;
  memset(buffer.bytes, parameter.constant || type == "void" ? 0 : kFill & 0xff, kBuffer);
  const auto put = [&](const auto &value) { memcpy(buffer.bytes, &value, sizeof value); };
  if (parameter.depth == 2) {
    memset(buffer.bytes, 0, kBuffer);
    if (name == "data") put(Scene::memory());
    if (name == "kernelParams") put_parameters(scene, buffer.bytes);
    if (name.ends_with("ptionValues") || name.ends_with("ptionsValues")) put(uint64_t{32});
  } else if (const size_t size = size_of(type)) {
    memset(buffer.bytes + size, 0, kBuffer - size);
    fill(scene, type, buffer.bytes);
  } else if (type == "size_t" && (name.starts_with("num") || name.ends_with("izes"))) {
    put(size_t{4});
  } else if (type == "size_t" && name == "size") {
    put(size_t{256});
  } else if (type == "size_t" && name.ends_with("Idxs")) {
    put(size_t{0});
  } else if (type == "CUgraphNode" && (parameter.constant || call.has("Dependencies"))) {
    put(call.has("MemFreeNode") ? scene.node(CU_GRAPH_NODE_TYPE_MEM_ALLOC)
        : name == "to"          ? scene.node(CU_GRAPH_NODE_TYPE_MEMSET)
                                : scene.node(CU_GRAPH_NODE_TYPE_EMPTY));
  } else if (type == "CUdeviceptr" && name.ends_with("s")) {
    put(scene.object(type, name));
  } else if (name == "options" || name == "attributes" || name == "operations" || name == "mode" ||
             name.ends_with("Options")) {
    put(enumerator(type));
  } else if (type == "CUlogIterator") {
    put(0u);
  } else if (type == "CUtensorMap" && call.has("Replace")) {
    put(tensor_map());
  } else if (name == "globalDim") {
    put(TensorSizes{}.dimensions);
  } else if (name == "globalStrides") {
    put(TensorSizes{}.strides);
  } else if (name == "boxDim") {
    put(TensorSizes{}.box);
  } else if (name == "elementStrides") {
    put(TensorSizes{}.steps);
  }
}

Value pointer(Scene &scene, const Parameter &parameter) {
  const Call &call = scene.call;
  const std::string &name = parameter.name;
  if (parameter.type == "void" && parameter.depth == 1) {
    if (name == "image" || name == "code" || name == "fatCubin" ||
        (name == "data" && call.has("Link")))
      return value_of(kImage + 0);
    if (name == "p" && !call.has("HostRegister")) return value_of(known_memory(call));
    if (name == "addr") return value_of(scene.object("CUdeviceptr"));
  }
  if (parameter.type == "char" && parameter.constant && parameter.depth == 1)
    return value_of(text(call, name));
  if (name == "extra") return {};
  Buffer buffer{name, parameter.type, Scene::memory(), {}};
  contents(scene, parameter, buffer);
  const Value value = value_of(buffer.bytes);
  if (parameter.depth > 1) buffer.type = "void*";
  if (!parameter.constant || parameter.depth > 1) scene.told.push_back(buffer);
  return value;
}

void null(std::vector<Wrong> &all) {
  all.push_back({"NULL", [](Scene &, Value &value) {
                   value = {};
                   return true;
                 }});
}

template <class T>
void numbers(std::vector<Wrong> &all, std::initializer_list<T> those) {
  for (const T one : those)
    all.push_back({std::to_string(one), [one](Scene &, Value &value) {
                     const bool other = memcmp(value.bytes, &one, sizeof one) != 0;
                     value = value_of(one);
                     return other;
                   }});
}

uint64_t another(Scene &scene, const std::string &type) {
  return type == "CUgraphNode" ? bits(scene.node(node_type(scene.call))) : scene.object(type);
}

void objects(std::vector<Wrong> &all, const std::string &type) {
  if (type == "CUstream") numbers<uint64_t>(all, {1, 2});
  all.push_back({"of another kind", [type](Scene &scene, Value &value) {
                   value = value_of(scene.make(type == "CUevent" ? "CUstream" : "CUevent"));
                   return true;
                 }});
  all.push_back({"ended", [type](Scene &scene, Value &value) {
                   Scene other(scene.call);
                   const uint64_t object = another(other, type);
                   value = value_of(object);
                   return object && other.end(type, object);
                 }});
  all.push_back({"of another context", [type](Scene &scene, Value &value) {
                   CUcontext here = nullptr, there = nullptr;
                   CALL(cuCtxGetCurrent)(&here);
                   CALL(cuCtxCreate_v2)(&there, 0, 0);
                   Scene other(scene.call);
                   value = value_of(another(other, type));
                   CALL(cuCtxSetCurrent)(here);
                   return true;
                 }});
}

// Each word of a structure, and half of one that is no address.
void parts(std::vector<Wrong> &all, const Parameter &parameter) {
  // Of an array of pointers, the first.
  const size_t size = parameter.depth == 1               ? size_of(parameter.type)
                      : parameter.name == "kernelParams" ? sizeof(void *)
                                                         : 0;
  for (size_t at = 0; at < size; at += 4) {
    all.push_back({"zero at " + std::to_string(at), [at](Scene &, Value &value) {
                     unsigned char *to;
                     memcpy(&to, value.bytes, sizeof to);
                     uint64_t word;
                     memcpy(&word, to + (at & ~size_t{7}), sizeof word);
                     const bool address = word >> 40 != 0;
                     uint32_t half;
                     memcpy(&half, to + at, sizeof half);
                     if (address ? (at & 7) != 0 : half == 0) return false;
                     memset(to + at, 0, address ? 8 : 4);
                     return true;
                   }});
    all.push_back({"ones at " + std::to_string(at), [at](Scene &, Value &value) {
                     unsigned char *to;
                     memcpy(&to, value.bytes, sizeof to);
                     uint64_t word;
                     memcpy(&word, to + (at & ~size_t{7}), sizeof word);
                     if (word == 0 || word >> 40) return false;
                     memset(to + at, 0xff, 4);
                     return true;
                   }});
  }
}

}  // namespace

Value legal(Scene &scene, const Parameter &parameter) {
  const std::string &type = parameter.type, &name = parameter.name;
  const Call &call = scene.call;
  if (parameter.depth) return pointer(scene, parameter);
  if (type == "CUgraphNode") return value_of(scene.node(node_type(call)));
  if (type == "CUgraphExec" || type == "CUgraph") {
    // Before it is instantiated.
    if (name != "childGraph") scene.node(node_type(call));
    return value_of(scene.object(type, name == "childGraph" ? name : ""));
  }
  if (type == "CUdeviceptr" && call.has("MemFreeNode")) {
    CUDA_MEM_ALLOC_NODE_PARAMS of = {};
    CALL(cuGraphMemAllocNodeGetParams)(scene.node(CU_GRAPH_NODE_TYPE_MEM_ALLOC), &of);
    return value_of(of.dptr);
  }
  if (is_handle(type) || is_name(type))
    return value_of(scene.object(type, name.starts_with("src") ? "src" : ""));
  if (type == "CUhostFn") return value_of(&host_function);
  if (type == "CUstreamCallback") {
    return value_of(+[](CUstream, CUresult, void *) {});
  }
  if (type == "CUlogsCallback") {
    return value_of(+[](void *, CUlogLevel, char *, size_t) {});
  }
  if (type == "CUasyncCallback") {
    return value_of(+[](CUasyncNotificationInfo *, void *, CUasyncCallbackHandle) {});
  }
  if (type == "CUoccupancyB2DSize") {
    return value_of(+[](int) { return size_t{0}; });
  }
  if (type == "CUmemLocation") {
    CUmemLocation device = {};
    device.type = CU_MEM_LOCATION_TYPE_DEVICE;
    return value_of(device);
  }
  if (type == "float") return value_of(1.0f);
  if (type.starts_with("CU") && type != "CUdevice") return value_of(enumerator(type));
  return value_of(number(call, parameter));
}

std::vector<Wrong> wrongs(const Parameter &parameter) {
  std::vector<Wrong> all;
  const std::string &type = parameter.type;
  if (parameter.depth) {
    null(all);
    parts(all, parameter);
    if (parameter.depth == 1 && type == "size_t") {
      all.push_back({"points to 0", [](Scene &, Value &value) {
                       unsigned char *to;
                       memcpy(&to, value.bytes, sizeof to);
                       memset(to, 0, sizeof(size_t));
                       return true;
                     }});
    }
    if (parameter.depth == 1 && type == "char" && parameter.constant) {
      all.push_back({"empty", [](Scene &, Value &value) {
                       value = value_of("" + 0);
                       return true;
                     }});
      all.push_back({"nonsense", [](Scene &, Value &value) {
                       value = value_of("/nowhere/at/all" + 0);
                       return true;
                     }});
    }
  } else if (is_function(type)) {
    null(all);
  } else if (is_handle(type)) {
    null(all);
    objects(all, type);
  } else if (is_name(type)) {
    numbers<uint64_t>(all, {0, 1, kMost<uint64_t>});
    all.push_back({"ended", [type](Scene &scene, Value &value) {
                     Scene other(scene.call);
                     const uint64_t object = other.object(type);
                     value = value_of(object);
                     return object && other.end(type, object);
                   }});
    if (type == "CUdeviceptr")
      all.push_back({"odd", [](Scene &, Value &value) {
                       value.bytes[0] |= 1;
                       return true;
                     }});
  } else if (type == "size_t" || type == "unsigned long long" || type == "cuuint64_t") {
    // A value that is waited for has to come.
    if (parameter.name != "value") numbers<uint64_t>(all, {1});
    numbers<uint64_t>(all, {0, kMost<uint64_t>});
  } else if (type == "unsigned int" || type == "cuuint32_t") {
    if (parameter.name != "value") numbers<unsigned>(all, {1});
    numbers<unsigned>(all, {0, kMost<unsigned>});
  } else if (type == "unsigned short") {
    numbers<unsigned short>(all, {0, kMost<unsigned short>});
  } else if (type == "unsigned char") {
    numbers<unsigned char>(all, {0, kMost<unsigned char>});
  } else if (type == "float") {
    numbers<float>(all, {-1, 0, NAN});
  } else if (type == "int" || type == "CUdevice") {
    numbers<int>(all, {0, -1, 99, INT_MAX, INT_MIN});
  } else if (type == "CUmemLocation") {
    numbers<int>(all, {0, 2, 3, -1});
    all.push_back({"of device 99", [](Scene &, Value &value) {
                     value.bytes[4] = 99;
                     return true;
                   }});
  } else if (type.starts_with("CUipc")) {
    all.push_back({"nonsense", [](Scene &, Value &value) {
                     memset(value.bytes, 0x5a, sizeof value.bytes);
                     return true;
                   }});
  } else {
    numbers<int>(all, {0, 1, -1, 9999, INT_MAX});
  }
  return all;
}

std::string told(const Scene &scene) {
  std::string text;
  for (const Buffer &buffer : scene.told) {
    std::string words;
    for (size_t at = 0; at < kBuffer; at += 8) {
      uint64_t now, before;
      memcpy(&now, buffer.bytes + at, 8);
      memcpy(&before, buffer.before + at, 8);
      if (now == before) continue;
      if (is_own(buffer)) {
        words += now ? " set" : " null";
        break;
      }
      words += ' ' + std::to_string(at) + ':';
      // Half of a word is told where the other is not, or is padding.
      const uint32_t high = static_cast<uint32_t>(now >> 32);
      const bool padded = buffer.type == "CUDA_ARRAY3D_DESCRIPTOR" && at == 32;
      if (padded || (high == before >> 32 && (high == 0 || high == kFill)))
        words += std::to_string(now & kMost<uint32_t>);
      else if (now >> 40)
        words += 'x';
      else
        words += std::to_string(now);
    }
    if (!words.empty()) text += "; " + buffer.name + words;
  }
  return text;
}

}  // namespace arguments
