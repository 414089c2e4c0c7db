// Modules: by hash, in pieces, known from earlier, malformed.
#include "check.h"
#include "world.h"

using namespace outboard;

namespace {

constexpr uint64_t kGranule = WIRE_GRANULE;

uint32_t state_of(const Answer &answer) { return answer.frame.as<wire_ModuleLoad_reply>().state; }

std::string many_kernels(unsigned count) {
  std::string text;
  for (unsigned i = 0; i < count; i++) {
    text += "kernel a_kernel_with_a_longer_name_" + std::to_string(i) + " 8 4 4 8\n";
  }
  return Guest::image(text);
}

}  // namespace

TEST(the_answer_lists_kernels_and_their_parameters) {
  World w;
  const Answer answer =
      w.guest.load(module_handle(1), Guest::image("kernel first 4 8 4\nkernel second\n"));
  CHECK_EQUAL(answer.reply.result, CUDA_SUCCESS);
  const auto &reply = answer.frame.as<wire_ModuleLoad_reply>();
  CHECK_EQUAL(reply.state, WIRE_MODULE_LOADED);
  CHECK_EQUAL(reply.kernels, 2u);
  CHECK_EQUAL(reply.listed, 2u);
  const std::string list = answer.frame.tail<wire_ModuleLoad_reply>(reply.list_size);
  struct {
    wire_kernel kernel;
    wire_parameter parameters[3];
    char name[8];
    wire_kernel second;
    char second_name[8];
  } expected = {{5, 3, 20, 0}, {{0, 4}, {8, 8}, {16, 4}}, "first", {6, 0, 0, 1}, "second"};
  CHECK_EQUAL(list.size(), sizeof expected);
  CHECK(memcmp(list.data(), &expected, sizeof expected) == 0);
}

TEST(a_module_known_from_an_earlier_session_needs_no_bytes) {
  const std::string image = Guest::image("kernel known\n");
  {
    World w;
    CHECK_EQUAL(state_of(w.guest.load(module_handle(1), image)), WIRE_MODULE_LOADED);
  }
  World w;
  const Answer answer =
      w.guest.call(WIRE_ModuleLoad, w.guest.load_command(module_handle(1), image));
  CHECK_EQUAL(state_of(answer), WIRE_MODULE_LOADED);
  // The same image again, as another module.
  const Answer again = w.guest.call(WIRE_ModuleLoad, w.guest.load_command(module_handle(2), image));
  CHECK_EQUAL(state_of(again), WIRE_MODULE_LOADED);
}

TEST(a_module_is_known_to_tenants_that_have_sent_it) {
  const std::string image = Guest::image("kernel shared\n");
  const auto asked = [&](const char *tenant, bool sends) {
    WorldOptions options;
    options.tenant = tenant;
    World w(std::move(options));
    const uint32_t state =
        state_of(w.guest.call(WIRE_ModuleLoad, w.guest.load_command(module_handle(1), image)));
    if (sends) CHECK_EQUAL(state_of(w.guest.load(module_handle(2), image)), WIRE_MODULE_LOADED);
    return state;
  };
  CHECK_EQUAL(asked("a", true), WIRE_MODULE_WANTED);
  CHECK_EQUAL(asked("a", false), WIRE_MODULE_LOADED);
  CHECK_EQUAL(asked("b", false), WIRE_MODULE_WANTED);
  CHECK_EQUAL(asked("b", true), WIRE_MODULE_WANTED);
  CHECK_EQUAL(asked("b", false), WIRE_MODULE_LOADED);
  CHECK_EQUAL(asked("", false), WIRE_MODULE_WANTED);
}

// Small images come unasked, whether the server has them or not.
TEST(images_that_were_known_do_not_count_as_on_their_way) {
  constexpr uint32_t kImages = 40;
  for (int session = 0; session < 2; session++) {
    World w;
    for (uint32_t i = 1; i <= kImages; i++) {
      const std::string image = Guest::image("kernel unasked" + std::to_string(i) + "\n");
      w.guest.send_image(image);
      const Answer answer =
          w.guest.call(WIRE_ModuleLoad, w.guest.load_command(module_handle(i), image));
      CHECK_EQUAL(state_of(answer), WIRE_MODULE_LOADED);
    }
  }
}

