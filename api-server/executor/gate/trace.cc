#include "gate/trace.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/log.h"
#include "wire_calls.h"

namespace outboard {

namespace {

uint32_t thread_number() {
  static thread_local const auto number = static_cast<uint32_t>(syscall(SYS_gettid));
  return number;
}

}  // namespace

thread_local Trace::Notes Trace::notes_ = {};

std::unique_ptr<Trace> Trace::open(const TraceOptions &options, uint64_t session) {
  if (options.file.empty()) return nullptr;
  trace_ring ring{};
  const int error = trace_ring_open(&ring, options.file.c_str(), options.size, TRACE_SERVER);
  if (error != 0) {
    log_line(LogLevel::kWarn, session,
             "no trace of the session: " + options.file + ": " + strerror(error));
    return nullptr;
  }
  std::unique_ptr<Trace> trace(new Trace(ring));
  trace->prepare(options, session);
  return trace;
}

void Trace::prepare(const TraceOptions &options, uint64_t session) {
  ring_.header->session = session;
#define OUTBOARD_NAME(id, text) \
  static_assert(id < kMostOps); \
  op_names_[id] = name(#text);
  WIRE_OPS(OUTBOARD_NAME)
#undef OUTBOARD_NAME
  clock_name_ = name("device clock");
  for (const TraceOptions::Mark &mark : options.marks) {
    put(TRACE_ATTACH, name(mark.name), mark.from, mark.to, 0, 0, 0);
  }
}

Trace::~Trace() { trace_ring_close(&ring_); }

uint32_t Trace::name(const std::string &text) {
  std::lock_guard lock(names_mutex_);
  return trace_ring_string(&ring_, text.data(), text.size());
}

void Trace::put(trace_kind kind, uint32_t name, uint64_t from, uint64_t to, uint64_t a, uint64_t b,
                uint64_t c, int32_t result) {
  trace_record record{};
  record.at = from;
  record.duration = to > from ? to - from : 0;
  record.kind = static_cast<uint16_t>(kind);
  record.thread = thread_number();
  record.name = name;
  record.result = result;
  record.a = a;
  record.b = b;
  record.c = c;
  trace_ring_put(&ring_, &record);
}

// ---- commands ----------------------------------------------------------------------------------

Trace::Command::Command(Trace *trace, uint16_t op, uint64_t sequence, uint64_t bytes)
    : trace_(trace) {
  if (!trace) [[likely]]
    return;
  op_ = op;
  sequence_ = sequence;
  at_ = trace_now();
  notes_ = {bytes, 0};
  auto &take = trace->take_;
  if (take.count++ == 0) {
    take.at = at_;
    take.first = sequence;
  }
  take.last = sequence;
}

void Trace::Command::end() {
  const uint64_t now = trace_now();
  if (notes_.answered == 0 && notes_.bytes == 0 && now - at_ < kLong) return;
  const uint32_t name = op_ < kMostOps ? trace_->op_names_[op_] : TRACE_NO_NAME;
  trace_->put(TRACE_COMMAND, name, at_, std::max(now, at_ + 1), sequence_, notes_.bytes,
              notes_.answered);
}

void Trace::taken() {
  if (take_.count == 0) return;
  put(TRACE_TAKE, TRACE_NO_NAME, take_.at, std::max(trace_now(), take_.at + 1), take_.count,
      take_.first, take_.last);
  take_.count = 0;
}

void Trace::joins(LaunchGroup &group) const {
  if (!group.traced.first) {
    group.traced.first = take_.last;
    group.traced.since = trace_now();
  }
  group.traced.last = take_.last;
}

void Trace::answers() {
  if (notes_.answered == 0) notes_.answered = trace_now();
}

// ---- the gate ----------------------------------------------------------------------------------

void Trace::held(const LaunchGroup &group, uint64_t since) {
  const uint64_t now = trace_now();
  put(TRACE_HELD, TRACE_NO_NAME, since, std::max(now, since + 1), group.sequence,
      reinterpret_cast<uint64_t>(group.stream), group.predicted);
}

void Trace::measured(const LaunchGroup &group, uint64_t from, uint64_t to) {
  for (const LaunchGroup::Use &use : group.uses) {
    if (use.launches == 0) continue;
    put(TRACE_USE, use.kernel->trace_name, from, from, group.sequence, use.launches, use.blocks);
  }
  const uint64_t further = std::min<uint64_t>(group.traced.last - group.traced.first, INT32_MAX);
  put(TRACE_GROUP, TRACE_NO_NAME, from, std::max(to, from + 1), group.sequence,
      reinterpret_cast<uint64_t>(group.stream), group.traced.first, static_cast<int32_t>(further));
}

void Trace::clock(uint64_t within) {
  const uint64_t now = trace_now();
  put(TRACE_ATTACH, clock_name_, now, now, within, 0, 0);
}

// ---- the device's clock ------------------------------------------------------------------------

DeviceClock::DeviceClock(const Driver &driver, Trace *trace) : driver_(driver), trace_(trace) {
  if (!trace_) return;
  int least = 0, greatest = 0;
  driver_.cuCtxGetStreamPriorityRange(&least, &greatest);
  if (driver_.cuStreamCreateWithPriority(&stream_, CU_STREAM_NON_BLOCKING, greatest) !=
      CUDA_SUCCESS) {
    stream_ = nullptr;
    return;
  }
  for (CUevent *event : {&known_, &spare_}) {
    if (driver_.cuEventCreate(event, CU_EVENT_DEFAULT) == CUDA_SUCCESS) continue;
    *event = nullptr;
    close();
    return;
  }
  // The first time finds everything cold.
  uint64_t within = 0;
  for (int i = 0; i < 4; i++) look(kFirstPatience, &within);
  if (at_) trace_->clock(within);
  looked_ = trace_now();
}

void DeviceClock::close() {
  for (CUevent *event : {&known_, &spare_}) {
    if (*event) driver_.cuEventDestroy_v2(*event);
    *event = nullptr;
  }
  if (stream_) driver_.cuStreamDestroy_v2(stream_);
  stream_ = nullptr;
  at_ = 0;
}

// Keeps what it sees, if that is no less exact than `within` (0: nothing is).
bool DeviceClock::look(uint64_t patience, uint64_t *within) {
  const uint64_t before = trace_now();
  if (driver_.cuEventRecord(spare_, stream_) != CUDA_SUCCESS) return false;
  CUresult result;
  uint64_t after;
  for (;;) {
    result = driver_.cuEventQuery(spare_);
    after = trace_now();
    if (result != CUDA_ERROR_NOT_READY || after - before > patience) break;
    sched_yield();
  }
  const uint64_t half = (after - before) / 2;
  if (result != CUDA_SUCCESS || (*within && half > *within)) return false;
  std::swap(known_, spare_);
  at_ = before + half;
  *within = half;
  return true;
}

void DeviceClock::refresh() {
  if (!at_) return;
  const uint64_t now = trace_now();
  if (now - looked_ < kEvery) return;
  looked_ = now;
  uint64_t within = 0;
  for (int i = 0; i < 2; i++) look(kPatience, &within);
  if (within) trace_->clock(within);
}

std::optional<uint64_t> DeviceClock::time_of(CUevent event) const {
  float later = 0;
  if (!at_ || driver_.cuEventElapsedTime_v2(&later, known_, event) != CUDA_SUCCESS) return {};
  return at_ + static_cast<uint64_t>(static_cast<int64_t>(static_cast<double>(later) * 1e6));
}

}  // namespace outboard
