// What is kept for a move, and what hinders one (docs/moving.md).
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <future>
#include <map>
#include <thread>
#include <utility>

#include "base/local_socket.h"
#include "base/session_limits.h"
#include "check.h"
#include "images/variable_names.h"
#include "move_target.h"
#include "session/recipes.h"
#include "world.h"

using namespace outboard;

namespace {

constexpr uint64_t kGranule = WIRE_GRANULE;

wire_cuStreamCreateWithPriority create_stream(uint64_t handle, int32_t priority) {
  wire_cuStreamCreateWithPriority q{};
  q.header = {WIRE_cuStreamCreateWithPriority, 0, sizeof q};
  q.phStream = handle;
  q.priority = priority;
  return q;
}

wire_FunctionSet set_function(uint64_t function, uint32_t attribute, int32_t value) {
  wire_FunctionSet q{};
  q.header = {WIRE_FunctionSet, 0, sizeof q};
  q.function = function;
  q.attribute = attribute;
  q.value = value;
  return q;
}

template <class T>
bool same(std::span<const uint8_t> frame, const T &q) {
  return frame.size() == sizeof q && memcmp(frame.data(), &q, sizeof q) == 0;
}

Recipes endless() {
  return Recipes([] { fail(__FILE__, __LINE__, "no room"); });
}

// What hinders once all that was sent is taken up.
uint64_t hindrances(World &w) {
  w.guest.synchronize();
  return w.session->counters()->hindrances.load();
}

wire_ArrayCreate create_array(uint64_t width) {
  wire_ArrayCreate q{};
  q.array = wire_handle(WIRE_KIND_ARRAY, 1, 1);
  q.width = width;
  q.format = CU_AD_FORMAT_UNSIGNED_INT8;
  q.channels = 4;
  return q;
}

}  // namespace

TEST(the_frame_that_made_an_object_is_kept) {
  Recipes recipes = endless();
  const uint64_t one = wire_handle(WIRE_KIND_STREAM, 1, 3),
                 two = wire_handle(WIRE_KIND_EVENT, 1, 3);
  const auto first = create_stream(one, -1), second = create_stream(two, 0);
  recipes.made(one, &first.header);
  recipes.made(two, &second.header);
  CHECK(same(recipes.of(one), first));
  CHECK(same(recipes.of(two), second));
  CHECK(recipes.of(wire_handle(WIRE_KIND_STREAM, 2, 3)).empty());
  CHECK(recipes.of(wire_handle(WIRE_KIND_STREAM, 1, 4)).empty());
  recipes.ended(one);
  CHECK(recipes.of(one).empty());
  CHECK(same(recipes.of(two), second));
  CHECK(recipes.whole());
}

TEST(an_index_that_is_used_again_takes_no_more) {
  Recipes recipes = endless();
  size_t bytes = 0;
  for (uint32_t generation = 1; generation < 1000; generation++) {
    const uint64_t handle = wire_handle(WIRE_KIND_STREAM, generation, 7);
    const auto q = create_stream(handle, static_cast<int32_t>(generation));
    recipes.made(handle, &q.header);
    CHECK(same(recipes.of(handle), q));
    CHECK(recipes.of(wire_handle(WIRE_KIND_STREAM, generation - 1, 7)).empty());
    recipes.ended(handle);
    if (generation == 1) bytes = recipes.bytes();
  }
  CHECK_EQUAL(recipes.bytes(), bytes);
}

TEST(handles_that_nobody_can_have_are_passed_over) {
  Recipes recipes = endless();
  const auto q = create_stream(0, 0);
  for (uint64_t handle : {wire_handle(WIRE_KIND_COUNT, 1, 1), UINT64_MAX,
                          wire_handle(WIRE_KIND_STREAM, 1, WIRE_HANDLE_INDEX_MAX)}) {
    recipes.made(handle, &q.header);
    CHECK(recipes.of(handle).empty());
    recipes.ended(handle);
  }
  CHECK_EQUAL(recipes.bytes(), 0u);
}

