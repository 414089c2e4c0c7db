// Values that streams wait for and write, and attributes of streams.
#include "check.h"
#include "world.h"

using namespace outboard;

namespace {

constexpr uint64_t kGranule = WIRE_GRANULE;

wire_value value(uint32_t operation, uint64_t address, uint64_t number, uint32_t flags = 0) {
  return {operation, flags, address, number};
}

void put(World &w, uint64_t stream, const std::string &values) {
  wire_StreamValues q{};
  q.stream = stream;
  q.values_size = static_cast<uint32_t>(values.size());
  w.guest.put(WIRE_StreamValues, q, values);
}

std::string wait_for(uint64_t address, uint32_t number) {
  return packed(value(CU_STREAM_MEM_OP_WAIT_VALUE_32, address, number, CU_STREAM_WAIT_VALUE_EQ));
}
std::string write_to(uint64_t address, uint32_t number) {
  return packed(value(CU_STREAM_MEM_OP_WRITE_VALUE_32, address, number));
}

uint64_t stream(World &w, uint32_t index) { return w.guest.stream(index, CU_STREAM_NON_BLOCKING); }

}  // namespace

TEST(a_stream_waits_for_what_another_writes) {
  World w;
  const uint64_t at = World::base();
  w.guest.map(at, kGranule);
  const uint64_t held = stream(w, 1), other = stream(w, 2);
  put(w, held, wait_for(at, 5) + write_to(at + 4, 6));
  const uint64_t waiting = w.guest.ask_synchronize_stream(held);
  CHECK_EQUAL(w.guest.download(at + 4, 4, other), packed(uint32_t{0}));
  put(w, other, write_to(at, 5));
  CHECK_EQUAL(w.guest.wait(waiting).reply.result, CUDA_SUCCESS);
  CHECK_EQUAL(w.guest.download(at + 4, 4, other), packed(uint32_t{6}));
  CHECK_EQUAL(w.guest.synchronize().async, 0);
}

TEST(values_that_make_no_sense_are_refused) {
  World w;
  const uint64_t at = World::base();
  w.guest.map(at, kGranule);
  const auto refused = [&](uint64_t stream, const std::string &values, int result) {
    put(w, stream, values);
    CHECK_EQUAL(w.guest.synchronize().async, result);
  };
  const std::string good = write_to(at, 1);
  refused(wire_handle(WIRE_KIND_STREAM, 1, 9), good, CUDA_ERROR_INVALID_HANDLE);
  refused(0, "", CUDA_ERROR_INVALID_VALUE);
  // What nothing can end.
  const auto wait = [&](uint32_t operation, uint64_t number, uint32_t flags) {
    return packed(value(operation, at, number, flags));
  };
  const uint32_t wide = CU_STREAM_MEM_OP_WAIT_VALUE_64, narrow = CU_STREAM_MEM_OP_WAIT_VALUE_32;
  refused(0, wait(wide, 0, CU_STREAM_WAIT_VALUE_AND), CUDA_ERROR_INVALID_VALUE);
  refused(0, wait(narrow, uint64_t{1} << 32, CU_STREAM_WAIT_VALUE_AND), CUDA_ERROR_INVALID_VALUE);
  refused(0, wait(wide, UINT64_MAX, CU_STREAM_WAIT_VALUE_NOR), CUDA_ERROR_INVALID_VALUE);
  refused(0, wait(narrow, UINT32_MAX, CU_STREAM_WAIT_VALUE_NOR), CUDA_ERROR_INVALID_VALUE);
  refused(0, good.substr(1), CUDA_ERROR_INVALID_VALUE);
  refused(0, good + "1234", CUDA_ERROR_INVALID_VALUE);
  refused(0, write_to(at - 4, 1), CUDA_ERROR_INVALID_VALUE);
  refused(0, write_to(at + kGranule, 1), CUDA_ERROR_INVALID_VALUE);
  refused(0, write_to(at + 2, 1), CUDA_ERROR_INVALID_VALUE);
  refused(0, write_to(0, 1), CUDA_ERROR_INVALID_VALUE);
  refused(0, write_to(UINT64_MAX - 3, 1), CUDA_ERROR_INVALID_VALUE);
  refused(0, packed(value(CU_STREAM_MEM_OP_WRITE_VALUE_64, at + kGranule - 4, 1)),
          CUDA_ERROR_INVALID_VALUE);
  for (uint32_t operation : {0u, 3u, 6u, 7u, UINT32_MAX}) {
    refused(0, packed(value(operation, at, 1)), CUDA_ERROR_INVALID_VALUE);
  }
  std::string many;
  for (int i = 0; i < WIRE_VALUES_MAX; i++) many += good;
  refused(0, many, 0);
  refused(0, many + good, CUDA_ERROR_INVALID_VALUE);
  // None of a list is done when one of it is bad.
  refused(0, write_to(at + 8, 1) + write_to(at - 4, 1), CUDA_ERROR_INVALID_VALUE);
  CHECK_EQUAL(w.guest.download(at + 8, 4), packed(uint32_t{0}));
}

TEST(streams_do_not_wait_for_a_guest_that_is_gone) {
  World w;
  const uint64_t at = World::base();
  w.guest.map(at, kGranule);
  for (uint32_t i = 0; i < 8; i++) {
    const uint64_t held = stream(w, i);
    put(w, held, wait_for(at + 4 * i, 7) + wait_for(at + 4 * i, 9) + wait_for(at + 4 * i, 7));
    w.guest.ask_synchronize_stream(held);
    w.guest.ask_download(at, 8, held);
  }
  w.guest.wait(w.guest.ask_synchronize_stream(stream(w, 20)));
  const SessionEnd end = w.end();
  CHECK(end.reason == EndReason::kClosed);
  CHECK(end.reusable);
}

TEST(attributes_of_streams_are_checked) {
  World w;
  w.guest.map(World::base(), kGranule);
  const auto set = [&](uint64_t stream, uint32_t attribute, const std::string &bytes) {
    wire_StreamAttribute q{};
    q.stream = stream;
    q.attribute = attribute;
    q.value_size = static_cast<uint32_t>(bytes.size());
    w.guest.put(WIRE_StreamAttribute, q, bytes);
    return w.guest.synchronize().async;
  };
  CUstreamAttrValue value{};
  CHECK_EQUAL(set(0, CU_LAUNCH_ATTRIBUTE_PRIORITY, packed(value)), 0);
  CHECK_EQUAL(set(wire_handle(WIRE_KIND_STREAM, 1, 9), 1, packed(value)),
              CUDA_ERROR_INVALID_HANDLE);
  CHECK_EQUAL(set(0, CU_LAUNCH_ATTRIBUTE_PRIORITY, packed(value).substr(1)),
              CUDA_ERROR_INVALID_VALUE);
  value.accessPolicyWindow.base_ptr = reinterpret_cast<void *>(World::base());
  value.accessPolicyWindow.num_bytes = kGranule;
  CHECK_EQUAL(set(0, CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW, packed(value)), 0);
  value.accessPolicyWindow.num_bytes = kGranule + 1;
  CHECK_EQUAL(set(0, CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW, packed(value)),
              CUDA_ERROR_INVALID_VALUE);
  value.accessPolicyWindow.num_bytes = UINT64_MAX;
  CHECK_EQUAL(set(0, CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW, packed(value)),
              CUDA_ERROR_INVALID_VALUE);
}
