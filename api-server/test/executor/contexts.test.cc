// Limits of the session's context, events of all its streams, and what its driver calls errors.
#include "check.h"
#include "world.h"

using namespace outboard;

namespace {

Answer set_limit(World &w, uint32_t limit, uint64_t value) {
  wire_LimitSet q{};
  q.limit = limit;
  q.value = value;
  return w.guest.call(WIRE_LimitSet, q);
}

void record_all(World &w, uint64_t event) {
  wire_ContextRecord q{};
  q.event = event;
  w.guest.put(WIRE_ContextRecord, q);
}

void wait_all(World &w, uint64_t event) {
  wire_ContextWait q{};
  q.event = event;
  w.guest.put(WIRE_ContextWait, q);
}

}  // namespace

TEST(a_limit_is_answered_as_the_driver_made_it) {
  World w;
  const Answer answer = set_limit(w, CU_LIMIT_STACK_SIZE, 4096);
  CHECK_EQUAL(answer.reply.result, CUDA_SUCCESS);
  CHECK_EQUAL(answer.frame.as<wire_LimitSet_reply>().value, 4096u);
  wire_cuCtxSetLimit old{};
  old.limit = CU_LIMIT_STACK_SIZE;
  old.value = 8192;
  CHECK_EQUAL(w.guest.call(WIRE_cuCtxSetLimit, old).reply.result, CUDA_SUCCESS);
}

TEST(limits_that_are_none) {
  World w;
  for (uint32_t limit : {uint32_t{CU_LIMIT_CIG_ENABLED}, uint32_t{CU_LIMIT_MAX}, UINT32_MAX}) {
    CHECK_EQUAL(set_limit(w, limit, 1).reply.result, CUDA_ERROR_UNSUPPORTED_LIMIT);
  }
  wire_cuCtxSetLimit old{};
  old.limit = -1;
  CHECK_EQUAL(w.guest.call(WIRE_cuCtxSetLimit, old).reply.result, CUDA_ERROR_UNSUPPORTED_LIMIT);
  CHECK_EQUAL(World::fake().calls("cuCtxSetLimit"), 0u);
}

TEST(an_event_of_all_streams) {
  World w;
  w.load_kernels();
  const uint64_t event = w.guest.event(1);
  w.gate(1, 0);
  record_all(w, event);
  wait_all(w, event);
  const uint64_t waits = w.guest.ask_synchronize_event(event);
  World::fake().await_gate(1);
  set_limit(w, CU_LIMIT_STACK_SIZE, 4096);  // what was sent before has been taken up
  CHECK_EQUAL(World::fake().calls("cuCtxRecordEvent"), 1u);
  CHECK_EQUAL(World::fake().calls("cuCtxWaitEvent"), 1u);
  World::fake().open_gate(1);
  CHECK_EQUAL(w.guest.wait(waits).reply.result, CUDA_SUCCESS);
  CHECK_EQUAL(w.guest.synchronize().async, 0);
}

// It exports them, and says that it is older than they are: they may be unfinished in it.
TEST(a_driver_for_12_4_has_no_events_of_all_streams) {
  World::fake().set_version(12040);
  World w;
  const uint64_t event = w.guest.event(1);
  record_all(w, event);
  CHECK_EQUAL(w.guest.synchronize().async, CUDA_ERROR_NOT_SUPPORTED);
  wait_all(w, event);
  CHECK_EQUAL(w.guest.synchronize().async, CUDA_ERROR_NOT_SUPPORTED);
  CHECK_EQUAL(World::fake().calls("cuCtxRecordEvent"), 0u);
  CHECK_EQUAL(World::fake().calls("cuCtxWaitEvent"), 0u);
}

TEST(events_of_nobody) {
  World w;
  record_all(w, wire_handle(WIRE_KIND_EVENT, 1, 7));
  CHECK_EQUAL(w.guest.synchronize().async, CUDA_ERROR_INVALID_HANDLE);
  wait_all(w, w.guest.stream(1));
  CHECK_EQUAL(w.guest.synchronize().async, CUDA_ERROR_INVALID_HANDLE);
  wait_all(w, 0);
  CHECK_EQUAL(w.guest.synchronize().async, CUDA_ERROR_INVALID_HANDLE);
  CHECK_EQUAL(World::fake().calls("cuCtxRecordEvent"), 0u);
  CHECK_EQUAL(World::fake().calls("cuCtxWaitEvent"), 0u);
}

TEST(results_are_called_what_the_driver_calls_them) {
  World w;
  const Answer answer = w.guest.call(WIRE_ErrorTexts, wire_ErrorTexts{});
  CHECK_EQUAL(answer.reply.result, CUDA_SUCCESS);
  const auto &reply = answer.frame.as<wire_ErrorTexts_reply>();
  CHECK_EQUAL(reply.count, 4u);
  const std::string list = answer.frame.tail<wire_ErrorTexts_reply>(reply.texts_size);
  std::string told;
  for (size_t at = 0; at < list.size();) {
    wire_error_text head;
    memcpy(&head, list.data() + at, sizeof head);
    at += sizeof head;
    told += std::to_string(head.result) + " " + list.substr(at, head.name_size) + ": " +
            list.substr(at + head.name_size, head.sentence_size) + "\n";
    at += wire_round_up(uint32_t{head.name_size} + head.sentence_size);
  }
  CHECK_EQUAL(told,
              "0 CUDA_ERROR_FAKE: an error of the fake driver\n"
              "1 CUDA_ERROR_FAKE: an error of the fake driver\n"
              "2 CUDA_ERROR_FAKE: an error of the fake driver\n"
              "998 CUDA_ERROR_NEW: " +
                  std::string(WIRE_ERROR_TEXT_MAX, 'n') + "\n");
}