TEST(of_changes_the_last_one_holds) {
  Recipes recipes = endless();
  const auto change = [&](uint64_t function, uint32_t attribute, int32_t value) {
    const auto q = set_function(function, attribute, value);
    recipes.changed({q.header.op, function, attribute}, &q.header);
  };
  change(1, 8, 10);
  change(1, 9, 20);
  change(2, 8, 30);
  const size_t bytes = recipes.bytes();
  change(1, 8, 40);
  CHECK_EQUAL(recipes.bytes(), bytes);
  std::vector<int32_t> values;
  recipes.each_change([&](std::span<const uint8_t> frame) {
    wire_FunctionSet q;
    CHECK_EQUAL(frame.size(), sizeof q);
    memcpy(&q, frame.data(), sizeof q);
    values.push_back(q.value);
  });
  CHECK(values == (std::vector<int32_t>{20, 30, 40}));
}

TEST(a_session_keeps_what_made_its_objects) {
  World w;
  const uint64_t stream = w.guest.stream(1, CU_STREAM_NON_BLOCKING);
  w.load_kernels();
  CHECK_EQUAL(hindrances(w), 0u);
  Recipes &recipes = w.session->recipes();
  wire_cuStreamCreateWithPriority made;
  CHECK_EQUAL(recipes.of(stream).size(), sizeof made);
  memcpy(&made, recipes.of(stream).data(), sizeof made);
  CHECK_EQUAL(made.phStream, stream);
  CHECK_EQUAL(static_cast<unsigned>(made.flags), unsigned{CU_STREAM_NON_BLOCKING});
  CHECK(!recipes.of(function_handle(World::kAdd)).empty());
  // Work makes nothing.
  const size_t bytes = recipes.bytes();
  w.guest.map(World::base(), kGranule);
  for (int i = 0; i < 100; i++) {
    w.guest.launch(function_handle(World::kNothing), stream, "");
    w.guest.memset32(World::base(), 1, 4, stream);
  }
  w.guest.synchronize();
  CHECK_EQUAL(recipes.bytes(), bytes);
  w.guest.call(WIRE_ContextReset, wire_ContextReset{});
  CHECK(recipes.of(stream).empty());
}

TEST(what_hinders_a_move_is_told_as_long_as_it_is_there) {
  World w;
  CHECK_EQUAL(hindrances(w), 0u);
  w.guest.put(WIRE_ArrayCreate, create_array(16));
  CHECK_EQUAL(hindrances(w), bit_of(Hindrance::kArrays));
  wire_ArrayDestroy end{};
  end.array = wire_handle(WIRE_KIND_ARRAY, 1, 1);
  w.guest.put(WIRE_ArrayDestroy, end);
  CHECK_EQUAL(hindrances(w), 0u);
}

TEST(what_could_not_be_made_hinders_nothing) {
  World w;
  wire_ArrayCreate q = create_array(uint64_t{1} << 40);
  q.array = wire_handle(WIRE_KIND_ARRAY, 1, 2);
  w.guest.put(WIRE_ArrayCreate, q);
  CHECK(w.guest.synchronize().async != CUDA_SUCCESS);
  CHECK_EQUAL(hindrances(w), 0u);
}

TEST(memory_hinders_nothing) {
  WorldOptions options;
  options.pinned = 64 << 20;
  World w(options);
  w.guest.map_pinned(World::base(), kGranule);
  wire_MemoryCreate piece{};
  piece.memory = wire_handle(WIRE_KIND_MEMORY, 1, 1);
  piece.size = kGranule;
  w.guest.put(WIRE_MemoryCreate, piece);
  CHECK_EQUAL(hindrances(w), 0u);
}

TEST(a_reset_leaves_nothing_that_hinders) {
  World w;
  w.guest.put(WIRE_ArrayCreate, create_array(16));
  CHECK_EQUAL(hindrances(w), bit_of(Hindrance::kArrays));
  w.guest.call(WIRE_ContextReset, wire_ContextReset{});
  CHECK_EQUAL(hindrances(w), 0u);
}

TEST(a_program_with_several_gpus_cannot_be_moved) {
  WorldOptions options;
  options.group = 3;
  World w(options);
  CHECK_EQUAL(hindrances(w), bit_of(Hindrance::kSeveralGpus));
}

// ---- what an image may have --------------------------------------------------------------------

namespace {

std::vector<std::string> names_in(const std::string &text, std::string *why) {
  const std::string bytes = Guest::image(text);
  const std::shared_ptr<Image> image = Image::make(bytes.size());
  memcpy(image->data(), bytes.data(), bytes.size());
  return variable_names(*image, why);
}

}  // namespace

