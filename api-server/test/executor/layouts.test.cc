// Layouts of kernels' parameters, as images tell them.
#include "images/layouts.h"

#include <elf.h>
#include <lz4.h>
#include <zstd.h>

#include <atomic>
#include <functional>
#include <thread>

#include "abi_fatbin.h"
#include "check.h"
#include "images/code.h"
#include "world.h"

using namespace outboard;

namespace {

using Bytes = std::string;

// What the image tells of a kernel: `OFFSET+SIZE ...`, `none` for no parameters, empty for nothing.
std::string told(const std::optional<Layout> &layout) {
  if (!layout) return "";
  std::string text;
  uint32_t end = 0;
  for (const auto &[offset, size] : layout->parameters) {
    text += (text.empty() ? "" : " ") + std::to_string(offset) + "+" + std::to_string(size);
    end = offset + size;
  }
  CHECK_EQUAL(layout->bytes, end);
  return text.empty() ? "none" : text;
}

struct Told {
  std::vector<std::string> kernels;
  std::string why;
};

Told told_of(const std::string &bytes, std::vector<std::string_view> names,
             Capability capability = {9, 0}) {
  const std::shared_ptr<Image> image = Image::make(bytes.size());
  memcpy(image->data(), bytes.data(), bytes.size());
  Told all;
  for (const auto &layout : read_layouts(*image, names, capability, &all.why))
    all.kernels.push_back(told(layout));
  CHECK_EQUAL(all.kernels.size(), names.size());
  return all;
}

// Of a text's kernel `k`.
std::string in_text(const std::string &text) {
  const Told all = told_of(Guest::image(text), {"k"});
  CHECK_EQUAL(all.why, "");
  return all.kernels[0];
}

// ---- machine code ------------------------------------------------------------------------------

template <class... T>
Bytes joined(T... values) {
  Bytes bytes;
  (bytes.append(reinterpret_cast<const char *>(&values), sizeof values), ...);
  return bytes;
}

Bytes parameter(uint16_t place, uint16_t offset, uint32_t size) {
  return joined(uint16_t{0x1704}, uint16_t{12}, uint32_t{0}, place, offset,
                size << 18 | uint32_t{0x1f000});
}
Bytes large_parameter(uint16_t place, uint16_t offset, uint32_t size) {
  return joined(uint16_t{0x4504}, uint16_t{12}, uint32_t{0}, place, offset,
                size | uint32_t{0x05000000});
}
Bytes all_bytes(uint16_t bytes) { return joined(uint16_t{0x1903}, bytes); }
Bytes bank(uint16_t bytes) {
  return joined(uint16_t{0x0a04}, uint16_t{8}, uint32_t{7}, uint16_t{0x210}, bytes);
}
const Bytes kOther = joined(uint16_t{0x0401}, uint16_t{0}, uint16_t{0x1b03}, uint16_t{255},
                            uint16_t{0x4c02}, uint16_t{1}, uint16_t{0x1c04}, uint16_t{4}, 16);

struct Section {
  std::string name;
  Bytes bytes;
};

// `many`: as files have their counts that do not fit their headers.
Bytes machine_code(const std::vector<Section> &sections, uint8_t abi = 8, bool many = false) {
  std::vector<Elf64_Shdr> headers(2);
  Bytes names = std::string("\0.shstrtab", 11), contents;
  for (const Section &section : sections) {
    Elf64_Shdr header{};
    header.sh_type = 0x70000000;
    header.sh_name = static_cast<uint32_t>(names.size());
    header.sh_offset = sizeof(Elf64_Ehdr) + contents.size();
    header.sh_size = section.bytes.size();
    headers.push_back(header);
    names += section.name + '\0';
    contents += section.bytes;
  }
  headers[1].sh_type = SHT_STRTAB;
  headers[1].sh_name = 1;
  headers[1].sh_offset = sizeof(Elf64_Ehdr) + contents.size();
  headers[1].sh_size = names.size();
  contents += names;
  Elf64_Ehdr head{};
  memcpy(head.e_ident, ELFMAG, SELFMAG);
  head.e_ident[EI_CLASS] = ELFCLASS64;
  head.e_ident[EI_DATA] = ELFDATA2LSB;
  head.e_ident[EI_ABIVERSION] = abi;
  head.e_type = ET_EXEC;
  head.e_machine = 190;
  head.e_shoff = sizeof head + contents.size();
  head.e_shentsize = sizeof(Elf64_Shdr);
  head.e_shnum = static_cast<uint16_t>(many ? 0 : headers.size());
  head.e_shstrndx = many ? SHN_XINDEX : 1;
  if (many) {
    headers[0].sh_size = headers.size();
    headers[0].sh_link = 1;
  }
  Bytes file = joined(head) + contents;
  for (const Elf64_Shdr &header : headers) file += joined(header);
  return file;
}

std::string in_code(const Bytes &records) {
  const Bytes file = machine_code({{".nv.info.k", records}});
  const Told all = told_of(Guest::image(file, WIRE_IMAGE_ELF), {"k"});
  CHECK_EQUAL(all.why, "");
  return all.kernels[0];
}

// ---- containers --------------------------------------------------------------------------------

Bytes entry(uint16_t kind, uint32_t arch, Bytes payload, uint64_t packing = 0) {
  const uint64_t size = payload.size();
  if (packing == ABI_FATBIN_ZSTD) {
    Bytes packed(ZSTD_compressBound(size), '\0');
    packed.resize(ZSTD_compress(packed.data(), packed.size(), payload.data(), size, 3));
    payload = packed;
  } else if (packing == ABI_FATBIN_LZ4) {
    Bytes packed(static_cast<size_t>(LZ4_compressBound(static_cast<int>(size))), '\0');
    packed.resize(static_cast<size_t>(LZ4_compress_default(
        payload.data(), packed.data(), static_cast<int>(size), static_cast<int>(packed.size()))));
    payload = packed;
  }
  const auto packed = static_cast<uint32_t>(packing ? payload.size() : 0);
  payload.resize((payload.size() + 7) & ~size_t{7});
  return joined(kind, uint16_t{0x101}, uint32_t{64}, uint64_t{payload.size()}, packed, uint32_t{0},
                uint16_t{0}, uint16_t{9}, arch, uint64_t{0}, packing | ABI_FATBIN_64BIT,
                uint64_t{0}, packing ? size : uint64_t{0}) +
         payload;
}

Bytes container(const std::vector<Bytes> &entries) {
  Bytes all;
  for (const Bytes &one : entries) all += one;
  return Guest::image(joined(0xba55ed50u, uint16_t{1}, uint16_t{16}, uint64_t{all.size()}) + all,
                      WIRE_IMAGE_FATBIN);
}

Bytes code_of(const std::string &kernel, const Bytes &records) {
  return machine_code({{".nv.info." + kernel, records}});
}

}  // namespace

