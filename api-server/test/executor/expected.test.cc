// Modules that are loaded before the guest asks for them.
#include "check.h"
#include "world.h"

using namespace outboard;

namespace {

const char *const kText = "kernel first 8\n";

Answer open(World &w, uint64_t module, const std::string &text, const std::string &options = {}) {
  const std::string image = Guest::image(text);
  w.guest.send_image(image);
  wire_ModuleOpen q = w.guest.open_command(module, image);
  q.options_size = static_cast<uint32_t>(options.size());
  return w.guest.call(WIRE_ModuleOpen, q, options);
}

// What a session that loads them leaves behind.
std::vector<ExpectedModule> used(const std::vector<std::string> &texts) {
  World w;
  uint32_t index = 0;
  for (const std::string &text : texts) open(w, module_handle(++index), text);
  return w.end().modules;
}

WorldOptions expecting(std::vector<ExpectedModule> modules) {
  WorldOptions options;
  options.expected = std::move(modules);
  return options;
}

uint32_t told(World &w, uint32_t index) {
  return w.guest.wait(WIRE_EXPECTED + index).frame.as<wire_ModuleOpen_reply>().state;
}

void take(World &w, uint64_t module, uint32_t index) {
  wire_ModuleTake q{};
  q.module = module;
  q.index = index;
  w.guest.put(WIRE_ModuleTake, q);
}

}  // namespace

TEST(what_a_session_used_is_reported_once) {
  const auto modules = used({kText, "kernel second\n", kText});
  CHECK_EQUAL(modules.size(), 2u);
  CHECK_EQUAL(modules[0].size, Guest::image(kText).size());
  CHECK(modules[0].hash != modules[1].hash);
}

TEST(options_and_refusals_are_not_expected) {
  World w;
  const std::string options = packed(wire_jit_option{CU_JIT_MAX_REGISTERS, 0, 32});
  open(w, module_handle(1), kText, options);
  open(w, module_handle(2), "nonsense here\n");
  CHECK(w.end().modules.empty());
}

TEST(no_more_than_sockets_hold) {
  std::vector<std::string> texts;
  for (int i = 0; i < 40; i++) texts.push_back("kernel number" + std::to_string(i) + "\n");
  CHECK_EQUAL(used(texts).size(), size_t{WIRE_EXPECTED_MAX});
  // 500 kernels with their layouts, in each.
  texts.resize(6);
  for (std::string &text : texts)
    for (int i = 0; i < 500; i++)
      text += "kernel " + std::string(60, 'k') + std::to_string(i) + "\n";
  CHECK_EQUAL(used(texts).size(), 1u);
}

TEST(it_is_there_before_anybody_asks) {
  const auto modules = used({kText});
  World w(expecting(modules));
  const Answer answer = w.guest.wait(WIRE_EXPECTED);
  const auto &reply = answer.frame.as<wire_ModuleOpen_reply>();
  CHECK_EQUAL(reply.state, WIRE_MODULE_LOADED);
  CHECK_EQUAL(reply.listed, 1u);
  CHECK_EQUAL(reply.described, 1u);
  take(w, module_handle(1), 0);
  w.guest.function(module_handle(1), function_handle(1), "first");
  CHECK_EQUAL(w.guest.synchronize().async, CUDA_SUCCESS);
  const SessionEnd end = w.end();
  CHECK_EQUAL(end.modules.size(), 1u);
  CHECK(end.modules[0].hash == modules[0].hash);
}

TEST(what_nobody_takes_is_forgotten) {
  const auto modules = used({kText, "kernel second\n"});
  const uint64_t before = World::fake().calls("cuLibraryUnload");
  World w(expecting(modules));
  CHECK_EQUAL(told(w, 1), WIRE_MODULE_LOADED);
  take(w, module_handle(1), 1);
  w.guest.synchronize();
  const SessionEnd end = w.end();
  CHECK_EQUAL(end.modules.size(), 1u);
  CHECK(end.modules[0].hash == modules[1].hash);
  CHECK_EQUAL(World::fake().calls("cuLibraryUnload") - before, 2u);
}

