// What a session sends: answers, data, calls of the program's functions, what kernels printed.
#include "session/session.h"

namespace outboard {

void Session::fault(uint16_t op, CUresult result, uint64_t sequence) {
  int none = 0;
  async_.compare_exchange_strong(none, result);
  outboard::count(counters_->faults);
  wire_fault frame{};
  frame.result = result;
  frame.op = op;
  frame.sequence = sequence;
  sender_.push(WIRE_FAULT, &frame, sizeof frame);
}

void Session::fill(wire_reply *reply, uint64_t request, CUresult result) {
  if (trace_) [[unlikely]]
    Trace::answers();
  reply->request = request;
  reply->result = result;
  reply->async = async_.load(std::memory_order_relaxed) ? async_.exchange(0) : 0;
  outboard::count(counters_->round_trips);
}

// Once a session is ending, its streams are let go so that they come to their end: functions that
// nobody called, values that nobody wrote. What comes to its end only then is not done, and no
// answer may say that it is: the guest is told that the session is over instead.

void Session::answer(uint64_t request, CUresult result) {
  if (is_ending()) return;
  wire_reply reply;
  fill(&reply, request, result);
  sender_.push(WIRE_REPLY, &reply, sizeof reply);
}

void Session::answer(uint64_t request, CUresult result, wire_reply *reply, size_t size,
                     const void *tail, size_t tail_size) {
  if (is_ending()) return;
  fill(reply, request, result);
  sender_.push(WIRE_REPLY, reply, size, tail, tail_size);
}

void Session::synchronised(uint64_t request, CUresult result) {
  flush_output();
  answer(request, result);
}

bool Session::send_data(uint64_t request, uint64_t offset, const void *data, size_t length) {
  if (is_ending()) return false;
  wire_data frame;
  frame.request = request;
  frame.offset = offset;
  frame.length = length;
  return sender_.push(WIRE_DATA, &frame, sizeof frame, data, length);
}

void Session::answer_with_data(uint64_t request, uint64_t offset, const void *data, size_t length) {
  if (is_ending()) return;
  const size_t padding = -length & 7;
  wire_data frame;
  frame.header = {WIRE_DATA, 0, static_cast<uint32_t>(sizeof frame + length + padding)};
  frame.request = request;
  frame.offset = offset;
  frame.length = length;
  wire_reply reply;
  reply.header = {WIRE_REPLY, 0, sizeof reply};
  fill(&reply, request, CUDA_SUCCESS);
  iovec parts[4] = {{&frame, sizeof frame},
                    {const_cast<void *>(data), length},
                    {const_cast<uint8_t *>(kPadding), padding},
                    {&reply, sizeof reply}};
  sender_.send(parts, 4);
}

void Session::send_placed(uint64_t request, uint64_t offset, size_t length, uint32_t slot,
                          bool last) {
  if (is_ending()) return;
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

void Session::answer_with_descriptor(uint64_t request, wire_reply *reply, size_t size,
                                     int descriptor) {
  if (is_ending()) return;
  reply->header = {WIRE_REPLY, 0, static_cast<uint32_t>(size)};
  fill(reply, request, CUDA_SUCCESS);
  iovec part = {reply, size};
  sender_.send(&part, 1, descriptor);
}

void Session::push_done(uint64_t handle, uint64_t request) {
  flush_output();
  if (is_ending()) return;
  wire_done frame;
  frame.handle = handle;
  frame.request = request;
  sender_.push(WIRE_DONE, &frame, sizeof frame);
}

// What was downloaded before the function's turn is there when the guest calls it. The thread is
// the driver's, which may not ask it.
void Session::call_guest(uint64_t function, uint64_t call, CUresult status) {
  if (!transfers_.pending()) return push_call(function, call, status);
  post([=, this] {
    transfers_.settle(UINT64_MAX);
    push_call(function, call, status);
  });
}

void Session::push_call(uint64_t function, uint64_t call, CUresult status) {
  wire_call frame{};
  frame.function = function;
  frame.call = call;
  frame.status = status;
  sender_.push(WIRE_CALL, &frame, sizeof frame);
}

void Session::flush_output() {
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

}  // namespace outboard