// ---- PTX ---------------------------------------------------------------------------------------

TEST(parameters_lie_where_their_types_and_alignments_say) {
  CHECK_EQUAL(in_text(".entry k() { ret; }"), "none");
  CHECK_EQUAL(in_text(".entry k\n.maxntid 32 { ret; }"), "none");
  CHECK_EQUAL(in_text(".visible .entry k(\n .param .u64 a,\n .param .u32 b\n)\n{ ret; }"),
              "0+8 8+4");
  CHECK_EQUAL(in_text(".entry k(.param .u8 a, .param .f16 b, .param .s32 c, .param .b128 d)"),
              "0+1 2+2 4+4 16+16");
  CHECK_EQUAL(in_text(".entry k(.param .b8 a, .param .align 16 .b8 b[24], .param .f64 c[3])"),
              "0+1 16+24 40+24");
  CHECK_EQUAL(in_text(".entry k(.param .b8 a[3][5], .param .u64 .ptr b, .param .u64 .ptr .global "
                      ".align 128 c, .param .u16 d)"),
              "0+15 16+8 24+8 32+2");
  CHECK_EQUAL(in_text(".entry k(.param .align 4 .b8 a[32764])"), "0+32764");
}

TEST(what_is_no_kernel_is_passed_over) {
  CHECK_EQUAL(in_text(".version 8.0 // .entry k(.param .u8 no)\n"
                      "/* .entry k(.param .u8 no) { */\n"
                      ".file 1 \"a { .entry k(.param .u8 no)\"\n"
                      ".global .b8 list[2] = {1, 2};\n"
                      ".func (.param .b32 r) other(.param .b64 a) { // }\n"
                      "  { .entry k(.param .u8 no) /* } */ } .loc \"}\"\n}\n"
                      ".visible .entry k(.param .u32 a) { ret; }\n"
                      ".entry more(.param .u64 a) { ret; }"),
              "0+4");
  CHECK_EQUAL(in_text(".entry more(.param .u64 a) { ret; }"), "");
  // A text that ends in the middle.
  for (const char *end : {".entry", ".entry k(", ".entry k(.param", ".entry k(.param .u32",
                          ".entry k(.param .u32 a", ".entry k(.param .u32 a,", ".entry more {",
                          ".entry more() { \"", ".entry more() { /*", ".entry more() { //"})
    CHECK_EQUAL(in_text(std::string("// text\n") + end), "");
}

