// Links: inputs by hash, what the linker says, results, and what breaks the rules.
#include <elf.h>

#include "check.h"
#include "world.h"

using namespace outboard;

namespace {

uint64_t link_handle(uint32_t index) { return wire_handle(WIRE_KIND_LINK, 1, index); }

std::string input(const std::string &text) { return Guest::image(text, WIRE_IMAGE_INPUT); }

void create(World &w, uint64_t link) {
  const wire_jit_option room = {CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, 0, 64};
  wire_LinkCreate q{};
  q.link = link;
  q.options_size = sizeof room;
  w.guest.put(WIRE_LinkCreate, q, packed(room));
}

wire_LinkAdd add_command(World &w, uint64_t link, const std::string &image) {
  const wire_ModuleLoad named = w.guest.load_command(0, image);
  wire_LinkAdd q{};
  q.link = link;
  q.hash0 = named.hash0;
  q.hash1 = named.hash1;
  q.hash2 = named.hash2;
  q.hash3 = named.hash3;
  q.total = named.total;
  q.type = CU_JIT_INPUT_PTX;
  q.named = 1;
  q.name_size = 5;
  return q;
}

wire_LinkAdd_reply add(World &w, uint64_t link, const std::string &image, std::string *said) {
  w.guest.send_image(image);
  const Answer answer = w.guest.call(WIRE_LinkAdd, add_command(w, link, image), "input");
  const auto &reply = answer.frame.as<wire_LinkAdd_reply>();
  if (answer.reply.result != CUDA_SUCCESS) return {answer.reply, 0, 0, 0, 0};
  *said = answer.frame.tail<wire_LinkAdd_reply>(reply.errors_size);
  return reply;
}

wire_LinkComplete_reply complete(World &w, uint64_t link, std::string *said) {
  wire_LinkComplete q{};
  q.link = link;
  const Answer answer = w.guest.call(WIRE_LinkComplete, q);
  const auto &reply = answer.frame.as<wire_LinkComplete_reply>();
  *said = answer.frame.tail<wire_LinkComplete_reply>(reply.errors_size);
  return reply;
}

// The smallest that counts as one.
std::string elf(const std::string &rest) {
  Elf64_Ehdr header{};
  memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_version = EV_CURRENT;
  header.e_ehsize = sizeof header;
  Elf64_Phdr segment{};
  header.e_phoff = sizeof header;
  header.e_phentsize = sizeof segment;
  header.e_phnum = 1;
  segment.p_filesz = sizeof header + sizeof segment + rest.size();
  return packed(header) + packed(segment) + rest;
}

}  // namespace

TEST(inputs_become_a_result_that_is_known_as_an_image) {
  World w;
  const uint64_t link = link_handle(1);
  std::string said;
  create(w, link);
  const std::string text = elf("kernel linked\n");
  CHECK_EQUAL(w.guest.call(WIRE_LinkAdd, add_command(w, link, input(text)), "input")
                  .frame.as<wire_LinkAdd_reply>()
                  .state,
              WIRE_MODULE_WANTED);
  CHECK_EQUAL(add(w, link, input(text), &said).state, WIRE_MODULE_LOADED);
  const wire_LinkComplete_reply done = complete(w, link, &said);
  CHECK_EQUAL(done.refused, CUDA_SUCCESS);
  CHECK_EQUAL(done.size, text.size());
  wire_LinkFetch fetch{};
  fetch.link = link;
  CHECK_EQUAL(w.guest.call(WIRE_LinkFetch, fetch).data, text);
  // The driver has its say about it, so its bytes are not wanted.
  const wire_ModuleLoad load =
      w.guest.load_command(module_handle(1), Guest::image(text, WIRE_IMAGE_ELF));
  CHECK_EQUAL(w.guest.call(WIRE_ModuleLoad, load).reply.result, CUDA_ERROR_INVALID_PTX);
  wire_LinkDestroy end{};
  end.link = link;
  w.guest.put(WIRE_LinkDestroy, end);
  CHECK_EQUAL(w.guest.call(WIRE_LinkFetch, fetch).reply.result, CUDA_ERROR_INVALID_HANDLE);
}

TEST(a_result_is_one_until_more_is_added) {
  World w;
  const uint64_t link = link_handle(1);
  std::string said;
  create(w, link);
  add(w, link, input("kernel first\n"), &said);
  CHECK_EQUAL(complete(w, link, &said).refused, CUDA_SUCCESS);
  wire_LinkFetch fetch{};
  fetch.link = link;
  CHECK_EQUAL(w.guest.call(WIRE_LinkFetch, fetch).data, "kernel first\n");
  // The driver may have moved it.
  add(w, link, input(std::string(1000, 'k') + "\n"), &said);
  CHECK_EQUAL(w.guest.call(WIRE_LinkFetch, fetch).reply.result, CUDA_ERROR_INVALID_HANDLE);
  CHECK_EQUAL(complete(w, link, &said).refused, CUDA_SUCCESS);
  CHECK_EQUAL(w.guest.call(WIRE_LinkFetch, fetch).data.size(), 13u + 1001u);
}