TEST(pieces_come_in_any_order_and_size) {
  World w;
  const std::string image = many_kernels(300);
  w.guest.send_image(image, 777);
  CHECK_EQUAL(
      state_of(w.guest.call(WIRE_ModuleLoad, w.guest.load_command(module_handle(1), image))),
      WIRE_MODULE_LOADED);
}

TEST(an_incomplete_image_is_wanted_still) {
  World w;
  const std::string image = many_kernels(50);
  wire_ModulePiece q{};
  const wire_ModuleLoad load = w.guest.load_command(module_handle(1), image);
  q.hash0 = load.hash0;
  q.hash1 = load.hash1;
  q.hash2 = load.hash2;
  q.hash3 = load.hash3;
  q.total = image.size();
  q.offset = 100;
  q.length = 200;
  w.guest.put(WIRE_ModulePiece, q, image.substr(100, 200));
  CHECK_EQUAL(state_of(w.guest.call(WIRE_ModuleLoad, load)), WIRE_MODULE_WANTED);
  w.guest.send_image(image);
  CHECK_EQUAL(state_of(w.guest.call(WIRE_ModuleLoad, load)), WIRE_MODULE_LOADED);
}

TEST(kernels_beyond_the_list_are_found_by_name) {
  World w;
  const Answer answer = w.guest.load(module_handle(1), many_kernels(2000));
  const auto &reply = answer.frame.as<wire_ModuleLoad_reply>();
  CHECK_EQUAL(reply.kernels, 2000u);
  CHECK(reply.listed > 100 && reply.listed < 2000);
  CHECK(reply.list_size <= 48u << 10);
  const std::string name = "a_kernel_with_a_longer_name_1999";
  wire_FunctionFind find{};
  find.module = module_handle(1);
  find.name_size = static_cast<uint32_t>(name.size());
  const Answer found = w.guest.call(WIRE_FunctionFind, find, name);
  CHECK_EQUAL(found.reply.result, CUDA_SUCCESS);
  const auto &kernel = found.frame.as<wire_FunctionFind_reply>();
  CHECK_EQUAL(kernel.kernel, 1999u);
  CHECK_EQUAL(kernel.parameter_bytes, 24u);
  CHECK_EQUAL(kernel.layout_size, 4 * sizeof(wire_parameter));
  w.guest.function(module_handle(1), function_handle(1), name, 1999);
  w.guest.launch(function_handle(1), 0, std::string(24, '\0'));
  CHECK_EQUAL(w.guest.synchronize().async, 0);
  find.name_size = 4;
  CHECK_EQUAL(w.guest.call(WIRE_FunctionFind, find, "none").reply.result, CUDA_ERROR_NOT_FOUND);
}

TEST(a_function_is_bound_by_name_whatever_the_number) {
  World w;
  w.guest.load(module_handle(1), Guest::image("kernel first 4\nkernel second 8\n"));
  w.guest.function(module_handle(1), function_handle(1), "second", 0);
  w.guest.launch(function_handle(1), 0, std::string(8, '\0'));
  CHECK_EQUAL(w.guest.synchronize().async, 0);
  w.guest.function(module_handle(1), function_handle(2), "third", 0);
  CHECK_EQUAL(w.guest.synchronize().async, CUDA_ERROR_NOT_FOUND);
}

TEST(functions_end_with_their_module) {
  World w;
  w.load_kernels();
  wire_ModuleUnload unload{};
  unload.module = module_handle(0);
  w.guest.put(WIRE_ModuleUnload, unload);
  CHECK_EQUAL(w.guest.synchronize().async, 0);
  w.guest.launch(function_handle(World::kNothing), 0, "");
  CHECK_EQUAL(w.guest.synchronize().async, CUDA_ERROR_INVALID_HANDLE);
  w.guest.put(WIRE_ModuleUnload, unload);
  CHECK_EQUAL(w.guest.synchronize().async, CUDA_ERROR_INVALID_HANDLE);
  w.guest.function(module_handle(0), function_handle(99), "nothing");
  CHECK_EQUAL(w.guest.synchronize().async, CUDA_ERROR_INVALID_HANDLE);
}