TEST(what_is_not_understood_is_not_told) {
  for (const char *parameters :
       {".param .texref a", ".param .v2 .f32 a", ".param .b8 a[]", ".param .b8 a[0x10]",
        ".param .b8 a[010]", ".param .b8 a[99999999]", ".param .b8 a[65537]", ".param .u32",
        ".param a", ".reg .u32 a", ".param .u32 .u32 a", ".param .align 3 .b8 a[8]",
        ".param .align 4 .u64 a", ".param .b8 a, .param .align 32 .b8 b[32]", ".param .u32 a,",
        ".param .u32 a b", ".param .u32 a = 5"}) {
    const std::string text = std::string(".entry k(") + parameters + ") { ret; }\n" +
                             ".entry other(.param .u32 a) { ret; }";
    const Told all = told_of(Guest::image(text), {"other", "k"});
    CHECK_EQUAL(all.kernels[0], "0+4");
    CHECK_EQUAL(parameters + (": " + all.kernels[1]), std::string(parameters) + ": ");
  }
}

// ---- machine code ------------------------------------------------------------------------------

TEST(records_of_machine_code_are_read) {
  CHECK_EQUAL(in_code(kOther), "none");
  CHECK_EQUAL(in_code(kOther + all_bytes(0)), "none");
  CHECK_EQUAL(in_code(kOther + bank(20) + all_bytes(20) + parameter(2, 16, 4) + parameter(1, 8, 8) +
                      parameter(0, 0, 4) + kOther),
              "0+4 8+8 16+4");
  CHECK_EQUAL(in_code(all_bytes(24013) + large_parameter(1, 5000, 19013) + parameter(0, 0, 5000)),
              "0+5000 5000+19013");
  // As a parameter that is aligned to 128 bytes lies, behind what the bank begins with: a text does
  // not tell where.
  CHECK_EQUAL(in_code(parameter(0, 112, 256) + bank(368)), "112+256");
}

TEST(records_that_do_not_tell_all_tell_nothing) {
  CHECK_EQUAL(in_code(all_bytes(8)), "");
  CHECK_EQUAL(in_code(bank(8)), "");
  CHECK_EQUAL(in_code(all_bytes(8) + parameter(0, 0, 12)), "");
  CHECK_EQUAL(in_code(parameter(1, 0, 4)), "");
  CHECK_EQUAL(in_code(parameter(0, 0, 4) + parameter(0, 4, 4)), "");
  CHECK_EQUAL(in_code(parameter(0, 0, 8) + parameter(1, 4, 4)), "");
  CHECK_EQUAL(in_code(parameter(0, 0, 0)), "");
  CHECK_EQUAL(in_code(large_parameter(0, 0, 65537)), "");
  CHECK_EQUAL(in_code(parameter(0, 0, 8) + "\4"), "");
  CHECK_EQUAL(in_code(parameter(0, 0, 8).substr(0, 15)), "");
  CHECK_EQUAL(in_code(joined(uint16_t{0x1704}, uint16_t{8}, 0, 0)), "");
  CHECK_EQUAL(in_code(parameter(0, 0, 8) + joined(uint16_t{0x2005}, uint16_t{0})), "");
}

