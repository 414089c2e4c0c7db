// What a guest may not do, and what it may do and gets an error for.
#include "check.h"
#include "page_hash.h"
#include "world.h"

using namespace outboard;

namespace {

constexpr uint64_t kGranule = WIRE_GRANULE;

template <class T>
std::string raw(uint16_t op, uint32_t size, uint16_t flags = 0, size_t bytes = sizeof(T)) {
  T frame{};
  *reinterpret_cast<wire_header *>(&frame) = {op, flags, size};
  std::string text(reinterpret_cast<const char *>(&frame), sizeof frame);
  text.resize(bytes);
  return text;
}

void expect_violation(const std::string &bytes, const std::string &words) {
  World w;
  w.guest.send(bytes.data(), bytes.size());
  w.expect_violation(words);
}

}  // namespace

TEST(malformed_frames_end_the_session) {
  expect_violation(raw<wire_header>(WIRE_cuCtxSynchronize, 0), "multiple of 8");
  expect_violation(raw<wire_header>(WIRE_cuCtxSynchronize, 4), "multiple of 8");
  expect_violation(raw<wire_header>(WIRE_cuCtxSynchronize, 8), "shorter");
  expect_violation(raw<wire_cuCtxSynchronize>(WIRE_cuCtxSynchronize, 20, 0, 24), "multiple of 8");
  expect_violation(raw<wire_cuCtxSynchronize>(WIRE_cuCtxSynchronize, 24, 0, 24), "longer");
  expect_violation(raw<wire_cuCtxSynchronize>(WIRE_cuCtxSynchronize, 16, 1), "flags");
  expect_violation(raw<wire_header>(WIRE_cuCtxSynchronize, WIRE_FRAME_MAX + 8), "larger");
  expect_violation(raw<wire_header>(WIRE_cuCtxSynchronize, 0xfffffff8), "larger");
  expect_violation(raw<wire_header>(9999, 8), "unknown command");
  expect_violation(raw<wire_header>(WIRE_REPLY, 8), "unknown command");
  expect_violation(raw<wire_header>(0, 8), "unknown command");
}

TEST(malformed_bulk_frames_end_the_session) {
  wire_Upload q{};
  const auto bytes = [&](uint32_t size, uint64_t length) {
    q.header = {WIRE_Upload, 0, size};
    q.length = length;
    return packed(q) + std::string(64, 'x');
  };
  expect_violation(bytes(16, 0), "shorter");
  expect_violation(bytes(sizeof q, 8), "do not agree");
  expect_violation(bytes(sizeof q + 8, 0), "do not agree");
  expect_violation(bytes(sizeof q + 8, 9), "do not agree");
  expect_violation(bytes(sizeof q + 8, UINT64_MAX), "larger");
  expect_violation(bytes(0xfffffff8, WIRE_BULK_MAX + 8), "larger");
  expect_violation(bytes(sizeof q + WIRE_BULK_MAX + 8, WIRE_BULK_MAX + 1), "larger");
}

TEST(malformed_blobs_end_the_session) {
  wire_Launch q{};
  const auto bytes = [&](uint32_t size, uint32_t blob) {
    q.header = {WIRE_Launch, 0, size};
    q.parameters_size = blob;
    return packed(q) + std::string(64, 'x');
  };
  expect_violation(bytes(sizeof q, 1), "does not fit");
  expect_violation(bytes(sizeof q, UINT32_MAX), "does not fit");
  expect_violation(bytes(sizeof q + 8, 9), "does not fit");
  expect_violation(bytes(sizeof q + 16, 8), "longer");
}