TEST(globals_become_reachable_and_end_with_their_module) {
  World w;
  w.guest.load(module_handle(1), Guest::image("global table 64\nkernel k\n"));
  wire_ModuleGlobal global{};
  global.module = module_handle(1);
  global.name_size = 5;
  const Answer found = w.guest.call(WIRE_ModuleGlobal, global, "table");
  CHECK_EQUAL(found.reply.result, CUDA_SUCCESS);
  const uint64_t at = found.frame.as<wire_ModuleGlobal_reply>().address;
  CHECK_EQUAL(found.frame.as<wire_ModuleGlobal_reply>().size, 64u);
  w.guest.upload(at, pattern(64));
  CHECK_EQUAL(w.guest.download(at, 64), pattern(64));
  CHECK_EQUAL(w.guest.wait(w.guest.ask_download(at, 65)).reply.result, CUDA_ERROR_INVALID_VALUE);
  CHECK_EQUAL(w.guest.call(WIRE_ModuleGlobal, global, "other").reply.result, CUDA_ERROR_NOT_FOUND);
  wire_ModuleUnload unload{};
  unload.module = module_handle(1);
  w.guest.put(WIRE_ModuleUnload, unload);
  CHECK_EQUAL(w.guest.wait(w.guest.ask_download(at, 4)).reply.result, CUDA_ERROR_INVALID_VALUE);
}

TEST(what_was_asked_for_once_comes_with_the_load) {
  const std::string image = Guest::image("global asked 64\nglobal other 8\nkernel k 4\n");
  const auto open = [&](World &w, uint32_t module) {
    w.guest.send_image(image);
    const Answer answer =
        w.guest.call(WIRE_ModuleOpen, w.guest.open_command(module_handle(module), image));
    const auto &reply = answer.frame.as<wire_ModuleOpen_reply>();
    return answer.frame.tail<wire_ModuleOpen_reply>(reply.list_size);
  };
  const size_t kernel = sizeof(wire_kernel) + sizeof(wire_description) + sizeof(wire_parameter) + 8;
  {
    World w;
    CHECK_EQUAL(open(w, 1).size(), kernel);
    wire_ModuleGlobal global{};
    global.module = module_handle(1);
    global.name_size = 5;
    CHECK_EQUAL(w.guest.call(WIRE_ModuleGlobal, global, "asked").reply.result, CUDA_SUCCESS);
    CHECK_EQUAL(w.guest.call(WIRE_ModuleGlobal, global, "wrong").reply.result,
                CUDA_ERROR_NOT_FOUND);
  }
  World w;
  const std::string list = open(w, 1);
  CHECK_EQUAL(list.size(), kernel + sizeof(wire_variable) + 8);
  wire_variable variable;
  memcpy(&variable, list.data() + kernel, sizeof variable);
  CHECK_EQUAL(variable.size, 64u);
  CHECK_EQUAL(variable.managed, 0u);
  CHECK_EQUAL(list.substr(kernel + sizeof variable, variable.name_length), "asked");
  // Reachable without another word, and only as long as the module is there.
  w.guest.upload(variable.address, pattern(64));
  CHECK_EQUAL(w.guest.download(variable.address, 64), pattern(64));
  wire_ModuleUnload unload{};
  unload.module = module_handle(1);
  w.guest.put(WIRE_ModuleUnload, unload);
  CHECK_EQUAL(w.guest.wait(w.guest.ask_download(variable.address, 4)).reply.result,
              CUDA_ERROR_INVALID_VALUE);
  // One that goes before anything else is asked.
  open(w, 2);
  unload.module = module_handle(2);
  w.guest.put(WIRE_ModuleUnload, unload);
  CHECK_EQUAL(w.guest.synchronize().async, 0);
}