TEST(machine_code_of_another_form_has_a_reason) {
  const std::vector<Section> sections = {{".text.k", "code"},
                                         {".nv.info", kOther},
                                         {".nv.info.k", parameter(0, 0, 8)},
                                         {".nv.info.kernel", parameter(0, 0, 4)}};
  const auto read = [](Bytes file) {
    return told_of(Guest::image(file, WIRE_IMAGE_ELF), {"k", "none", "kernel"});
  };
  for (const Bytes &file :
       {machine_code(sections, 7), machine_code(sections, 8), machine_code(sections, 8, true)}) {
    const Told all = read(file);
    CHECK_EQUAL(all.why, "");
    CHECK(all.kernels == (std::vector<std::string>{"0+8", "", "0+4"}));
  }
  const Bytes whole = machine_code(sections);
  Bytes other_machine = whole;
  other_machine[offsetof(Elf64_Ehdr, e_machine)] = 62;
  for (const Bytes &file : {machine_code(sections, 6), machine_code(sections, 9), other_machine}) {
    const Told all = read(file);
    CHECK_EQUAL(all.why, "machine code is of a form that is not known");
    CHECK_EQUAL(all.kernels[0] + all.kernels[2], "");
  }
  // Nothing beyond the file is read, wherever it ends.
  for (size_t size = 4; size < whole.size(); size++)
    CHECK(!read(whole.substr(0, size)).why.empty());
}

TEST(sections_that_overlap_are_not_read_again_and_again) {
  std::vector<Section> sections(40, {".nv.info.k", ""});
  sections[0].bytes = Bytes(4000, '\0');
  Bytes file = machine_code(sections);
  const size_t headers = file.size() - 42 * sizeof(Elf64_Shdr);
  for (size_t i = 3; i < 42; i++)
    memcpy(file.data() + headers + i * sizeof(Elf64_Shdr),
           file.data() + headers + 2 * sizeof(Elf64_Shdr), sizeof(Elf64_Shdr));
  const Told all = told_of(Guest::image(file, WIRE_IMAGE_ELF), {"k"});
  CHECK_EQUAL(all.why, "sections of machine code overlap");
  // Likewise names.
  file = machine_code({{".nv.info." + std::string(4000, 'x'), ""}});
  CHECK_EQUAL(told_of(Guest::image(file, WIRE_IMAGE_ELF), {"k"}).why, "");
  const Bytes header = file.substr(file.size() - sizeof(Elf64_Shdr));
  constexpr uint8_t kMore = 100;
  for (int i = 0; i < kMore; i++) file += header;
  file[offsetof(Elf64_Ehdr, e_shnum)] = static_cast<char>(3 + kMore);
  CHECK_EQUAL(told_of(Guest::image(file, WIRE_IMAGE_ELF), {"k"}).why,
              "names of sections of machine code overlap");
}

// ---- containers --------------------------------------------------------------------------------