TEST(windows_are_kept) {
  const uint64_t at = World::base();
  const uint64_t size = World::device()->window_size();
  const auto violates = [](uint64_t address, uint64_t length, const std::string &words) {
    World w;
    w.guest.map(World::base() + 10 * kGranule, 4 * kGranule);
    w.guest.map(address, length);
    w.expect_violation(words);
  };
  violates(at + 4096, kGranule, "granules");
  violates(at, kGranule + 4096, "granules");
  violates(at, 0, "granules");
  violates(at - kGranule, kGranule, "window");
  violates(at + size, kGranule, "window");
  violates(at + size - kGranule, 2 * kGranule, "window");
  violates(at, size + kGranule, "window");
  violates(at, uint64_t{0} - kGranule, "window");
  violates(0, kGranule, "window");
  violates(at + 10 * kGranule, kGranule, "overlap");
  violates(at + 13 * kGranule, 2 * kGranule, "overlap");
  violates(at + 9 * kGranule, 2 * kGranule, "overlap");
  violates(at + 9 * kGranule, 9 * kGranule, "overlap");
  const auto unmap_violates = [](uint64_t address, uint64_t length) {
    World w;
    w.guest.map(World::base(), 4 * kGranule);
    w.guest.unmap(address, length);
    w.expect_violation("was not mapped");
  };
  unmap_violates(at, kGranule);
  unmap_violates(at + kGranule, 3 * kGranule);
  unmap_violates(at + 100 * kGranule, kGranule);
}

TEST(limits_of_memory_are_errors) {
  WorldOptions options;
  options.memory = 4 * kGranule;
  World w(options);
  const uint64_t at = World::base();
  w.guest.map(at, 3 * kGranule);
  CHECK_EQUAL(w.guest.synchronize().async, 0);
  w.guest.map(at + 8 * kGranule, 2 * kGranule);
  const Frame fault = w.guest.next(WIRE_FAULT);
  CHECK_EQUAL(fault.as<wire_fault>().result, CUDA_ERROR_OUT_OF_MEMORY);
  CHECK_EQUAL(fault.as<wire_fault>().op, WIRE_MemoryMap);
  CHECK_EQUAL(fault.as<wire_fault>().posted_number, 2u);
  CHECK_EQUAL(w.guest.synchronize().async, CUDA_ERROR_OUT_OF_MEMORY);
  CHECK_EQUAL(w.guest.synchronize().async, 0);
  // What was given back counts again.
  w.guest.unmap(at, 3 * kGranule);
  w.guest.map(at + 8 * kGranule, 4 * kGranule);
  CHECK_EQUAL(w.guest.synchronize().async, 0);
  CHECK_EQUAL(w.session->counters()->memory_mapped_peak.load(), 4 * kGranule);
}

TEST(pinned_memory_has_a_limit_of_its_own) {
  WorldOptions options;
  options.memory = 4 * kGranule;
  options.pinned = 3 * kGranule;
  World w(options);
  const uint64_t at = World::base();
  const auto &count = *w.session->counters();
  w.guest.map(at, 4 * kGranule);
  w.guest.map_pinned(at + 8 * kGranule, 2 * kGranule);
  CHECK_EQUAL(w.guest.synchronize().async, 0);
  // What is more counts as mapped, of which there is nothing left.
  w.guest.map_pinned(at + 12 * kGranule, 2 * kGranule);
  CHECK_EQUAL(w.guest.synchronize().async, CUDA_ERROR_OUT_OF_MEMORY);
  w.guest.unmap(at, 4 * kGranule);
  w.guest.map_pinned(at + 12 * kGranule, 2 * kGranule);
  w.guest.map(at, 3 * kGranule);
  CHECK_EQUAL(w.guest.synchronize().async, 0);
  CHECK_EQUAL(count.memory_mapped.load(), 4 * kGranule);
  CHECK_EQUAL(count.pinned_memory.load(), 4 * kGranule);
  w.guest.map(at + 3 * kGranule, kGranule);
  CHECK_EQUAL(w.guest.synchronize().async, CUDA_ERROR_OUT_OF_MEMORY);
  w.guest.unmap(at + 8 * kGranule, 2 * kGranule);
  w.guest.map(at + 3 * kGranule, kGranule);
  CHECK_EQUAL(w.guest.synchronize().async, 0);
  CHECK_EQUAL(count.memory_mapped.load(), 4 * kGranule);
  CHECK_EQUAL(count.pinned_memory.load(), 2 * kGranule);
}