TEST(the_variables_of_ptx_are_found) {
  std::string why;
  const auto names = names_in(
      ".version 8.0\n.target sm_80 // .global .u32 no;\n.address_size 64\n"
      ".visible .global .align 4 .u32 first = 5;\n"
      ".global .align 8 .b8 second[16] = {1, 2, third, 0}; /* .const .u32 no; */\n"
      ".extern .const .f32 far;\n.const .v4 .f32 fourth, fifth[2];\n"
      ".global .attribute(.managed) .u64 $sixth = generic(first);\n"
      ".entry k(.param .u64 .ptr .global .align 4 p) { ld.global.u32 %r, [%rd1];\n"
      "  .global .u32 inside; .shared .u32 no; bar.sync 0; }\n"
      ".file 1 \"a .global .u32 no;\"\n",
      &why);
  CHECK_EQUAL(why, "");
  CHECK(names == (std::vector<std::string>{"$sixth", "far", "fifth", "first", "fourth", "inside",
                                           "second"}));
}

TEST(an_image_that_is_none_has_a_reason) {
  std::string why;
  const std::shared_ptr<Image> image = Image::make(64);
  memset(image->data(), 0, 64);
  const wire_image_part part{WIRE_IMAGE_FATBIN, 0, 48};
  memcpy(image->data(), &part, sizeof part);
  CHECK(variable_names(*image, &why).empty());
  CHECK(!why.empty());
}

// ---- a session that goes -----------------------------------------------------------------------

namespace {

void load(World &w, uint32_t module, const std::string &kernels) {
  CHECK_EQUAL(w.guest.load(module_handle(module), Guest::image(kernels)).reply.result,
              CUDA_SUCCESS);
}

void answer_loaded(Target &target, const std::vector<uint8_t> &question) {
  wire_header head;
  memcpy(&head, question.data(), sizeof head);
  CHECK_EQUAL(head.op, WIRE_ModuleOpen);
  wire_ModuleOpen_reply loaded{};
  loaded.state = WIRE_MODULE_LOADED;
  target.answer(question, CUDA_SUCCESS, loaded);
}

constexpr uint64_t kManyAsked = 1000;

// How many answers a connection holds that nobody takes.
size_t answers_that_fit() {
  int like[2];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, like) == 0);
  const wire_Echo_reply reply{};
  size_t fit = 0;
  while (send(like[0], &reply, sizeof reply, MSG_DONTWAIT) == ssize_t(sizeof reply)) ++fit;
  close(like[0]);
  close(like[1]);
  return fit;
}

// Questions that go at once, so that no answer is read meanwhile.
void ask_many(World &w, size_t count) {
  std::vector<wire_Echo> many(count);
  for (wire_Echo &echo : many) echo.request = {{WIRE_Echo, 0, sizeof echo}, kManyAsked};
  w.guest.send(many.data(), count * sizeof(wire_Echo));
  while (w.session->counters()->commands.load() < count) std::this_thread::yield();
}

bool echoes(World &w) { return w.guest.call(WIRE_Echo, wire_Echo{}).reply.result == CUDA_SUCCESS; }

}  // namespace

TEST(a_session_goes_with_what_it_has) {
  World w;
  w.guest.map(World::base(), kGranule);
  w.guest.upload(World::base(), pattern(5000));
  w.guest.stream(1);
  w.guest.event(2);
  w.guest.synchronize();
  Target target(w);
  CHECK(target.take_connection());
  const std::vector<uint8_t> commit = target.serve_until_commit();
  CHECK(!commit.empty());
  const auto count = [&](uint16_t op) {
    return std::count(target.commands.begin(), target.commands.end(), op);
  };
  CHECK_EQUAL(count(WIRE_cuStreamCreateWithPriority), 1);
  CHECK_EQUAL(count(WIRE_cuEventCreate), 1);
  CHECK_EQUAL(count(WIRE_MemoryMap), 1);
  // The rest of the granule is zeros, as it is there.
  CHECK_EQUAL(count(WIRE_Upload), 1);
  target.answer(commit);
  const Told told = target.told.get_future().get();
  CHECK(told.moved);
  // The connection is the target's, and nobody has shut it down.
  CHECK(w.ended().reason == EndReason::kMoved);
  const std::string asked = "a question";
  w.guest.send(asked.data(), asked.size());
  char got[16];
  CHECK_EQUAL(recv(target.connection, got, sizeof got, 0), ssize_t(asked.size()));
}