TEST(all_code_that_the_device_may_be_given_is_read) {
  const std::string text = ".entry k(.param .u32 a) { ret; } .entry t(.param .u64 a) { ret; }";
  const Bytes same = code_of("k", parameter(0, 0, 4)), other = code_of("k", parameter(0, 0, 8));
  const auto read = [](const std::vector<Bytes> &entries) {
    const Told all = told_of(container(entries), {"k", "t"});
    return all.why + all.kernels[0] + "," + all.kernels[1];
  };
  for (uint64_t packing : {uint64_t{0}, uint64_t{ABI_FATBIN_LZ4}, uint64_t{ABI_FATBIN_ZSTD}}) {
    const Bytes ptx = entry(ABI_ENTRY_PTX, 75, text, packing);
    CHECK_EQUAL(read({ptx}), "0+4,0+8");
    CHECK_EQUAL(read({entry(ABI_ENTRY_ELF, 90, same, packing)}), "0+4,");
    CHECK_EQUAL(read({ptx, entry(ABI_ENTRY_ELF, 90, same, packing)}), "0+4,0+8");
    // Where two differ, only the driver knows.
    CHECK_EQUAL(read({ptx, entry(ABI_ENTRY_ELF, 90, other, packing)}), ",0+8");
    // Neither is for this device.
    CHECK_EQUAL(read({ptx, entry(ABI_ENTRY_ELF, 80, other, packing),
                      entry(ABI_ENTRY_ELF, 100, other, packing)}),
                "0+4,0+8");
    CHECK_EQUAL(read({entry(ABI_ENTRY_PTX, 100, text, packing)}), ",");
  }
  // Of a kind that is not known.
  CHECK_EQUAL(read({entry(64, 90, "bytes"), entry(ABI_ENTRY_PTX, 75, text)}), "0+4,0+8");
}

TEST(damage_in_a_container_has_a_reason) {
  const Bytes good = entry(ABI_ENTRY_PTX, 75, ".entry k(.param .u32 a) { ret; }");
  const auto read = [&](Bytes bad) {
    const Told all = told_of(container({good, std::move(bad)}), {"k"});
    CHECK_EQUAL(all.kernels[0], "");
    return all.why;
  };
  CHECK_EQUAL(read(good.substr(0, 60)), "a container of code is damaged");
  Bytes packed = entry(ABI_ENTRY_PTX, 75, std::string(1000, ' '), ABI_FATBIN_ZSTD);
  packed[70] = static_cast<char>(packed[70] ^ 0x55);
  CHECK_EQUAL(read(packed), "a packed part of an image cannot be unpacked");
  packed = entry(ABI_ENTRY_PTX, 75, std::string(1000, ' '), ABI_FATBIN_LZ4);
  memset(packed.data() + 56, 0x7f, 7);
  CHECK_EQUAL(read(packed), "an image unpacks to more than can be read");
}

// Or as many would be unpacked at a time as there are threads that load.
TEST(what_is_packed_is_unpacked_one_at_a_time) {
  struct Reader final : CodeVisitor {
    bool wants(const abi_fatbin_entry &) override { return asked = true; }
    bool machine_code(CodeBytes) override { return true; }
    bool ptx(std::string_view) override {
      is_shown = true;
      while (!other->asked) std::this_thread::yield();
      // It has only to unpack what is 1,000 bytes.
      for (int i = 0; i < 10000 && !other->is_shown; i++) std::this_thread::yield();
      overlapped = other->is_shown && !other->is_over;
      is_over = true;
      return true;
    }
    Reader *other = nullptr;
    std::atomic<bool> asked{false}, is_shown{false}, is_over{false}, overlapped{false};
  } one, two;
  one.other = &two, two.other = &one;
  const std::string bytes =
      container({entry(ABI_ENTRY_PTX, 75, std::string(1000, ' '), ABI_FATBIN_ZSTD)});
  const std::shared_ptr<Image> image = Image::make(bytes.size());
  memcpy(image->data(), bytes.data(), bytes.size());
  const auto read = [&](Reader &reader) {
    std::string why;
    CHECK(visit_code(*image, reader, &why));
  };
  std::thread first(read, std::ref(one)), second(read, std::ref(two));
  first.join();
  second.join();
  CHECK(one.is_over && two.is_over);
  CHECK(!one.overlapped && !two.overlapped);
}

