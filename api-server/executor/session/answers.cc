#include "session/answers.h"

#include <sys/uio.h>

#include <algorithm>

namespace outboard {

namespace {

// A frame for a piece of a download, without its header.
wire_data data_frame(uint64_t request, uint64_t offset, size_t length) {
  wire_data frame{};
  frame.request = request;
  frame.offset = offset;
  frame.length = length;
  return frame;
}

}  // namespace

Answers::Answers(int fd, Counters &counters, Reconnection &reconnection, Records *records,
                 const Trace *trace, Output *output, const std::atomic<bool> &ending)
    : sender_(fd, counters, reconnection, records),
      counters_(counters),
      trace_(trace),
      output_(output),
      ending_(ending) {
  skip_output();
}

void Answers::fault(uint16_t op, CUresult result, uint64_t posted_number) {
  int none = 0;
  async_.compare_exchange_strong(none, result);
  outboard::count(counters_.faults);
  wire_fault frame{};
  frame.result = result;
  frame.op = op;
  frame.posted_number = posted_number;
  sender_.push(WIRE_FAULT, &frame, sizeof frame);
}

void Answers::fill(wire_reply *reply, uint64_t request, CUresult result) {
  if (trace_) [[unlikely]]
    Trace::answers();
  reply->request = request;
  reply->result = result;
  reply->async = async_.load(std::memory_order_relaxed) ? async_.exchange(0) : 0;
  outboard::count(counters_.round_trips);
}

void Answers::send(uint64_t request, CUresult result) {
  if (ending_.load()) return;
  wire_reply reply;
  fill(&reply, request, result);
  sender_.push(WIRE_REPLY, &reply, sizeof reply);
}

void Answers::send(uint64_t request, CUresult result, wire_reply *reply, size_t size,
                   const void *tail, size_t tail_size) {
  if (ending_.load()) return;
  fill(reply, request, result);
  sender_.push(WIRE_REPLY, reply, size, tail, tail_size);
}

void Answers::synchronised(uint64_t request, CUresult result) {
  output();
  send(request, result);
}

bool Answers::data(uint64_t request, uint64_t offset, const void *data, size_t length) {
  if (ending_.load()) return false;
  wire_data frame = data_frame(request, offset, length);
  return sender_.push(WIRE_DATA, &frame, sizeof frame, data, length);
}

bool Answers::spent_data(uint64_t request, uint64_t offset, uint8_t *data, size_t length) {
  if (ending_.load()) return false;
  wire_data frame = data_frame(request, offset, length);
  return sender_.push(WIRE_DATA, &frame, sizeof frame, data, length, true);
}

void Answers::last_data(uint64_t request, uint64_t offset, uint8_t *data, size_t length) {
  if (ending_.load()) return;
  const size_t padding = -length & 7;
  wire_data frame = data_frame(request, offset, length);
  frame.header = {WIRE_DATA, 0, static_cast<uint32_t>(sizeof frame + length + padding)};
  wire_reply reply;
  reply.header = {WIRE_REPLY, 0, sizeof reply};
  fill(&reply, request, CUDA_SUCCESS);
  iovec parts[4] = {{&frame, sizeof frame},
                    {data, length},
                    {const_cast<uint8_t *>(kPadding), padding},
                    {&reply, sizeof reply}};
  sender_.send(parts, 4, -1, &parts[1]);
}

void Answers::placed(uint64_t request, uint64_t offset, size_t length, uint32_t slot, bool last) {
  if (ending_.load()) return;
  wire_placed frame{};
  frame.header = {WIRE_PLACED, 0, sizeof frame};
  frame.request = request;
  frame.offset = offset;
  frame.length = length;
  frame.slot = slot;
  wire_reply reply;
  reply.header = {WIRE_REPLY, 0, sizeof reply};
  if (last) fill(&reply, request, CUDA_SUCCESS);
  iovec parts[2] = {{&frame, sizeof frame}, {&reply, sizeof reply}};
  sender_.send(parts, last ? 2 : 1);
}

void Answers::with_descriptor(uint64_t request, wire_reply *reply, size_t size, int descriptor) {
  if (ending_.load()) return;
  reply->header = {WIRE_REPLY, 0, static_cast<uint32_t>(size)};
  fill(reply, request, CUDA_SUCCESS);
  iovec part = {reply, size};
  sender_.send(&part, 1, descriptor);
}

void Answers::done(uint64_t handle, uint64_t request) {
  output();
  if (ending_.load()) return;
  wire_done frame;
  frame.handle = handle;
  frame.request = request;
  sender_.push(WIRE_DONE, &frame, sizeof frame);
}

void Answers::passed(uint64_t stream, uint64_t place) {
  if (ending_.load()) return;
  wire_passed frame;
  frame.stream = stream;
  frame.place = place;
  sender_.push(WIRE_PASSED, &frame, sizeof frame);
}

void Answers::call(uint64_t function, uint64_t call, CUresult status) {
  wire_call frame{};
  frame.function = function;
  frame.call = call;
  frame.status = status;
  sender_.push(WIRE_CALL, &frame, sizeof frame);
}

void Answers::output() {
  if (!output_ || !launched_.load(std::memory_order_relaxed)) return;
  std::lock_guard lock(output_mutex_);
  char text[16 << 10];
  while (const size_t length = output_->read(text, sizeof text)) {
    wire_output frame;
    frame.length = length;
    if (!sender_.push(WIRE_OUTPUT, &frame, sizeof frame, text, length)) break;
  }
  const std::string assertions = output_->take_assertions();
  for (size_t at = 0; at < assertions.size(); at += sizeof text) {
    const size_t length = std::min(sizeof text, assertions.size() - at);
    wire_output frame;
    frame.length = length;
    if (!sender_.push(WIRE_ERRORS, &frame, sizeof frame, assertions.data() + at, length)) break;
  }
}

void Answers::skip_output() {
  if (output_) output_->skip();
}

bool Answers::arrived(uint64_t request) {
  wire_reply reply{};
  reply.request = request;
  return sender_.push_at_once(WIRE_REPLY, &reply, sizeof reply);
}

void Answers::begin_anew(int unreported, Records *records, Sender::Stream *stream) {
  sender_.begin_anew(records, stream);
  async_.store(unreported);
  launched();
}

void Answers::idle() {
  wire_header frame;
  sender_.push(WIRE_IDLE, &frame, sizeof frame);
}

void Answers::end(CUresult result, const std::string &sentence) {
  wire_end frame{};
  frame.result = result;
  frame.length = static_cast<uint32_t>(sentence.size());
  sender_.push(WIRE_END, &frame, sizeof frame, sentence.data(), sentence.size());
}

}  // namespace outboard