TEST(a_device_without_memory_is_an_error) {
  World w;
  const uint64_t at = World::base();
  World::fake().set_memory(8 * kGranule);
  w.guest.map(at, 6 * kGranule);
  w.guest.map(at + 10 * kGranule, 6 * kGranule);
  CHECK_EQUAL(w.guest.synchronize().async, CUDA_ERROR_OUT_OF_MEMORY);
  // Memory that is still being overwritten is waited for.
  w.guest.unmap(at, 6 * kGranule);
  w.guest.map(at + 10 * kGranule, 8 * kGranule);
  CHECK_EQUAL(w.guest.synchronize().async, 0);
  World::fake().fail("cuMemMap", CUDA_ERROR_OUT_OF_MEMORY, 0);
  w.guest.unmap(at + 10 * kGranule, 8 * kGranule);
  w.guest.map(at, kGranule);
  CHECK_EQUAL(w.guest.synchronize().async, CUDA_ERROR_OUT_OF_MEMORY);
  w.guest.map(at, 8 * kGranule);
  CHECK_EQUAL(w.guest.synchronize().async, 0);
}

TEST(pages_that_are_not_the_sessions_are_errors) {
  World w;
  const uint64_t at = World::base();
  w.load_kernels();
  w.guest.map(at, kGranule);
  const auto upload = [&](uint64_t address, uint64_t runs, const std::string &payload) {
    wire_PagesUpload q{};
    q.address = address;
    q.runs = runs;
    q.length = payload.size();
    w.guest.put(WIRE_PagesUpload, q, payload);
    return w.guest.synchronize().async;
  };
  const auto table = [](uint64_t address, uint64_t size) {
    return packed(wire_page_run{address, size});
  };
  CHECK_EQUAL(upload(at, 0, "abcd"), 0);
  CHECK_EQUAL(upload(0, 2, "efghijkl" + table(at + 8, 4) + table(at + 16, 4)), 0);
  CHECK_EQUAL(w.guest.download(at, 4), "abcd");
  CHECK_EQUAL(w.guest.download(at + 16, 4), "ijkl");
  CHECK_EQUAL(upload(at - 4, 0, "abcd"), CUDA_ERROR_INVALID_VALUE);
  CHECK_EQUAL(upload(at + kGranule - 3, 0, "abcd"), CUDA_ERROR_INVALID_VALUE);
  CHECK_EQUAL(upload(at, 0, ""), CUDA_ERROR_INVALID_VALUE);
  CHECK_EQUAL(upload(at, 2, table(at, 4)), CUDA_ERROR_INVALID_VALUE);  // no such table
  CHECK_EQUAL(upload(at, UINT64_MAX, "abcd"), CUDA_ERROR_INVALID_VALUE);
  CHECK_EQUAL(upload(0, 1, "abcd" + table(at, 5)), CUDA_ERROR_INVALID_VALUE);  // too few bytes
  CHECK_EQUAL(upload(0, 1, "abcd" + table(at, UINT64_MAX)), CUDA_ERROR_INVALID_VALUE);
  CHECK_EQUAL(upload(0, 1, "abcd" + table(at - 2, 4)), CUDA_ERROR_INVALID_VALUE);
  const auto fetch = [&](uint64_t address, uint64_t length, uint32_t wait) {
    wire_PagesFetch q{};
    q.address = address;
    q.length = length;
    q.wait = wait;
    return w.guest.wait(w.guest.ask(WIRE_PagesFetch, q));
  };
  for (uint32_t wait : {0u, 1u}) {
    CHECK_EQUAL(fetch(at, 4, wait).data, "abcd");
    CHECK_EQUAL(fetch(at, 0, wait).reply.result, CUDA_SUCCESS);
    CHECK_EQUAL(fetch(at + 1, kGranule, wait).reply.result, CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(fetch(at, UINT64_MAX, wait).reply.result, CUDA_ERROR_INVALID_VALUE);
  }
  // Past what a stream is busy with, or after it.
  w.gate(1, 0);
  w.guest.memset32(at, 0x64636261, 1);
  CHECK_EQUAL(fetch(at, 4, 0).reply.result, CUDA_SUCCESS);
  wire_PagesFetch late{};
  late.address = at;
  late.length = 4;
  late.wait = 1;
  const uint64_t waits = w.guest.ask(WIRE_PagesFetch, late);
  World::fake().await_gate(1);
  World::fake().open_gate(1);
  CHECK_EQUAL(w.guest.wait(waits).data, "abcd");
}

TEST(pages_by_hash) {
  World w;
  const uint64_t at = World::base();
  w.guest.map(at, kGranule);
  w.guest.memset32(at, 0x64636261, 4);
  w.guest.memset32(at + 2 * WIRE_PAGE, 0x64636261, 1);
  const auto changed = [&](uint64_t address, uint64_t length, const std::string &hashes) {
    wire_PagesChanged q{};
    q.address = address;
    q.length = length;
    q.hashes_size = static_cast<uint32_t>(hashes.size());
    return w.guest.call(WIRE_PagesChanged, q, hashes);
  };
  const auto hash = [](const std::string &page) {
    return packed(uint64_t{wire_page_hash(page.data(), page.size())});
  };
  const std::string zeros(WIRE_PAGE, '\0');
  const std::string first = "abcdabcdabcdabcd" + std::string(WIRE_PAGE - 16, '\0');
  const std::string third = "abcd" + std::string(WIRE_PAGE - 4, '\0');
  CHECK_EQUAL(changed(at, 8, "").data, "abcdabcd");
  CHECK_EQUAL(changed(at, WIRE_PAGE, hash(first)).data, "");
  CHECK_EQUAL(changed(at, WIRE_PAGE, hash(zeros)).data, first);
  CHECK_EQUAL(changed(at + 4, 8, hash("abcdabcd")).data, "");
  CHECK_EQUAL(changed(at + 4, 8, hash("abcdabce")).data, "abcdabcd");
  // Of three pages, the last; its bytes come where they belong.
  const auto last = changed(at, 3 * WIRE_PAGE, hash(first) + hash(zeros) + hash(zeros));
  CHECK_EQUAL(last.data, std::string(2 * WIRE_PAGE, '\0') + third);
  CHECK_EQUAL(last.frame.as<wire_PagesChanged_reply>().changed0, 4u);
  // Not as many hashes as pages, more pages than may be, and none that are the session's.
  const int32_t bad = CUDA_ERROR_INVALID_VALUE;
  CHECK_EQUAL(changed(at, 2 * WIRE_PAGE, hash(first)).reply.result, bad);
  CHECK_EQUAL(changed(at, WIRE_PAGE, hash(first) + hash(first)).reply.result, bad);
  CHECK_EQUAL(changed(at + 1, WIRE_PAGE, hash(first)).reply.result, bad);
  CHECK_EQUAL(changed(at, WIRE_PAGE, "1234").reply.result, bad);
  CHECK_EQUAL(changed(at, 0, "").reply.result, bad);
  CHECK_EQUAL(changed(at, (1 << 20) + 1, "").reply.result, bad);
  CHECK_EQUAL(changed(at + 1, 1 << 20, "").reply.result, bad);
  CHECK_EQUAL(changed(at, UINT64_MAX, "").reply.result, bad);
  CHECK_EQUAL(changed(at - 4, 8, "").reply.result, bad);
  CHECK_EQUAL(changed(at + kGranule - 4, 8, "").reply.result, bad);
  CHECK_EQUAL(changed(UINT64_MAX - 4, 8, "").reply.result, bad);
}

TEST(addresses_that_are_not_the_sessions_are_errors) {
  World w;
  const uint64_t at = World::base();
  w.guest.map(at, kGranule);
  const uint64_t own = reinterpret_cast<uint64_t>(&at);  // of this very process
  for (uint64_t address :
       {uint64_t{0}, own, at - 4, at + kGranule - 3, at + kGranule, UINT64_MAX - 3}) {
    w.guest.upload(address, "abcd");
    CHECK_EQUAL(w.guest.synchronize().async, CUDA_ERROR_INVALID_VALUE);
    w.guest.memset32(address, 1, 1);
    CHECK_EQUAL(w.guest.synchronize().async, CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(w.guest.wait(w.guest.ask_download(address, 4)).reply.result,
                CUDA_ERROR_INVALID_VALUE);
  }
  w.guest.memset32(at, 1, UINT64_MAX / 4 + 2);  // would wrap to 4 bytes
  CHECK_EQUAL(w.guest.synchronize().async, CUDA_ERROR_INVALID_VALUE);
  CHECK_EQUAL(w.guest.wait(w.guest.ask_download(at, UINT64_MAX)).reply.result,
              CUDA_ERROR_INVALID_VALUE);
  w.guest.unmap(at, kGranule);
  w.guest.upload(at, "abcd");
  CHECK_EQUAL(w.guest.synchronize().async, CUDA_ERROR_INVALID_VALUE);
}

TEST(handles_that_are_not_live_are_errors) {
  World w;
  w.load_kernels();
  const uint64_t stream = w.guest.stream(5);
  const uint64_t event = w.guest.event(5);
  const auto wrong_stream = [&](uint64_t handle) {
    CHECK_EQUAL(w.guest.wait(w.guest.ask_synchronize_stream(handle)).reply.result,
                CUDA_ERROR_INVALID_HANDLE);
  };
  wrong_stream(2);
  wrong_stream(event);
  wrong_stream(wire_handle(WIRE_KIND_STREAM, 2, 5));
  wrong_stream(wire_handle(WIRE_KIND_STREAM, 1, 6));
  wrong_stream(wire_handle(WIRE_KIND_STREAM, 1, 0xffffff));
  wrong_stream(UINT64_MAX);
  wire_cuStreamDestroy_v2 destroy{};
  destroy.hStream = stream;
  w.guest.put(WIRE_cuStreamDestroy_v2, destroy);
  CHECK_EQUAL(w.guest.synchronize().async, 0);
  w.guest.put(WIRE_cuStreamDestroy_v2, destroy);
  CHECK_EQUAL(w.guest.synchronize().async, CUDA_ERROR_INVALID_HANDLE);
  destroy.hStream = 0;  // the default stream stays
  w.guest.put(WIRE_cuStreamDestroy_v2, destroy);
  CHECK_EQUAL(w.guest.synchronize().async, CUDA_ERROR_INVALID_HANDLE);
  w.guest.launch(stream, 0, "");
  CHECK_EQUAL(w.guest.synchronize().async, CUDA_ERROR_INVALID_HANDLE);
  // Only the first of several is kept for the next answer.
  w.guest.launch(function_handle(World::kAdd), 0, "short");
  w.guest.launch(stream, 0, "");
  CHECK_EQUAL(w.guest.synchronize().async, CUDA_ERROR_INVALID_VALUE);
  CHECK_EQUAL(w.guest.synchronize().async, 0);
  // Another generation at the same index is another stream.
  wire_cuStreamCreateWithPriority create{};
  create.phStream = wire_handle(WIRE_KIND_STREAM, 2, 5);
  w.guest.put(WIRE_cuStreamCreateWithPriority, create);
  CHECK_EQUAL(w.guest.wait(w.guest.ask_synchronize_stream(create.phStream)).reply.result,
              CUDA_SUCCESS);
  wrong_stream(stream);
}

TEST(handles_that_cannot_be_minted_end_the_session) {
  const auto violates = [](uint64_t handle) {
    World w;
    w.guest.stream(5);
    wire_cuStreamCreateWithPriority create{};
    create.phStream = handle;
    w.guest.put(WIRE_cuStreamCreateWithPriority, create);
    w.expect_violation("cannot be minted");
  };
  violates(wire_handle(WIRE_KIND_STREAM, 1, 5));
  violates(wire_handle(WIRE_KIND_STREAM, 2, 5));  // live under another generation
  violates(wire_handle(WIRE_KIND_EVENT, 1, 6));
  violates(wire_handle(WIRE_KIND_STREAM, 1, WIRE_HANDLE_INDEX_MAX));
  violates(0);
  violates(UINT64_MAX);
}

TEST(a_failing_creation_leaves_its_handle_dead) {
  World w;
  World::fake().fail("cuStreamCreateWithPriority", CUDA_ERROR_OUT_OF_MEMORY, 0);
  const uint64_t stream = w.guest.stream(1);
  CHECK_EQUAL(w.guest.synchronize().async, CUDA_ERROR_OUT_OF_MEMORY);
  CHECK_EQUAL(w.guest.wait(w.guest.ask_synchronize_stream(stream)).reply.result,
              CUDA_ERROR_INVALID_HANDLE);
}

TEST(an_upload_that_is_refused_is_skipped_whole) {
  World w;
  const uint64_t at = World::base();
  w.guest.map(at, kGranule);
  w.guest.upload(at + 100 * kGranule, pattern(1000000));
  w.guest.upload(at, "next");
  CHECK_EQUAL(w.guest.download(at, 4), "next");
  w.guest.upload(at, pattern(20000), wire_handle(WIRE_KIND_STREAM, 1, 1));
  w.guest.upload(at, "last");
  CHECK_EQUAL(w.guest.download(at, 4), "last");
}

TEST(memory_that_is_being_overwritten_counts) {
  WorldOptions options;
  options.memory = 4 * kGranule;
  World w(options);
  const uint64_t at = World::base();
  w.guest.map(at, 4 * kGranule);
  w.guest.synchronize();
  // The device has not got round to it when the guest wants as much again.
  World::fake().fail("cuStreamQuery", CUDA_ERROR_NOT_READY, 0);
  w.guest.unmap(at, 4 * kGranule);
  const unsigned waits = World::fake().calls("cuStreamSynchronize");
  w.guest.map(at + 8 * kGranule, 4 * kGranule);
  CHECK_EQUAL(w.guest.synchronize().async, 0);
  CHECK_EQUAL(World::fake().calls("cuStreamSynchronize"), waits + 1);
  CHECK_EQUAL(World::fake().calls("cuMemCreate"), 2u);
}

// Kernels keep the stacks that a limit stood for when it is lowered again.
TEST(stacks_count_when_the_limit_does_not_any_more) {
  WorldOptions options;
  options.memory = 16 * kGranule;
  World w(options);
  const uint64_t before = World::device()->limit(CU_LIMIT_STACK_SIZE);
  const uint64_t threads = World::device()->resident_threads();
  CHECK(threads > 0);
  const uint64_t large = before + 12 * kGranule / threads;
  const auto set = [&](uint64_t value) {
    wire_LimitSet q{};
    q.limit = CU_LIMIT_STACK_SIZE;
    q.value = value;
    return w.guest.call(WIRE_LimitSet, q).reply.result;
  };
  CHECK_EQUAL(set(large), CUDA_SUCCESS);
  Function function;
  function.stack = static_cast<uint32_t>(large);
  CHECK_EQUAL(w.session->stacks().need(&function), CUDA_SUCCESS);
  CHECK_EQUAL(set(before), CUDA_SUCCESS);
  CHECK_EQUAL(w.session->stacks().need(&function), CUDA_SUCCESS);
  w.guest.map(World::base(), 6 * kGranule);
  CHECK_EQUAL(w.guest.synchronize().async, CUDA_ERROR_OUT_OF_MEMORY);
  w.guest.map(World::base(), 3 * kGranule);
  CHECK_EQUAL(w.guest.synchronize().async, 0);
}

TEST(heaps_and_stacks_count_as_memory) {
  const auto set = [](World &w, CUlimit limit, uint64_t value) {
    wire_LimitSet q{};
    q.limit = limit;
    q.value = value;
    return w.guest.call(WIRE_LimitSet, q).reply.result;
  };
  WorldOptions options;
  options.memory = 4 * kGranule;
  World w(options);
  constexpr uint64_t kHeap = 8 << 20;  // before
  CHECK_EQUAL(set(w, CU_LIMIT_MALLOC_HEAP_SIZE, kHeap + 4 * kGranule + 1),
              CUDA_ERROR_OUT_OF_MEMORY);
  CHECK_EQUAL(set(w, CU_LIMIT_MALLOC_HEAP_SIZE, UINT64_MAX), CUDA_ERROR_OUT_OF_MEMORY);
  CHECK_EQUAL(set(w, CU_LIMIT_STACK_SIZE, uint64_t{1} << 60), CUDA_ERROR_OUT_OF_MEMORY);
  CHECK_EQUAL(set(w, CU_LIMIT_PRINTF_FIFO_SIZE, uint64_t{1} << 40), CUDA_ERROR_OUT_OF_MEMORY);
  CHECK_EQUAL(set(w, CU_LIMIT_MALLOC_HEAP_SIZE, kHeap + 2 * kGranule), CUDA_SUCCESS);
  CHECK_EQUAL(set(w, CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT, 1 << 20), CUDA_ERROR_OUT_OF_MEMORY);
  CHECK_EQUAL(set(w, CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH, 24), CUDA_ERROR_OUT_OF_MEMORY);
  // All of them together.
  CHECK_EQUAL(set(w, CU_LIMIT_PRINTF_FIFO_SIZE, (1 << 20) + 2 * kGranule + 1),
              CUDA_ERROR_OUT_OF_MEMORY);
  // And with what is mapped.
  w.guest.map(World::base(), 3 * kGranule);
  CHECK_EQUAL(w.guest.synchronize().async, CUDA_ERROR_OUT_OF_MEMORY);
  w.guest.map(World::base(), 2 * kGranule);
  CHECK_EQUAL(w.guest.synchronize().async, 0);
  CHECK_EQUAL(set(w, CU_LIMIT_MALLOC_HEAP_SIZE, kHeap + 3 * kGranule), CUDA_ERROR_OUT_OF_MEMORY);
  // Less than before is nothing; what is not known is the driver's to refuse, and costs nothing.
  CHECK_EQUAL(set(w, CU_LIMIT_MALLOC_HEAP_SIZE, 1), CUDA_SUCCESS);
  CHECK_EQUAL(set(w, static_cast<CUlimit>(77), 1), CUDA_ERROR_UNSUPPORTED_LIMIT);
  w.guest.map(World::base() + 4 * kGranule, 2 * kGranule);
  CHECK_EQUAL(w.guest.synchronize().async, 0);
}

TEST(modules_take_no_more_than_they_may) {
  World w;
  const std::string large = Guest::image("global table 300000000\n");
  const std::string other = Guest::image("global table 300000001\n");
  const auto memory = [&] { return w.session->counters()->module_memory.load(); };
  CHECK_EQUAL(w.guest.load(module_handle(0), large).reply.result, CUDA_SUCCESS);
  CHECK_EQUAL(memory(), 300000000u);
  CHECK_EQUAL(w.guest.load(module_handle(1), other).reply.result, CUDA_ERROR_OUT_OF_MEMORY);
  CHECK_EQUAL(memory(), 300000000u);
  wire_ModuleUnload unload{};
  unload.module = module_handle(0);
  w.guest.put(WIRE_ModuleUnload, unload);
  CHECK_EQUAL(w.guest.load(module_handle(1), other).reply.result, CUDA_SUCCESS);
  CHECK_EQUAL(memory(), 300000001u);
  // Memory of the session's own is not taken for a module's.
  w.guest.map(World::base(), 10 * kGranule);
  CHECK_EQUAL(w.guest.load(module_handle(2), Guest::image("kernel nothing\n")).reply.result,
              CUDA_SUCCESS);
  CHECK_EQUAL(memory(), 300000001u);
}

TEST(how_much_modules_may_take_is_the_servers_choice) {
  WorldOptions options;
  options.modules = 1000;
  World w(options);
  const auto load = [&](uint32_t number, const std::string &text) {
    return w.guest.load(module_handle(number), Guest::image(text)).reply.result;
  };
  CHECK_EQUAL(load(0, "global table 600\n"), CUDA_SUCCESS);
  CHECK_EQUAL(load(1, "global table 401\n"), CUDA_ERROR_OUT_OF_MEMORY);
  CHECK_EQUAL(load(1, "global table 400\n"), CUDA_SUCCESS);
}