TEST(memory_goes_through_what_the_target_shares) {
  for (const bool sealed : {true, false}) {
    World w;
    w.guest.map(World::base(), kGranule);
    const std::string bytes = pattern(5 * Target::kSlot + 100);
    w.guest.upload(World::base(), bytes);
    w.guest.synchronize();
    Target target(w);
    target.shares = true;
    target.sealed = sealed;
    CHECK(target.take_connection());
    const std::vector<uint8_t> commit = target.serve_until_commit();
    CHECK(!commit.empty());
    const bool sent = std::ranges::count(target.commands, WIRE_Upload) > 0;
    // What could become shorter is not mapped.
    CHECK_EQUAL(sent, !sealed);
    std::string got;
    for (const auto &[address, piece] : target.uploaded) {
      CHECK_EQUAL(address, World::base() + got.size());
      got += piece;
    }
    got.resize(sealed ? bytes.size() : 0);
    CHECK(sealed ? got == bytes : got.empty());
    target.answer(commit);
    CHECK(target.told.get_future().get().moved);
    w.ended();
    munmap(target.region, Target::kSlots * Target::kSlot);
  }
}

TEST(a_target_that_dies_leaves_the_session_where_it_is) {
  World w;
  w.guest.stream(1);
  for (int after : {0, 1, 2, 3}) {
    Target target(w);
    if (after > 0) CHECK(target.take_connection());
    if (after > 1) CHECK(!target.next().empty());
    if (after > 2) CHECK(!target.serve_until_commit().empty());
    close_fd(std::exchange(target.here, -1));
    const Told told = target.told.get_future().get();
    CHECK(!told.moved);
    CHECK(told.why.find("has ended") != told.why.npos);
    CHECK(echoes(w));
  }
  w.end();
}

TEST(a_target_that_refuses_leaves_the_session_where_it_is) {
  World w;
  Target target(w);
  CHECK(target.take_connection());
  target.answer(target.serve_until_commit(), CUDA_ERROR_OUT_OF_MEMORY);
  const Told told = target.told.get_future().get();
  CHECK(!told.moved);
  CHECK(told.why.find("CUDA error 2") != told.why.npos);
  CHECK(echoes(w));
  w.end();
}

// As drivers do, this one gives pinned memory back when all work has ended.
TEST(a_session_that_stays_goes_on_though_the_work_waits_for_what_comes_next) {
  WorldOptions options;
  options.rest_patience = std::chrono::milliseconds(100);
  World w(options);
  w.load_kernels();
  const uint64_t stream = w.guest.stream(1, CU_STREAM_NON_BLOCKING);
  w.gate(1, stream);
  CHECK(echoes(w));
  World::fake().hold("cuMemFreeHost", 1, 0);
  {
    Target target(w);
    CHECK(target.take_connection());
    CHECK_EQUAL(target.serve_until_told().why,
                "its work on the device did not end within 0.1 seconds");
  }
  CHECK(echoes(w));
  {
    // Its memory is one move's.
    Target target(w);
    CHECK(target.told.get_future().get().why.starts_with("it is being moved already, or work"));
  }
  // What the guest sends next.
  World::fake().open_gate(1);
  CHECK_EQUAL(w.guest.synchronize().result, CUDA_SUCCESS);
  Target target(w);
  CHECK(target.take_connection());
  const std::vector<uint8_t> commit = target.serve_until_commit();
  CHECK(!commit.empty());
  target.answer(commit);
  CHECK(target.told.get_future().get().moved);
  CHECK(w.ended().reason == EndReason::kMoved);
}

TEST(work_without_end_on_a_destroyed_stream_keeps_the_session_where_it_is) {
  WorldOptions options;
  options.rest_patience = std::chrono::milliseconds(100);
  World w(options);
  w.load_kernels();
  const uint64_t stream = w.guest.stream(1, CU_STREAM_NON_BLOCKING);
  w.gate(1, stream);
  wire_cuStreamDestroy_v2 destroy{};
  destroy.hStream = stream;
  w.guest.put(WIRE_cuStreamDestroy_v2, destroy);
  CHECK(echoes(w));
  // A second move does not wait with a second thread.
  for (int i = 0; i < 2; i++) {
    Target target(w);
    CHECK(target.take_connection());
    const Told told = target.serve_until_told();
    CHECK(!told.moved);
    CHECK_EQUAL(told.why, "its work on the device did not end within 0.1 seconds");
    // The kernel runs still, and nobody waits for it.
    CHECK(echoes(w));
  }
  World::fake().open_gate(1);
  CHECK_EQUAL(w.guest.synchronize().result, CUDA_SUCCESS);
  Target target(w);
  CHECK(target.take_connection());
  const std::vector<uint8_t> commit = target.serve_until_commit();
  CHECK(!commit.empty());
  target.answer(commit);
  CHECK(target.told.get_future().get().moved);
  CHECK(w.ended().reason == EndReason::kMoved);
}