TEST(an_input_is_known_to_its_own_tenant_only) {
  const std::string image = input("kernel secret\n");
  std::string said;
  const auto asked = [&](const char *tenant) {
    WorldOptions options;
    options.tenant = tenant;
    World w(std::move(options));
    create(w, link_handle(1));
    const Answer answer =
        w.guest.call(WIRE_LinkAdd, add_command(w, link_handle(1), image), "input");
    const uint32_t state = answer.frame.as<wire_LinkAdd_reply>().state;
    if (state == WIRE_MODULE_WANTED) add(w, link_handle(1), image, &said);
    return state;
  };
  CHECK_EQUAL(asked("a"), WIRE_MODULE_WANTED);
  CHECK_EQUAL(asked("a"), WIRE_MODULE_LOADED);
  CHECK_EQUAL(asked("b"), WIRE_MODULE_WANTED);
  CHECK_EQUAL(asked(""), WIRE_MODULE_WANTED);
}

// Whatever it may be called where images are kept.
TEST(an_input_of_another_tenant_is_no_module) {
  const std::string image = input("kernel secret\n");
  std::string said;
  {
    WorldOptions options;
    options.tenant = "a";
    World w(std::move(options));
    create(w, link_handle(1));
    add(w, link_handle(1), image, &said);
  }
  const Hash hash = blake2b({reinterpret_cast<const uint8_t *>(image.data()), image.size()});
  const std::string text = packed(hash) + "a";
  WorldOptions options;
  options.tenant = "b";
  World w(std::move(options));
  wire_ModuleLoad load = w.guest.load_command(module_handle(1), image);
  const Hash names[] = {hash,
                        blake2b({reinterpret_cast<const uint8_t *>(text.data()), text.size()})};
  for (const Hash &name : names) {
    load.hash0 = name[0];
    load.hash1 = name[1];
    load.hash2 = name[2];
    load.hash3 = name[3];
    const Answer answer = w.guest.call(WIRE_ModuleLoad, load);
    CHECK_EQUAL(answer.frame.as<wire_ModuleLoad_reply>().state, WIRE_MODULE_WANTED);
  }
}

TEST(what_the_linker_says_is_passed_on) {
  World w;
  const uint64_t link = link_handle(1);
  std::string said;
  create(w, link);
  wire_LinkAdd_reply refused = add(w, link, input("nonsense\n"), &said);
  CHECK_EQUAL(refused.state, WIRE_MODULE_REFUSED);
  CHECK_EQUAL(refused.refused, CUDA_ERROR_INVALID_PTX);
  CHECK_EQUAL(said, "input is nonsense");
  CHECK_EQUAL(complete(w, link, &said).refused, CUDA_ERROR_INVALID_PTX);
  CHECK_EQUAL(said, "nothing to link");
  CHECK_EQUAL(add(w, link, input("kernel k\n"), &said).state, WIRE_MODULE_LOADED);
  CHECK_EQUAL(complete(w, link, &said).refused, CUDA_SUCCESS);
}

TEST(links_end_with_the_session_and_not_with_a_reset) {
  const unsigned before = World::fake().calls("cuLinkDestroy");
  {
    World w;
    std::string said;
    create(w, link_handle(1));
    add(w, link_handle(1), input("kernel k\n"), &said);
    CHECK_EQUAL(w.guest.call(WIRE_ContextReset, wire_ContextReset{}).reply.result, CUDA_SUCCESS);
    CHECK_EQUAL(complete(w, link_handle(1), &said).refused, CUDA_SUCCESS);
    CHECK_EQUAL(World::fake().calls("cuLinkDestroy"), before);
  }
  CHECK_EQUAL(World::fake().calls("cuLinkDestroy"), before + 1);
}

TEST(links_that_are_none_and_inputs_that_are_none) {
  {
    World w;
    std::string said;
    CHECK_EQUAL(add(w, link_handle(1), input("kernel k\n"), &said).reply.result,
                CUDA_ERROR_INVALID_HANDLE);
    create(w, link_handle(1));
    create(w, link_handle(1));
    w.expect_violation("minted");
  }
  {
    World w;
    create(w, module_handle(1));
    w.expect_violation("minted");
  }
  for (const std::string &image :
       {Guest::image("kernel k\n"), input("k") + input("k"), input("")}) {
    World w;
    create(w, link_handle(1));
    w.guest.send_image(image);
    w.guest.ask(WIRE_LinkAdd, add_command(w, link_handle(1), image), "input");
    w.expect_violation("no input");
  }
  // Nor is an input a module.
  World w;
  CHECK_EQUAL(w.guest.load(module_handle(1), input("kernel k\n")).reply.result,
              CUDA_ERROR_INVALID_IMAGE);
}
