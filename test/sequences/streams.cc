// Streams, events, host functions, contexts.
#include "world.h"

namespace sequences {
namespace {

void create(World &world, Line &line) {
  if (world.strands.size() > 7 + world.contexts.size()) return;
  const unsigned flags = world.choices.of<unsigned>({0, 1, 0, 1, 2});
  const int priority = static_cast<int>(world.choices.below(9)) - 6;
  CUstream stream = nullptr;
  line.arg(flags).arg(std::to_string(priority));
  if (line.result(CALL(world, cuStreamCreateWithPriority)(&stream, flags, priority))) return;
  unsigned got_flags = 77;
  int got_priority = 77;
  line.out(CALL(world, cuStreamGetFlags)(stream, &got_flags)).out(got_flags);
  line.out(CALL(world, cuStreamGetPriority)(stream, &got_priority));
  line.out(std::to_string(got_priority)).out("s" + std::to_string(world.strands.size()));
  world.add_strand(stream, world.here().device);
}

void destroy(World &world, Line &line) {
  if (!world.here().stream || world.capturing()) return;
  line.arg(world.strand);
  const CUresult result = line.result(CALL(world, cuStreamDestroy_v2)(world.here().stream));
  // What its memory holds can be looked at when it is done; nobody has its handle then.
  CALL(world, cuCtxSynchronize)();
  if (!result) world.here().live = false;
}

void synchronize(World &world, Line &line) {
  line.arg(world.strand).result(CALL(world, cuStreamSynchronize)(world.here().stream));
}

void query(World &world, Line &line) {
  line.arg(world.strand);
  line.result(CALL(world, cuStreamQuery)(world.here().stream), CUDA_ERROR_NOT_READY);
}

void context_synchronize(World &world, Line &line) { line.result(CALL(world, cuCtxSynchronize)()); }

// What the strand's work has come to.
void look(World &world, Line &line) {
  line.arg(world.strand);
  if (line.result(CALL(world, cuStreamSynchronize)(world.here().stream))) return;
  thread_local std::vector<uint8_t> bytes(size_t{1} << 20);
  for (const auto &[number, memory] : world.memory.live) {
    if (memory.strand != world.strand || memory.kind == Memory::kCapture) continue;
    const CUresult result = CALL(world, cuMemcpyDtoH_v2)(bytes.data(), memory.address, memory.size);
    line.out("m" + std::to_string(number) + ":");
    line.out(result ? "error " + std::to_string(result)
                    : std::to_string(digest(bytes.data(), memory.size)));
  }
  const Strand &strand = world.here();
  line.out("target:").out(digest(strand.target.data(), kHostBytes));
  if (strand.pinned) line.out("pinned:").out(digest(strand.pinned, kHostBytes));
  line.out("calls:").out(strand.host_calls);
}

void event_create(World &world, Line &line) {
  const unsigned flags = world.choices.of<unsigned>({0, 2, 1, 3, 4, 6, 8});
  CUevent event = nullptr;
  if (!line.arg(flags).result(CALL(world, cuEventCreate)(&event, flags)))
    line.out("e" + std::to_string(world.events.add(event)));
}

void event_destroy(World &world, Line &line) {
  const auto found = world.events.pick(world.choices);
  if (!found) return;
  const unsigned number = found->first;
  if (!line.arg(number).result(CALL(world, cuEventDestroy_v2)(found->second)))
    world.events.live.erase(number);
}

void event_record(World &world, Line &line) {
  const auto event = world.events.pick(world.choices);
  if (!event) return;
  const unsigned flags = world.choices.of<unsigned>({0, 0, 0, 1, 2});
  line.arg(event->first).arg(world.strand).arg(flags);
  line.result(CALL(world, cuEventRecordWithFlags)(event->second, world.here().stream, flags));
}

void event_wait(World &world, Line &line) {
  const auto event = world.events.pick(world.choices);
  if (!event) return;
  const unsigned flags = world.choices.of<unsigned>({0, 0, 0, 1, 2});
  line.arg(world.strand).arg(event->first).arg(flags);
  line.result(CALL(world, cuStreamWaitEvent)(world.here().stream, event->second, flags));
}

void event_query(World &world, Line &line) {
  const auto event = world.events.pick(world.choices);
  if (!event) return;
  line.arg(event->first);
  line.result(CALL(world, cuEventQuery)(event->second), CUDA_ERROR_NOT_READY);
}

void event_synchronize(World &world, Line &line) {
  const auto event = world.events.pick(world.choices);
  if (event) line.arg(event->first).result(CALL(world, cuEventSynchronize)(event->second));
}

void elapsed(World &world, Line &line) {
  const auto begin = world.events.pick(world.choices), end = world.events.pick(world.choices);
  if (!begin) return;
  CALL(world, cuCtxSynchronize)();
  float time = -1;
  line.arg(begin->first).arg(end->first);
  const auto call = CALL(world, cuEventElapsedTime_v2);
  // Where a capture forbids the wait, they may not be done.
  line.result(call(&time, begin->second, end->second), CUDA_ERROR_NOT_READY);
}

void host_function(World &world, Line &line) {
  line.arg(world.strand);
  const auto function = [](void *strand) { static_cast<Strand *>(strand)->host_calls++; };
  line.result(CALL(world, cuLaunchHostFunc)(world.here().stream, function, &world.here()));
}

void callback(World &world, Line &line) {
  const unsigned flags = world.choices.once_in(10);
  line.arg(world.strand).arg(flags);
  const auto function = [](CUstream, CUresult, void *strand) {
    static_cast<Strand *>(strand)->host_calls += 1000;
  };
  const CUstream stream = world.here().stream;
  line.result(CALL(world, cuStreamAddCallback)(stream, function, &world.here(), flags));
}

void attribute(World &world, Line &line) {
  const auto id = static_cast<CUstreamAttrID>(world.choices.of({1, 3, 8, 99}));
  CUstreamAttrValue value = {};
  line.arg(world.strand).arg(id);
  const CUstream stream = world.here().stream;
  if (world.choices.once_in(2)) {
    value.syncPolicy = static_cast<CUsynchronizationPolicy>(world.choices.below(6));
    line.arg(value.syncPolicy);
    line.result(CALL(world, cuStreamSetAttribute)(stream, id, &value));
  } else if (!line.result(CALL(world, cuStreamGetAttribute)(stream, id, &value)) && id == 3) {
    line.out(value.syncPolicy);
  }
}

void context_limit(World &world, Line &line) {
  const auto limit = static_cast<CUlimit>(world.choices.below(9));
  size_t value = 0;
  line.arg(limit);
  if (!line.result(CALL(world, cuCtxGetLimit)(&value, limit))) line.out(value);
}

// A second context with a stream and memory of its own, gone again with what it holds.
void context_round(World &world, Line &line) {
  CUcontext context = nullptr, popped = nullptr, current = nullptr;
  CUdeviceptr address = 0;
  CUstream stream = nullptr;
  const int device = static_cast<int>(world.here().device);
  if (world.capturing() || line.result(CALL(world, cuCtxCreate_v2)(&context, 0, device))) return;
  line.out(CALL(world, cuMemAlloc_v2)(&address, 5000));
  line.out(CALL(world, cuStreamCreate)(&stream, 1));
  line.out(CALL(world, cuMemsetD8Async)(address, 1, 5000, stream));
  if (world.choices.once_in(2)) line.out(CALL(world, cuCtxPopCurrent_v2)(&popped));
  line.out(CALL(world, cuCtxDestroy_v2)(context));
  line.out(CALL(world, cuCtxGetCurrent)(&current)).out(current && current != context);
  line.out(CALL(world, cuMemsetD8Async)(address, 1, 5000, world.here().stream));
}

}  // namespace

const std::vector<Entry> &stream_steps() {
  static const std::vector<Entry> steps = {
      {"look", 4, look},
      {"cuStreamCreateWithPriority", 4, create},
      {"cuStreamDestroy", 1, destroy},
      {"cuStreamSynchronize", 3, synchronize},
      {"cuStreamQuery", 2, query},
      {"cuCtxSynchronize", 2, context_synchronize},
      {"cuEventCreate", 3, event_create},
      {"cuEventDestroy", 1, event_destroy},
      {"cuEventRecordWithFlags", 6, event_record},
      {"cuStreamWaitEvent", 5, event_wait},
      {"cuEventQuery", 2, event_query},
      {"cuEventSynchronize", 2, event_synchronize},
      {"cuEventElapsedTime", 2, elapsed},
      {"cuLaunchHostFunc", 3, host_function},
      {"cuStreamAddCallback", 1, callback},
      {"cuStreamAttribute", 2, attribute},
      {"cuCtxGetLimit", 1, context_limit},
      {"context", 1, context_round},
  };
  return steps;
}

}  // namespace sequences