// What is kept for as long as the module counts as its image alone, which may be packed.
TEST(no_more_is_kept_than_goes_with_an_image) {
  std::string text = ".entry k(.param .b8 a";
  for (int i = 1; i < 30000; i++) text += ", .param .b8 a";
  text += ") { ret; } .entry t(.param .u64 a) { ret; }";
  const auto read = [&](uint64_t packing) {
    return told_of(container({entry(ABI_ENTRY_PTX, 75, text, packing)}), {"k", "t"});
  };
  const Told whole = read(0);
  CHECK_EQUAL(whole.why, "");
  CHECK(whole.kernels[0].size() > 200'000);
  CHECK_EQUAL(whole.kernels[1], "0+8");
  for (uint64_t packing : {uint64_t{ABI_FATBIN_LZ4}, uint64_t{ABI_FATBIN_ZSTD}}) {
    const Told packed = read(packing);
    CHECK_EQUAL(packed.why, "an image has more parameters than can be kept");
    CHECK_EQUAL(packed.kernels[0] + packed.kernels[1], "");
  }
}

// ---- loads -------------------------------------------------------------------------------------

namespace {

// Kernels of two parameters each, more than are described with a load. The fake driver reads the
// first line of each, and passes over the other.
std::string kernels(unsigned count, const std::string &in_image) {
  std::string text;
  for (unsigned i = 0; i < count; i++) {
    const std::string name = "kernel_" + std::to_string(i);
    text += "kernel " + name + " 8 4\n";
    if (!in_image.empty()) text += ".entry " + name + "(" + in_image + ") { ret; }\n";
  }
  return Guest::image(text);
}

const std::string kSame = ".param .u64 a, .param .u32 b";
constexpr unsigned kKernels = 20;

unsigned asked(const char *call) { return World::fake().calls(call); }

// Loads them, and returns the answer's list.
std::string list_of(World &w, uint32_t module, const std::string &image) {
  w.guest.send_image(image);
  const Answer answer =
      w.guest.call(WIRE_ModuleOpen, w.guest.open_command(module_handle(module), image));
  const auto &reply = answer.frame.as<wire_ModuleOpen_reply>();
  CHECK_EQUAL(reply.listed, kKernels);
  return answer.frame.tail<wire_ModuleOpen_reply>(reply.list_size);
}

}  // namespace

TEST(a_load_asks_the_driver_nothing_of_kernels_that_the_image_tells_of) {
  World w;
  const char *const loading[] = {"cuKernelGetParamInfo", "cuKernelGetFunction",
                                 "cuFuncGetAttribute"};
  unsigned before[3];
  for (int i = 0; i < 3; i++) before[i] = asked(loading[i]);
  const std::string list = list_of(w, 1, kernels(kKernels, kSame));
  // As by name, afterwards.
  wire_FunctionFind find{};
  find.module = module_handle(1);
  find.name_size = 8;
  const Answer found = w.guest.call(WIRE_FunctionFind, find, "kernel_7");
  for (int i = 0; i < 3; i++) CHECK_EQUAL(asked(loading[i]), before[i]);
  CHECK_EQUAL(found.frame.as<wire_FunctionFind_reply>().kernel, 7u);
  CHECK_EQUAL(found.frame.as<wire_FunctionFind_reply>().parameter_bytes, 12u);
  // The driver tells the same, where it has to be asked.
  CHECK(list == list_of(w, 2, kernels(kKernels, "")));
  CHECK_EQUAL(asked("cuKernelGetParamInfo"), before[0] + 3 * kKernels);
  CHECK(list == list_of(w, 3, kernels(kKernels, ".param .v2 .f32 a")));
  CHECK_EQUAL(asked("cuKernelGetParamInfo"), before[0] + 6 * kKernels);
}

TEST(the_driver_judges_what_an_image_tells) {
  World w;
  // The image tells of fewer bytes than the driver takes.
  list_of(w, 1, kernels(kKernels, ".param .u64 a"));
  w.guest.function(module_handle(1), function_handle(1), "kernel_3", 3);
  w.guest.launch(function_handle(1), 0, std::string(8, '\0'));
  CHECK_EQUAL(w.guest.synchronize().async, CUDA_ERROR_INVALID_VALUE);
  w.guest.launch(function_handle(1), 0, std::string(12, '\0'));
  CHECK_EQUAL(w.guest.synchronize().async, 0);
}