// Who sends waits for it, and the move does not wait for who sends.
TEST(a_guest_that_takes_no_answers_keeps_its_session_where_it_is) {
  WorldOptions options;
  options.rest_patience = std::chrono::milliseconds(100);
  options.grace = std::chrono::seconds(20);
  World w(options);
  const size_t asked = answers_that_fit() + 1;
  ask_many(w, asked);
  Target target(w);
  CHECK(target.take_connection());
  const Told told = target.serve_until_told();
  CHECK(!told.moved);
  CHECK_EQUAL(told.why, "one of its commands did not end within 0.2 seconds");
  for (size_t i = 0; i < asked; i++) w.guest.wait(kManyAsked);
  CHECK(echoes(w));
  w.session->goodbye();
  w.guest.close();
  CHECK(w.ended().reason == EndReason::kClosed);
}

TEST(unloads_that_are_not_kept_while_it_moves_keep_it_where_it_is) {
  session_limits.unloaded_bytes = 1;
  World w;
  load(w, 1, "kernel nothing\n");
  load(w, 2, "kernel nothing\nkernel crash\n");
  load(w, 3, "kernel nothing\nkernel print 8\n");
  Target target(w);
  CHECK(target.take_connection());
  const std::vector<uint8_t> first = target.next();
  wire_ModuleUnload unload{};
  unload.module = module_handle(2);
  w.guest.put(WIRE_ModuleUnload, unload);
  w.guest.synchronize();
  answer_loaded(target, first);
  const Told told = target.told.get_future().get();
  CHECK(!told.moved);
  CHECK_EQUAL(told.why,
              "the session has made more objects than the server remembers the making of");
  CHECK(echoes(w));
}

TEST(a_reset_while_it_moves_keeps_it_where_it_is) {
  World w;
  load(w, 1, "kernel nothing\n");
  load(w, 2, "kernel nothing\nkernel crash\n");
  Target target(w);
  CHECK(target.take_connection());
  const std::vector<uint8_t> first = target.next();
  CHECK_EQUAL(w.guest.call(WIRE_ContextReset, wire_ContextReset{}).reply.result, CUDA_SUCCESS);
  load(w, 3, "kernel nothing\nkernel print 8\n");
  answer_loaded(target, first);
  const Told told = target.told.get_future().get();
  CHECK(!told.moved);
  CHECK_EQUAL(told.why, "the program resets its context");
  CHECK(echoes(w));
}

TEST(a_target_that_answers_nothing_that_was_asked_is_not_waited_for) {
  int fds[2];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
  std::thread says([&] {
    const wire_header idle{WIRE_IDLE, 0, sizeof idle};
    while (send(fds[0], &idle, sizeof idle, MSG_NOSIGNAL) == ssize_t(sizeof idle)) {
    }
  });
  {
    MoveLink link(
        fds[1], [] { return false; }, std::chrono::milliseconds(100));
    wire_Echo q{};
    q.request.header.op = WIRE_Echo;
    std::vector<uint8_t> reply;
    CHECK(!link.ask(&q, sizeof q, nullptr, 0, &reply));
    CHECK_EQUAL(link.why(), "the process that it was to move to does not answer");
  }
  says.join();
  close(fds[0]);
}

TEST(a_target_that_never_takes_memory_is_not_waited_for) {
  WorldOptions options;
  options.rest_patience = std::chrono::milliseconds(20);
  World w(options);
  w.guest.map(World::base(), kGranule);
  w.guest.upload(World::base(), pattern(5 * Target::kSlot));
  w.guest.synchronize();
  Target target(w);
  target.shares = true;
  target.busy = UINT64_MAX;
  CHECK(target.take_connection());
  const Told told = target.serve_until_told();
  CHECK(!told.moved);
  CHECK_EQUAL(told.why, "the other GPU does not take its memory");
  CHECK(echoes(w));
  munmap(target.region, Target::kSlots * Target::kSlot);
}

