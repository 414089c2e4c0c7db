// The executor for Node: exactly the interface of api-server/src/native.ts. Everything runs on
// JavaScript's thread except the report at a session's end, which comes from the session's reaper
// through a thread-safe function.
#include <napi.h>
#include <sys/personality.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>

#include "base/error.h"
#include "descriptors.h"
#include "device/device.h"
#include "device/output.h"
#include "device/server_nvml.h"
#include "modules.h"
#include "session/session.h"
#include "tls.h"
#include "values.h"

namespace {

using namespace addon;
using outboard::Away;
using outboard::Counters;
using outboard::Device;
using outboard::Error;
using outboard::QuotaPage;
using outboard::Session;
using outboard::SessionEnd;
using outboard::TurnPage;

using DevicePointer = std::shared_ptr<Device>;
using CountersPointer = std::shared_ptr<Counters>;

// What JavaScript holds of a session. The session itself goes when it is over: its descriptors must
// not wait for the garbage collector. Only JavaScript's thread touches this.
struct HeldSession {
  std::shared_ptr<Session> session;  // null once it is over
  CountersPointer counters;
  std::vector<outboard::KernelTime> kernel_times;  // as they were when it ended
};

// How many kernels are told of.
constexpr size_t kMostKernels = 100;
using SessionPointer = std::shared_ptr<HeldSession>;

// ---- devices -----------------------------------------------------------------------------------

Napi::Value to_numbers(Napi::Env env, const CUuuid &uuid) {
  Napi::Array list = Napi::Array::New(env, sizeof uuid.bytes);
  for (uint32_t at = 0; at < sizeof uuid.bytes; at++)
    list.Set(at, Napi::Number::New(env, static_cast<uint8_t>(uuid.bytes[at])));
  return list;
}

Napi::Value to_bytes(Napi::Env env, const CUuuid &uuid) {
  Napi::Uint8Array bytes = Napi::Uint8Array::New(env, sizeof uuid.bytes);
  memcpy(bytes.Data(), uuid.bytes, sizeof uuid.bytes);
  return bytes;
}

CUuuid to_uuid(const Napi::Value &value, const char *what) {
  CUuuid uuid{};
  if (!value.IsTypedArray() || value.As<Napi::TypedArray>().ByteLength() != sizeof uuid.bytes)
    throw outboard::Error("OB_INTERNAL", std::string(what) + " must be 16 bytes");
  memcpy(uuid.bytes, value.As<Napi::Uint8Array>().Data(), sizeof uuid.bytes);
  return uuid;
}

Napi::Value machine_gpus(const Napi::CallbackInfo &info) {
  const Napi::Env env = info.Env();
  return guarded(env, [&]() -> Napi::Value {
    const auto gpus = outboard::machine_gpus(to_text(info[0], "library"));
    if (!gpus) return env.Null();
    Napi::Array result = Napi::Array::New(env, gpus->size());
    for (uint32_t i = 0; i < gpus->size(); i++) {
      const outboard::MachineGpu &gpu = (*gpus)[i];
      Napi::Array instances = Napi::Array::New(env, gpu.instances.size());
      for (uint32_t at = 0; at < gpu.instances.size(); at++) instances.Set(at, gpu.instances[at]);
      Napi::Object one = Napi::Object::New(env);
      one.Set("uuid", gpu.uuid);
      one.Set("mig", Napi::Boolean::New(env, gpu.mig));
      one.Set("instances", instances);
      result.Set(i, one);
    }
    return result;
  });
}

Napi::Value offered_devices(const Napi::CallbackInfo &info) {
  const Napi::Env env = info.Env();
  return guarded(env, [&]() -> Napi::Value {
    const auto devices = outboard::offered_devices(to_text(info[0], "library"));
    Napi::Array result = Napi::Array::New(env, devices.size());
    for (uint32_t i = 0; i < devices.size(); i++) {
      const outboard::Offered &offered = devices[i];
      Napi::Object one = Napi::Object::New(env);
      one.Set("name", offered.name);
      one.Set("pciBusId", offered.pci_bus_id);
      one.Set("uuid", to_numbers(env, offered.uuid));
      one.Set("gpuUuid", offered.gpu ? to_numbers(env, *offered.gpu) : env.Null());
      one.Set("computeMode", offered.compute_mode);
      one.Set("computeCapability", std::to_string(offered.capability_major) + "." +
                                       std::to_string(offered.capability_minor));
      one.Set("multiprocessors", offered.multiprocessors);
      one.Set("clockKilohertz", offered.clock_khz);
      one.Set("memory", static_cast<double>(offered.memory));
      result.Set(i, one);
    }
    return result;
  });
}

Napi::Value nvml_facts(const Napi::CallbackInfo &info) {
  const Napi::Env env = info.Env();
  return guarded(env, [&]() -> Napi::Value {
    const auto facts = outboard::nvml_facts(to_text(info[0], "library"), to_text(info[1], "uuid"));
    if (!facts) return env.Null();
    const auto clocks = [&](const std::array<unsigned, 4> &values) {
      Napi::Array list = Napi::Array::New(env, values.size());
      for (uint32_t i = 0; i < values.size(); i++) list.Set(i, values[i]);
      return list;
    };
    Napi::Object sensors = Napi::Object::New(env);
    sensors.Set("clocks", clocks(facts->clocks));
    sensors.Set("maxClocks", clocks(facts->max_clocks));
    const std::pair<const char *, std::optional<unsigned>> numbers[] = {
        {"temperature", facts->temperature},
        {"temperatureSlowdown", facts->temperature_slowdown},
        {"temperatureShutdown", facts->temperature_shutdown},
        {"power", facts->power},
        {"powerLimit", facts->power_limit},
        {"fanSpeed", facts->fan_speed},
        {"performanceState", facts->performance_state},
        {"brand", facts->brand},
        {"memoryBusWidth", facts->memory_bus_width},
        {"pciDeviceId", facts->pci_device_id},
        {"pciSubsystemId", facts->pci_subsystem_id},
    };
    for (const auto &[name, value] : numbers)
      if (value) sensors.Set(name, Napi::Number::New(env, *value));
    Napi::Object result = Napi::Object::New(env);
    result.Set("nvidiaDriver", facts->nvidia_driver);
    result.Set("nvmlVersion", facts->nvml_version);
    result.Set("sensors", sensors);
    return result;
  });
}

Napi::Value open_device(const Napi::CallbackInfo &info) {
  const Napi::Env env = info.Env();
  return guarded(env, [&] {
    const Napi::Object given = to_object(info[0], "options");
    outboard::DeviceOptions options;
    options.library = to_text(given.Get("library"), "library");
    options.ordinal = to_int(given.Get("ordinal"), "ordinal");
    options.uuid = to_optional(given.Get("uuid"), "uuid", to_uuid);
    options.window_base = to_optional(given.Get("windowBase"), "windowBase", to_u64);
    options.window_size = to_optional(given.Get("windowSize"), "windowSize", to_u64);
    if (const auto page = to_optional(given.Get("quotaPageFd"), "quotaPageFd", to_int))
      options.quota_page_fd = *page;
    if (const auto page = to_optional(given.Get("turnPageFd"), "turnPageFd", to_int))
      options.turn_page_fd = *page;
    options.slot = static_cast<unsigned>(to_int(given.Get("slot"), "slot"));
    options.module_bytes = to_u64(given.Get("moduleBytes"), "moduleBytes");
    if (const auto folder = to_optional(given.Get("moduleFolder"), "moduleFolder", to_text))
      options.module_folder = *folder;
    options.upload_bytes = to_u64(given.Get("uploadBytes"), "uploadBytes");
    if (const auto folder = to_optional(given.Get("uploadFolder"), "uploadFolder", to_text))
      options.upload_folder = *folder;
    if (const auto bytes = to_optional(given.Get("imageBytes"), "imageBytes", to_u64))
      options.image_bytes = *bytes;
    options.libraries = to_optional(given.Get("libraries"), "libraries", to_text);
    options.warm_handles = to_bool(given.Get("warmHandles"), "warmHandles");
    DevicePointer device = Device::open(options);
    outboard::Output::install();
    return handle(env, std::move(device));
  });
}

Napi::Value close_device(const Napi::CallbackInfo &info) {
  return guarded(info.Env(), [&] {
    from_handle<DevicePointer>(info[0], "device").reset();
    return info.Env().Undefined();
  });
}

Napi::Value move_window(const Napi::CallbackInfo &info) {
  return guarded(info.Env(), [&] {
    from_handle<DevicePointer>(info[0], "device")
        ->move_window(to_u64(info[1], "base"), to_u64(info[2], "size"));
    return info.Env().Undefined();
  });
}

Napi::Value to_list(Napi::Env env, const std::vector<outboard::PeerDevice> &peers) {
  Napi::Array list = Napi::Array::New(env, peers.size());
  for (uint32_t i = 0; i < peers.size(); i++) {
    const outboard::PeerDevice &peer = peers[i];
    Napi::Array atomics = Napi::Array::New(env, peer.atomics.size());
    for (uint32_t a = 0; a < peer.atomics.size(); a++) atomics.Set(a, peer.atomics[a]);
    Napi::Object one = Napi::Object::New(env);
    one.Set("uuid", to_bytes(env, peer.uuid));
    one.Set("performanceRank", peer.performance_rank);
    one.Set("nativeAtomics", Napi::Boolean::New(env, peer.native_atomics));
    one.Set("atomics", atomics);
    list.Set(i, one);
  }
  return list;
}

Napi::Value snapshot(const Napi::CallbackInfo &info) {
  const Napi::Env env = info.Env();
  return guarded(env, [&]() -> Napi::Value {
    const outboard::DeviceSnapshot s = from_handle<DevicePointer>(info[0], "device")->snapshot();
    Napi::Object result = Napi::Object::New(env);
    Napi::Int32Array attributes = Napi::Int32Array::New(env, s.attributes.size());
    memcpy(attributes.Data(), s.attributes.data(), s.attributes.size() * sizeof(int32_t));
    Napi::BigUint64Array limits = Napi::BigUint64Array::New(env, s.limits.size());
    memcpy(limits.Data(), s.limits.data(), s.limits.size() * sizeof(uint64_t));
    result.Set("name", s.name);
    result.Set("uuid", to_bytes(env, s.uuid));
    result.Set("gpuUuid", s.gpu ? to_bytes(env, *s.gpu) : env.Null());
    result.Set("totalMemory", bigint(env, s.total_memory));
    result.Set("freeMemory", bigint(env, s.free_memory));
    result.Set("attributes", attributes);
    result.Set("limits", limits);
    result.Set("leastPriority", s.least_priority);
    result.Set("greatestPriority", s.greatest_priority);
    result.Set("pciBusId", s.pci_bus_id);
    result.Set("peers", to_list(env, s.peers));
    result.Set("driverVersion", s.driver_version);
    result.Set("windowBase", bigint(env, s.window_base));
    result.Set("windowSize", bigint(env, s.window_size));
    result.Set("streamOperations", s.stream_operations);
    result.Set("granularity", bigint(env, s.granularity));
    result.Set("cublas", s.cublas);
    return result;
  });
}

// ---- sessions ----------------------------------------------------------------------------------

const char *reason_name(outboard::EndReason reason) {
  switch (reason) {
    case outboard::EndReason::kClosed:
      return "closed";
    case outboard::EndReason::kViolation:
      return "violation";
    case outboard::EndReason::kDevice:
      return "device";
    case outboard::EndReason::kStopped:
      return "stopped";
    case outboard::EndReason::kLimit:
      return "limit";
    case outboard::EndReason::kMoved:
      return "moved";
  }
  return "device";
}

struct Report {
  SessionEnd end;
  SessionPointer held;
};

// On JavaScript's thread.
void report(Napi::Env env, Napi::Function on_end, Report *report) {
  const std::unique_ptr<Report> owned(report);
  if (const std::shared_ptr<Session> session = std::move(owned->held->session)) {
    owned->held->kernel_times = session->gate().kernel_times(kMostKernels);
  }
  if (!env || !on_end) return;  // Node is being torn down
  Napi::Object result = Napi::Object::New(env);
  result.Set("reason", reason_name(owned->end.reason));
  result.Set("message", owned->end.message);
  result.Set("reusable", owned->end.reusable);
  result.Set("modules", list_modules(env, owned->end.modules));
  const auto &learnt = owned->end.learnt;
  Napi::Uint8Array bytes = Napi::Uint8Array::New(env, learnt.size());
  if (!learnt.empty()) memcpy(bytes.Data(), learnt.data(), learnt.size());
  result.Set("learnt", bytes);
  on_end.Call({result});
}

outboard::TraceOptions to_trace(const Napi::Object &given) {
  outboard::TraceOptions trace;
  trace.file = to_text(given.Get("file"), "trace.file");
  trace.size = to_optional(given.Get("size"), "trace.size", to_u64).value_or(TRACE_BYTES_DEFAULT);
  const auto list = to_array(given.Get("marks"), "trace.marks");
  for (uint32_t i = 0; i < list.Length(); i++) {
    const Napi::Object mark = to_object(list.Get(i), "trace.marks[]");
    trace.marks.push_back({to_text(mark.Get("name"), "name"), to_u64(mark.Get("from"), "from"),
                           to_u64(mark.Get("to"), "to")});
  }
  return trace;
}

// On JavaScript's thread.
void tell_away(Napi::Env env, Napi::Function on_away, std::optional<Away> *away) {
  const std::unique_ptr<std::optional<Away>> owned(away);
  if (!env || !on_away) return;  // Node is being torn down
  if (!*owned) {
    on_away.Call({env.Null()});
    return;
  }
  Napi::Object told = Napi::Object::New(env);
  told.Set("passedMs", static_cast<double>((*owned)->passed.count()));
  told.Set("leftMs", static_cast<double>((*owned)->left.count()));
  on_away.Call({told});
}

// Of a connection by TLS; null: it is none.
std::optional<outboard::SessionOptions::Tls> to_tls(const Napi::Value &given) {
  const auto tls = to_optional(given, "tls", to_object);
  if (!tls) return std::nullopt;
  const auto part = [&](const char *name) {
    const Napi::Value value = tls->Get(name);
    if (!value.IsTypedArray()) throw Error("OB_INTERNAL", "tls must have Uint8Arrays");
    const auto all = value.As<Napi::Uint8Array>();
    return std::vector<uint8_t>(all.Data(), all.Data() + all.ByteLength());
  };
  return outboard::SessionOptions::Tls{part("state"), part("unopened")};
}

Napi::Value start_session(const Napi::CallbackInfo &info) {
  const Napi::Env env = info.Env();
  return guarded(env, [&] {
    const DevicePointer device = from_handle<DevicePointer>(info[0], "device");
    const Napi::Object given = to_object(info[1], "options");
    outboard::SessionOptions options;
    options.fd = to_int(given.Get("fd"), "fd");
    options.id = to_u64(given.Get("session"), "session");
    options.memory_limit = to_u64(given.Get("memoryLimit"), "memoryLimit");
    options.pinned_limit = to_u64(given.Get("pinnedLimit"), "pinnedLimit");
    options.module_limit = to_u64(given.Get("moduleLimit"), "moduleLimit");
    options.stack_limit = to_u64(given.Get("stackLimit"), "stackLimit");
    options.tenant = to_text(given.Get("tenant"), "tenant");
    options.group = to_u64(given.Get("group"), "group");
    options.grace = std::chrono::seconds(to_int(given.Get("graceSeconds"), "graceSeconds"));
    options.upload_cache = to_bool(given.Get("uploadCache"), "uploadCache");
    options.expected = to_modules(to_array(given.Get("expected"), "expected"));
    const auto to_bytes = [&](const char *name) {
      const Napi::Value value = given.Get(name);
      if (!value.IsTypedArray())
        throw Error("OB_INTERNAL", std::string(name) + " must be a Uint8Array");
      const auto bytes = value.As<Napi::Uint8Array>();
      return std::vector<uint8_t>(bytes.Data(), bytes.Data() + bytes.ByteLength());
    };
    options.learnt = to_bytes("learnt");
    options.leftover = to_bytes("leftover");
    options.tls = to_tls(given.Get("tls"));
    if (const auto most = to_optional(given.Get("mostKernel"), "mostKernel", to_object)) {
      options.most_kernel = std::chrono::seconds(to_int(most->Get("seconds"), "seconds"));
      options.kernel_sentence = to_text(most->Get("sentence"), "sentence");
    }
    const Napi::Object gated = to_object(given.Get("gated"), "gated");
    options.gate.copies = to_bool(gated.Get("copies"), "gated.copies");
    options.gate.sets = to_bool(gated.Get("sets"), "gated.sets");
    options.gate.measured = to_bool(given.Get("measured"), "measured");
    if (const auto trace = to_optional(given.Get("trace"), "trace", to_object))
      options.trace = to_trace(*trace);
    options.arrives = to_bool(given.Get("arrives"), "arrives");
    const auto away = hold_function(env, to_function(given.Get("onAway"), "onAway"), "guest away");
    options.on_away = [away](const std::optional<Away> &now) {
      auto *copy = new std::optional<Away>(now);
      if (away->NonBlockingCall(copy, tell_away) != napi_ok) delete copy;
    };
    const auto arrived =
        hold_function(env, to_function(given.Get("onArrived"), "onArrived"), "session arrived");
    options.on_arrived = [arrived] { arrived->NonBlockingCall(); };
    const Napi::Function on_end = to_function(given.Get("onEnd"), "onEnd");
    const auto closing =
        hold_function(env, to_function(given.Get("onClosing"), "onClosing"), "session closing");
    options.on_closing = [closing] { closing->NonBlockingCall(); };
    options.on_used = caller_of_used(env, to_function(given.Get("onUsed"), "onUsed"));
    auto call = Napi::ThreadSafeFunction::New(env, on_end, "session end", 0, 1);
    const auto held = std::make_shared<HeldSession>();
    options.on_end = [call, held](const SessionEnd &end) mutable {
      auto *copy = new Report{end, held};
      if (call.NonBlockingCall(copy, report) != napi_ok) delete copy;
      call.Release();
    };
    try {
      held->session = Session::start(device, std::move(options));
      held->counters = held->session->counters();
      return handle(env, held);
    } catch (...) {
      call.Release();
      throw;
    }
  });
}

struct Departed {
  bool moved;
  std::string why;
  uint64_t stopped_ns;
};

// On JavaScript's thread.
void tell_departed(Napi::Env env, Napi::Function on_done, Departed *departed) {
  const std::unique_ptr<Departed> owned(departed);
  if (!env || !on_done) return;  // Node is being torn down
  on_done.Call({Napi::Boolean::New(env, owned->moved), Napi::String::New(env, owned->why),
                bigint(env, owned->stopped_ns)});
}

Napi::Value move_session(const Napi::CallbackInfo &info) {
  const Napi::Env env = info.Env();
  return guarded(env, [&] {
    const SessionPointer held = from_handle<SessionPointer>(info[0], "session");
    const int link = dup(to_int(info[1], "link"));
    const auto call = hold_function(env, to_function(info[2], "onDone"), "session moved");
    const auto done = [call](bool moved, const std::string &why, uint64_t stopped_ns) {
      auto *copy = new Departed{moved, why, stopped_ns};
      if (call->NonBlockingCall(copy, tell_departed) != napi_ok) delete copy;
    };
    if (held->session && link >= 0) {
      held->session->move(link, done);
    } else {
      if (link >= 0) close(link);
      done(false, link < 0 ? "no file descriptor is left" : "the session is over", 0);
    }
    return env.Undefined();
  });
}

Napi::Value stop_session(const Napi::CallbackInfo &info) {
  return guarded(info.Env(), [&] {
    const SessionPointer held = from_handle<SessionPointer>(info[0], "session");
    if (held->session) held->session->stop(to_text(info[1], "message"));
    return info.Env().Undefined();
  });
}

Napi::Value resume_session(const Napi::CallbackInfo &info) {
  return guarded(info.Env(), [&]() -> Napi::Value {
    const SessionPointer held = from_handle<SessionPointer>(info[0], "session");
    const int fd = to_int(info[1], "fd");
    const uint64_t received = to_u64(info[2], "received");
    const auto epoch = static_cast<uint32_t>(to_u64(info[3], "epoch"));
    const auto tls = to_tls(info[4]);
    const bool taken = held->session && held->session->resume(fd, received, epoch, tls);
    return Napi::Boolean::New(info.Env(), taken);
  });
}

Napi::Value counters(const Napi::CallbackInfo &info) {
  const Napi::Env env = info.Env();
  return guarded(env, [&]() -> Napi::Value {
    auto *held = new CountersPointer(from_handle<SessionPointer>(info[0], "session")->counters);
    Napi::ArrayBuffer memory = Napi::ArrayBuffer::New(
        env, held->get(), sizeof(Counters),
        [](Napi::Env, void *, CountersPointer *pointer) { delete pointer; }, held);
    return Napi::BigUint64Array::New(env, outboard::kCounterCount, memory, 0);
  });
}

Napi::Value kernel_times(const Napi::CallbackInfo &info) {
  const Napi::Env env = info.Env();
  return guarded(env, [&]() -> Napi::Value {
    const SessionPointer held = from_handle<SessionPointer>(info[0], "session");
    const auto times =
        held->session ? held->session->gate().kernel_times(kMostKernels) : held->kernel_times;
    Napi::Array list = Napi::Array::New(env, times.size());
    for (uint32_t i = 0; i < times.size(); i++) {
      Napi::Object entry = Napi::Object::New(env);
      entry.Set("name", times[i].name);
      entry.Set("launches", bigint(env, times[i].launches));
      entry.Set("blocks", bigint(env, times[i].blocks));
      entry.Set("ns", bigint(env, times[i].ns));
      entry.Set("unmeasured", bigint(env, times[i].unmeasured));
      list.Set(i, entry);
    }
    return list;
  });
}

// ---- quota pages -------------------------------------------------------------------------------

// The page's memory, which stays mapped as long as the buffer is held.
Napi::ArrayBuffer page_buffer(Napi::Env env, std::shared_ptr<QuotaPage> page) {
  auto *held = new std::shared_ptr<QuotaPage>(std::move(page));
  return Napi::ArrayBuffer::New(
      env, &(*held)->words(), QuotaPage::kBytes,
      [](Napi::Env, void *, std::shared_ptr<QuotaPage> *pointer) { delete pointer; }, held);
}

Napi::Value create_quota_page(const Napi::CallbackInfo &info) {
  const Napi::Env env = info.Env();
  return guarded(env, [&]() -> Napi::Value {
    const std::shared_ptr<QuotaPage> page = QuotaPage::create();
    Napi::Object result = Napi::Object::New(env);
    result.Set("fd", page->release_fd());
    result.Set("buffer", page_buffer(env, page));
    return result;
  });
}

Napi::Value open_quota_page(const Napi::CallbackInfo &info) {
  const Napi::Env env = info.Env();
  return guarded(env, [&]() -> Napi::Value {
    return page_buffer(env, QuotaPage::open(to_int(info[0], "fd")));
  });
}

Napi::Value wake_quota_page(const Napi::CallbackInfo &info) {
  return guarded(info.Env(), [&] {
    if (!info[0].IsArrayBuffer() ||
        info[0].As<Napi::ArrayBuffer>().ByteLength() != QuotaPage::kBytes) {
      throw Error("OB_INTERNAL", "the buffer is no quota page");
    }
    QuotaPage::wake(*static_cast<outboard::QuotaWords *>(info[0].As<Napi::ArrayBuffer>().Data()));
    return info.Env().Undefined();
  });
}

// ---- turn pages --------------------------------------------------------------------------------

Napi::Value create_turn_page(const Napi::CallbackInfo &info) {
  const Napi::Env env = info.Env();
  return guarded(env, [&]() -> Napi::Value {
    auto *held = new std::shared_ptr<TurnPage>(TurnPage::create());
    Napi::Object result = Napi::Object::New(env);
    result.Set("fd", (*held)->release_fd());
    result.Set(
        "buffer",
        Napi::ArrayBuffer::New(
            env, &(*held)->words(), TurnPage::kBytes,
            [](Napi::Env, void *, std::shared_ptr<TurnPage> *pointer) { delete pointer; }, held));
    return result;
  });
}

Napi::Value leave_turns(const Napi::CallbackInfo &info) {
  return guarded(info.Env(), [&] {
    if (!info[0].IsArrayBuffer() ||
        info[0].As<Napi::ArrayBuffer>().ByteLength() != TurnPage::kBytes) {
      throw Error("OB_INTERNAL", "the buffer is no turn page");
    }
    TurnPage::leave(*static_cast<outboard::TurnWords *>(info[0].As<Napi::ArrayBuffer>().Data()),
                    static_cast<unsigned>(to_int(info[1], "slot")));
    return info.Env().Undefined();
  });
}

// Where a driver puts code and variables of modules, it follows the kernel, which fills the address
// space from the top. So it does in the programs that are served, and an address of a variable
// would be one of memory of theirs. Processes that this thread starts while it is on begin at a
// third of the address space. Where a kernel knows no such layout, or a filter of system calls
// refuses it, they do as always; then it returns false.
Napi::Value map_from_below(const Napi::CallbackInfo &info) {
  const int now = personality(0xffffffff);
  bool done = now >= 0;
  if (done) {
    constexpr unsigned long kBelow = ADDR_COMPAT_LAYOUT;
    const auto others = static_cast<unsigned long>(now) & ~kBelow;
    done = personality(info[0].ToBoolean() ? others | kBelow : others) >= 0;
  }
  return Napi::Boolean::New(info.Env(), done);
}

// As sd_notify(3): a datagram to the socket that systemd names, which Node cannot send. A path that
// begins with @ is an abstract address.
Napi::Value notify(const Napi::CallbackInfo &info) {
  const Napi::Env env = info.Env();
  const std::string path = info[0].ToString(), message = info[1].ToString();
  sockaddr_un address{};
  if (path.empty() || path.size() >= sizeof address.sun_path) return Napi::Boolean::New(env, false);
  address.sun_family = AF_UNIX;
  memcpy(address.sun_path, path.data(), path.size());
  if (path[0] == '@') address.sun_path[0] = 0;
  // Kept: a server whose descriptors have run out still has to say that it lives, or it is killed.
  static int fd = -1;
  if (fd < 0) fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const socklen_t length = offsetof(sockaddr_un, sun_path) + path.size();
  const bool sent = fd >= 0 && sendto(fd, message.data(), message.size(), MSG_NOSIGNAL,
                                      reinterpret_cast<sockaddr *>(&address), length) >= 0;
  return Napi::Boolean::New(env, sent);
}

Napi::Object init(Napi::Env env, Napi::Object exports) {
  exports.Set("socketPair", Napi::Function::New(env, socket_pair));
  exports.Set("sendDescriptor", Napi::Function::New(env, send_descriptor));
  exports.Set("receiveDescriptor", Napi::Function::New(env, receive_descriptor));
  exports.Set("tls", tls(env));
  exports.Set("notify", Napi::Function::New(env, notify));
  exports.Set("machineGpus", Napi::Function::New(env, machine_gpus));
  exports.Set("nvmlFacts", Napi::Function::New(env, nvml_facts));
  exports.Set("offeredDevices", Napi::Function::New(env, offered_devices));
  exports.Set("openDevice", Napi::Function::New(env, open_device));
  exports.Set("closeDevice", Napi::Function::New(env, close_device));
  exports.Set("moveWindow", Napi::Function::New(env, move_window));
  exports.Set("snapshot", Napi::Function::New(env, snapshot));
  exports.Set("startSession", Napi::Function::New(env, start_session));
  exports.Set("resumeSession", Napi::Function::New(env, resume_session));
  exports.Set("stopSession", Napi::Function::New(env, stop_session));
  exports.Set("moveSession", Napi::Function::New(env, move_session));
  exports.Set("counters", Napi::Function::New(env, counters));
  exports.Set("kernelTimes", Napi::Function::New(env, kernel_times));
  exports.Set("createQuotaPage", Napi::Function::New(env, create_quota_page));
  exports.Set("openQuotaPage", Napi::Function::New(env, open_quota_page));
  exports.Set("wakeQuotaPage", Napi::Function::New(env, wake_quota_page));
  exports.Set("createTurnPage", Napi::Function::New(env, create_turn_page));
  exports.Set("mapFromBelow", Napi::Function::New(env, map_from_below));
  exports.Set("leaveTurns", Napi::Function::New(env, leave_turns));
  return exports;
}

}  // namespace

NODE_API_MODULE(executor, init)