TEST(images_that_are_none_are_refused) {
  World w;
  uint32_t module = 0;
  const auto refused = [&](const std::string &image) {
    const unsigned calls = World::fake().calls("cuLibraryLoadData");
    CHECK_EQUAL(w.guest.load(module_handle(++module), image).reply.result,
                CUDA_ERROR_INVALID_IMAGE);
    CHECK_EQUAL(World::fake().calls("cuLibraryLoadData"), calls);  // the driver saw nothing of it
  };
  refused("12345678");
  refused(std::string(4096, '\0'));
  refused(Guest::image("kernel k\n", 99));
  refused(Guest::image("kernel k\n", WIRE_IMAGE_FATBIN));
  refused(Guest::image("kernel k\n", WIRE_IMAGE_ELF));
  refused(Guest::image("kernel k\n") + Guest::image("kernel k\n"));
  wire_image_part part{WIRE_IMAGE_PTX, 0, UINT64_MAX - 7};
  refused(packed(part) + "kernel k\n       ");
  // A fatbin whose header promises more than there is.
  const struct {
    uint32_t magic;
    uint16_t version, header;
    uint64_t size;
  } fatbin = {0xba55ed50, 1, 16, 1 << 20};
  refused(Guest::image(packed(fatbin) + std::string(64, '\0'), WIRE_IMAGE_FATBIN));
  // The driver's own refusal is passed on.
  CHECK_EQUAL(w.guest.load(module_handle(90), Guest::image("nonsense\n")).reply.result,
              CUDA_ERROR_INVALID_PTX);
  // And the module's handle is free still.
  CHECK_EQUAL(w.guest.load(module_handle(90), Guest::image("kernel k\n")).reply.result,
              CUDA_SUCCESS);
}

TEST(pieces_outside_of_images_end_the_session) {
  const auto violates = [](uint64_t total, uint64_t offset, uint64_t length,
                           const std::string &words) {
    World w;
    wire_ModulePiece q{};
    q.total = 4096;
    q.length = 8;
    w.guest.put(WIRE_ModulePiece, q, "12345678");
    q.total = total;
    q.offset = offset;
    q.length = length;
    w.guest.put(WIRE_ModulePiece, q, std::string(length, 'x'));
    w.expect_violation(words);
  };
  violates(4096, 4096, 8, "outside");
  violates(4096, 4089, 8, "outside");
  violates(4096, UINT64_MAX - 3, 8, "outside");
  violates(4104, 0, 8, "two sizes");
  {
    World w;
    wire_ModulePiece q{};
    q.hash0 = 1;
    q.total = (uint64_t{512} << 20) + 8;
    q.length = 8;
    w.guest.put(WIRE_ModulePiece, q, "12345678");
    w.expect_violation("larger");
  }
  {
    World w;
    wire_ModulePiece q{};
    q.total = 1 << 20;
    q.length = 8;
    for (uint64_t i = 0; i < 5000; i++) {
      q.offset = i * 16;
      w.guest.put(WIRE_ModulePiece, q, "12345678");
    }
    w.expect_violation("fragments");
  }
  {
    World w;
    wire_ModulePiece q{};
    q.total = 64;
    q.length = 8;
    for (uint64_t i = 0; i < 17; i++) {
      q.hash0 = i;
      w.guest.put(WIRE_ModulePiece, q, "12345678");
    }
    w.expect_violation("at a time");
  }
}

TEST(an_image_under_a_wrong_hash_ends_the_session) {
  World w;
  wire_ModulePiece q{};
  q.hash0 = 123;
  q.total = q.length = 64;
  w.guest.put(WIRE_ModulePiece, q, pattern(64));
  wire_ModuleLoad load{};
  load.module = module_handle(1);
  load.hash0 = 123;
  load.total = 64;
  w.guest.ask(WIRE_ModuleLoad, load);
  w.expect_violation("hash");
}

TEST(cooperative_launches_reach_the_driver) {
  World w;
  w.load_kernels();
  const unsigned before = World::fake().calls("cuLaunchKernelEx");
  wire_Launch q{};
  q.function = function_handle(World::kNothing);
  q.grid_x = q.grid_y = q.grid_z = q.block_x = q.block_y = q.block_z = 1;
  q.cooperative = 1;
  w.guest.put(WIRE_Launch, q);
  CHECK_EQUAL(w.guest.synchronize().async, 0);
  CHECK_EQUAL(World::fake().calls("cuLaunchKernel"), 1u + before);
  q.cooperative = 0;
  q.grid_x = 0;
  w.guest.put(WIRE_Launch, q);
  CHECK_EQUAL(w.guest.synchronize().async, CUDA_ERROR_INVALID_VALUE);
  (void)kGranule;
}