TEST(an_image_that_is_not_there_is_wanted) {
  auto modules = used({kText});
  modules[0].size += 8;
  World w(expecting(modules));
  CHECK_EQUAL(told(w, 0), WIRE_MODULE_WANTED);
  // Asked for, it is loaded as ever.
  const Answer answer = open(w, module_handle(1), kText);
  CHECK_EQUAL(answer.frame.as<wire_ModuleOpen_reply>().state, WIRE_MODULE_LOADED);
}

TEST(a_load_that_fails_is_asked_for_again) {
  const auto modules = used({kText});
  World::fake().fail("cuLibraryLoadData", CUDA_ERROR_OUT_OF_MEMORY, 0);
  World w(expecting(modules));
  CHECK_EQUAL(told(w, 0), WIRE_MODULE_REFUSED);
  const Answer answer = open(w, module_handle(1), kText);
  CHECK_EQUAL(answer.frame.as<wire_ModuleOpen_reply>().state, WIRE_MODULE_LOADED);
}

TEST(taking_what_is_not_there_ends_the_session) {
  const auto modules = used({kText});
  for (const uint32_t index : {1u, UINT32_MAX}) {
    World w(expecting(modules));
    told(w, 0);
    take(w, module_handle(1), index);
    w.expect_violation("not there");
  }
  World w(expecting(modules));
  told(w, 0);
  take(w, module_handle(1), 0);
  take(w, module_handle(2), 0);
  w.expect_violation("not there");
}

TEST(taking_under_a_handle_that_is_taken_ends_the_session) {
  const auto modules = used({kText});
  World w(expecting(modules));
  told(w, 0);
  open(w, module_handle(1), kText);
  take(w, module_handle(1), 0);
  w.expect_violation("cannot be minted");
}

TEST(a_reset_unloads_them) {
  const auto modules = used({kText});
  World w(expecting(modules));
  told(w, 0);
  CHECK_EQUAL(w.guest.call(WIRE_ContextReset, wire_ContextReset{}).reply.result, CUDA_SUCCESS);
  take(w, module_handle(1), 0);
  w.expect_violation("not there");
}

TEST(a_module_that_fixes_the_heap_is_not_expected) {
  World w;
  open(w, module_handle(1), kText);
  World::fake().fail("cuCtxSetLimit", CUDA_ERROR_INVALID_VALUE, 0);
  open(w, module_handle(2), "kernel second\n");
  CHECK_EQUAL(w.end().modules.size(), 1u);
}

TEST(what_nobody_takes_leaves_the_program_its_room) {
  const std::string texts[] = {"kernel first\n", "kernel second\n", "kernel third\n",
                               "kernel fourth\n", "kernel fifth\n"};
  const auto state = [](const Answer &answer) {
    return answer.frame.as<wire_ModuleOpen_reply>().state;
  };
  const auto modules = used({texts[0], texts[1], texts[2]});
  WorldOptions options = expecting(modules);
  options.images = modules[0].size + modules[1].size + 16;
  World w(options);
  CHECK_EQUAL(told(w, 0), WIRE_MODULE_LOADED);
  CHECK_EQUAL(told(w, 1), WIRE_MODULE_LOADED);
  CHECK_EQUAL(told(w, 2), WIRE_MODULE_WANTED);  // ahead, no more than may be
  CHECK_EQUAL(state(open(w, module_handle(1), texts[3])), WIRE_MODULE_LOADED);
  take(w, module_handle(2), 0);
  CHECK_EQUAL(state(open(w, module_handle(3), texts[4])), WIRE_MODULE_REFUSED);
  wire_ModuleUnload q{};
  q.module = module_handle(2);
  w.guest.put(WIRE_ModuleUnload, q);
  CHECK_EQUAL(w.guest.synchronize().async, CUDA_SUCCESS);
  CHECK_EQUAL(state(open(w, module_handle(4), texts[4])), WIRE_MODULE_LOADED);
}