TEST(a_session_moves_once_at_a_time) {
  World w;
  Target first(w);
  CHECK(first.take_connection());
  Target second(w);
  CHECK(second.told.get_future().get().why.starts_with("it is being moved already"));
  CHECK(second.next().empty());
  close_fd(std::exchange(first.here, -1));
  CHECK(!first.told.get_future().get().moved);
  w.end();
}

TEST(what_hinders_is_said_by_name) {
  World w;
  w.guest.put(WIRE_ArrayCreate, create_array(16));
  w.guest.synchronize();
  Target target(w);
  CHECK(target.told.get_future().get().why == "the session has arrays");
  CHECK(echoes(w));
  w.end();
}

TEST(a_guest_that_leaves_while_its_session_moves_ends_it) {
  World w;
  Target target(w);
  CHECK(target.take_connection());
  CHECK(!target.next().empty());
  w.guest.close();
  CHECK(w.ended().reason == EndReason::kClosed);
  CHECK(!target.told.get_future().get().moved);
}

// ---- a session that comes ----------------------------------------------------------------------

namespace {

WorldOptions arriving() {
  WorldOptions options;
  options.arrives = true;
  return options;
}

void put_state(World &w, uint32_t kind, const std::string &bytes) {
  wire_MoveState q{};
  q.kind = kind;
  q.length = bytes.size();
  w.guest.put(WIRE_MoveState, q, bytes);
}

// The connection of a guest, handed over with a session that comes.
struct Connection {
  int program = -1,
      source = -1;  // the ends: the guest's, and the source's own of what it hands over
  explicit Connection(World &w) {
    int ends[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    source = ends[0];
    program = ends[1];
    const char carrier = 0;
    CHECK(send_message(w.source_fd, &carrier, 1, source));
  }
  ~Connection() {
    close_fd(source);
    close_fd(program);
  }
  Connection(const Connection &) = delete;
};

}  // namespace

TEST(a_session_comes_with_what_was_not_carried_out) {
  World w(arriving());
  Connection guest(w);
  CHECK_EQUAL(w.guest.call(WIRE_RegionOpen, wire_RegionOpen{}).reply.result, CUDA_SUCCESS);
  w.guest.map(World::base(), kGranule);
  w.guest.upload(World::base(), pattern(5000));
  wire_Echo echo{};
  echo.request = {{WIRE_Echo, 0, sizeof echo}, 77};
  const std::string unread(reinterpret_cast<const char *>(&echo), sizeof echo);
  put_state(w, WIRE_MOVE_UNREAD, unread.substr(0, 5));
  put_state(w, WIRE_MOVE_UNREAD, unread.substr(5));
  wire_MoveCommit commit{};
  commit.async = CUDA_ERROR_INVALID_IMAGE;
  CHECK_EQUAL(w.guest.call(WIRE_MoveCommit, commit).reply.result, CUDA_SUCCESS);
  // That link is over, behind what may have been said of being idle.
  for (Frame frame = w.guest.next(); !frame.bytes.empty(); frame = w.guest.next())
    CHECK_EQUAL(frame.op(), WIRE_IDLE);
  Guest program(std::exchange(guest.program, -1));
  const Answer answer = program.wait(77);
  CHECK_EQUAL(answer.reply.async, CUDA_ERROR_INVALID_IMAGE);
  CHECK(program.download(World::base(), 5000) == pattern(5000));
  // What was shared for the move is no more.
  CHECK_EQUAL(w.session->counters()->hindrances.load(), uint64_t{0});
  program.close();
  CHECK(w.ended().reason == EndReason::kClosed);
}

TEST(kernels_that_have_printed_elsewhere_have_a_buffer_whose_size_stays) {
  for (const bool printed : {false, true}) {
    World w(arriving());
    Connection guest(w);
    if (printed) put_state(w, WIRE_MOVE_PRINTED, "\1");
    CHECK_EQUAL(w.guest.call(WIRE_MoveCommit, wire_MoveCommit{}).reply.result, CUDA_SUCCESS);
    Guest program(std::exchange(guest.program, -1));
    wire_LimitSet q{};
    q.limit = CU_LIMIT_PRINTF_FIFO_SIZE;
    q.value = 1 << 20;
    CHECK_EQUAL(program.call(WIRE_LimitSet, q).reply.result,
                printed ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS);
    program.close();
    CHECK(w.ended().reason == EndReason::kClosed);
  }
}

// As the process waits that is to hand in another connection of the guest until it is here.
TEST(a_source_that_takes_no_answers_ends_the_move) {
  World w(arriving());
  Connection guest(w);
  const size_t fit = answers_that_fit();
  ask_many(w, fit);
  w.guest.ask(WIRE_MoveCommit, wire_MoveCommit{});
  while (w.session->counters()->commands.load() <= fit) std::this_thread::yield();
  CHECK(!w.session->resume(guest.source, 0, 1));
  const SessionEnd end = w.ended();
  CHECK(end.reason == EndReason::kViolation);
  CHECK_EQUAL(end.message, "whoever commits the move takes no answers");
  close_fd(std::exchange(guest.source, -1));
  // The guest's connection is the source's still.
  char nothing;
  CHECK_EQUAL(recv(guest.program, &nothing, sizeof nothing, 0), 0);
}

TEST(a_session_that_does_not_come_is_over) {
  World w(arriving());
  CHECK(w.end().reason == EndReason::kClosed);
}

TEST(only_a_connection_may_come) {
  World w(arriving());
  const char carrier = 0;
  const int file = open("/dev/null", O_RDONLY | O_CLOEXEC);
  CHECK(send_message(w.source_fd, &carrier, 1, file));
  close(file);
  w.expect_violation("no connection");
}

TEST(a_commit_while_work_waits_ends_the_move) {
  WorldOptions options = arriving();
  options.rest_patience = options.patience = std::chrono::milliseconds(50);
  World w(options);
  Connection guest(w);
  w.load_kernels();
  w.gate(1, w.guest.stream(1, CU_STREAM_NON_BLOCKING));
  w.guest.ask(WIRE_MoveCommit, wire_MoveCommit{});
  const SessionEnd end = w.ended();
  CHECK(end.reason == EndReason::kViolation);
  CHECK(end.message.starts_with("a MoveCommit comes while work is under way"));
  CHECK(!end.reusable);
}

// World::ended looks for what was loaded.
TEST(a_place_has_one_expected_module) {
  World w(arriving());
  Connection guest(w);
  const std::string image = Guest::image("kernel nothing\n");
  const wire_ModuleLoad like = w.guest.load_command(module_handle(1), image);
  wire_ModuleExpect q{};
  q.hash0 = like.hash0;
  q.hash1 = like.hash1;
  q.hash2 = like.hash2;
  q.hash3 = like.hash3;
  q.total = image.size();
  w.guest.send_image(image);
  w.guest.ask(WIRE_ModuleExpect, q);
  CHECK(echoes(w));
  w.guest.ask(WIRE_ModuleExpect, q);
  w.expect_violation("two modules are expected at a place");
}

TEST(times_of_events_have_an_end) {
  for (const int64_t ns : {INT64_MIN, INT64_MAX}) {
    World w(arriving());
    Connection guest(w);
    const wire_moved_event moved{w.guest.event(1), ns};
    put_state(w, WIRE_MOVE_EVENTS, packed(moved));
    w.guest.ask(WIRE_MoveCommit, wire_MoveCommit{});
    w.expect_violation("no time that makes sense");
  }
}

// Its payload has no place.
TEST(state_of_no_bytes_is_nothing) {
  World w(arriving());
  Connection guest(w);
  for (uint32_t kind : {WIRE_MOVE_UNREAD, WIRE_MOVE_PRINTED}) put_state(w, kind, "");
  CHECK(echoes(w));
}

TEST(state_without_sense_is_a_violation) {
  for (uint32_t kind : {uint32_t{WIRE_MOVE_KINDS}, uint32_t{WIRE_MOVE_COUNTERS}}) {
    World w(arriving());
    Connection guest(w);
    put_state(w, kind, std::string(4096, 'x'));
    w.expect_violation("makes no sense");
  }
}

TEST(no_guest_may_say_what_only_moving_sessions_do) {
  {
    World w;
    put_state(w, WIRE_MOVE_UNREAD, "x");
    w.expect_violation("MoveState from a guest");
  }
  {
    World w;
    w.guest.ask(WIRE_MoveCommit, wire_MoveCommit{});
    w.expect_violation("MoveCommit from a guest");
  }
  World w;
  w.guest.ask(WIRE_ModuleExpect, wire_ModuleExpect{});
  w.expect_violation("ModuleExpect from a guest");
}
