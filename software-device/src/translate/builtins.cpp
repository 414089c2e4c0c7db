#include "translate/builtins.h"

#include "engine.h"

namespace softdev {
namespace {

// 12 bytes are a dim3, 24 a cudaExtent, 32 a cudaPitchedPtr.
constexpr BuiltinFunction kSystem[] = {
    {"vprintf", Builtin::Printf, "88", 4},
    {"__assertfail", Builtin::Assert, "88488"},
    {"malloc", Builtin::Malloc, "8", 8},
    {"free", Builtin::Free, "8"},
    {"cudaGraphSetConditional", Builtin::SetConditional, "84"},
};

// Their names begin with one of kPrefixes.
constexpr BuiltinFunction kRuntime[] = {
    {"GetParameterBuffer", Builtin::ParameterBuffer, "88", 8},
    {"GetParameterBufferV2", Builtin::ParameterBufferFor, "8cc4", 8},
    {"LaunchDevice", Builtin::Launch, "88cc48", 4},
    {"LaunchDevice_ptsz", Builtin::Launch, "88cc48", 4, true},
    {"LaunchDeviceV2", Builtin::LaunchPrepared, "88", 4},
    {"LaunchDeviceV2_ptsz", Builtin::LaunchPrepared, "88", 4, true},
    {"StreamCreateWithFlags", Builtin::CreateStream, "84", 4},
    {"StreamDestroy", Builtin::DestroyStream, "8", 4},
    {"StreamWaitEvent", Builtin::StreamWait, "884", 4},
    {"StreamWaitEvent_ptsz", Builtin::StreamWait, "884", 4, true},
    {"EventCreateWithFlags", Builtin::CreateEvent, "84", 4},
    {"EventDestroy", Builtin::DestroyEvent, "8", 4},
    {"EventRecord", Builtin::RecordEvent, "88", 4},
    {"EventRecord_ptsz", Builtin::RecordEvent, "88", 4, true},
    {"EventRecordWithFlags", Builtin::RecordEventFlags, "884", 4},
    {"EventRecordWithFlags_ptsz", Builtin::RecordEventFlags, "884", 4, true},
    {"MemcpyAsync", Builtin::Copy, "88848", 4},
    {"MemcpyAsync_ptsz", Builtin::Copy, "88848", 4, true},
    {"Memcpy2DAsync", Builtin::Copy2D, "88888848", 4},
    {"Memcpy2DAsync_ptsz", Builtin::Copy2D, "88888848", 4, true},
    {"Memcpy3DAsync", Builtin::Copy3D, "88", 4},
    {"Memcpy3DAsync_ptsz", Builtin::Copy3D, "88", 4, true},
    {"MemsetAsync", Builtin::Set, "8488", 4},
    {"MemsetAsync_ptsz", Builtin::Set, "8488", 4, true},
    {"Memset2DAsync", Builtin::Set2D, "884888", 4},
    {"Memset2DAsync_ptsz", Builtin::Set2D, "884888", 4, true},
    {"Memset3DAsync", Builtin::Set3D, "w4o8", 4},
    {"Memset3DAsync_ptsz", Builtin::Set3D, "w4o8", 4, true},
    {"Malloc", Builtin::RuntimeMalloc, "88", 4},
    {"Free", Builtin::RuntimeFree, "8", 4},
    {"GetLastError", Builtin::TakeError, "", 4},
    {"PeekAtLastError", Builtin::PeekError, "", 4},
    {"GetErrorName", Builtin::ErrorName, "4", 8},
    {"GetErrorString", Builtin::ErrorSentence, "4", 8},
    {"DeviceGetAttribute", Builtin::DeviceAttribute, "844", 4},
    {"DeviceGetLimit", Builtin::DeviceLimit, "84", 4},
    {"DeviceGetCacheConfig", Builtin::CacheConfig, "8", 4},
    {"DeviceGetSharedMemConfig", Builtin::SharedConfig, "8", 4},
    {"GetDeviceCount", Builtin::DeviceCount, "8", 4},
    {"GetDevice", Builtin::CurrentDevice, "8", 4},
    {"RuntimeGetVersion", Builtin::RuntimeVersion, "8", 4},
    {"FuncGetAttributes", Builtin::FunctionAttributes, "88", 4},
    {"OccupancyMaxActiveBlocksPerMultiprocessor", Builtin::Occupancy, "8848", 4},
    {"OccupancyMaxActiveBlocksPerMultiprocessorWithFlags", Builtin::OccupancyFlags, "88484", 4},
};

// As nvcc has them since CUDA 12, and as the runtime's interface has them.
constexpr std::string_view kPrefixes[] = {"__cudaCDP2", "cuda"};

constexpr uint64_t bytes_of(char digit) {
  return static_cast<uint64_t>(digit <= '9' ? digit - '0' : digit - 'a' + 10);
}

}  // namespace

const BuiltinFunction *find_builtin(std::string_view name) {
  for (const BuiltinFunction &function : kSystem)
    if (function.name == name) return &function;
  for (std::string_view prefix : kPrefixes) {
    if (!name.starts_with(prefix)) continue;
    for (const BuiltinFunction &function : kRuntime) {
      if (function.name != name.substr(prefix.size())) continue;
      // Under its plain name it is of before CUDA 12, with a shorter structure.
      return function.builtin == Builtin::FunctionAttributes && prefix == "cuda" ? nullptr
                                                                                 : &function;
    }
  }
  return nullptr;
}

bool is_builtin_function(std::string_view name) { return find_builtin(name) != nullptr; }

bool declared_as(const BuiltinFunction &function, const Signature &signature) {
  if (signature.parameters.size() != function.parameters.size()) return false;
  for (size_t i = 0; i < function.parameters.size(); ++i)
    if (signature.parameters[i].size != bytes_of(function.parameters[i])) return false;
  if (signature.results.empty()) return true;
  return signature.results.size() == 1 && signature.results[0].size == function.result;
}

}  // namespace softdev
