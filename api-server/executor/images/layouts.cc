// Machine code: `.nv.info.NAME` has records on the kernel NAME. Each is a byte that says how what
// follows is given, one that says what it is about, and two that are its value or its size.
#include "images/layouts.h"

#include <elf.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <unordered_map>

#include "images/code.h"
#include "images/ptx_words.h"

namespace outboard {

namespace {

constexpr uint32_t kMostBytes = 64 << 10;  // of a kernel's parameters
// Parameters of all kernels of an image. They are kept as long as its module, for which the image
// counts: of one that is packed not many times as much is kept.
constexpr uint64_t kMostParameters = 4 << 20, kFewParameters = 4096;
constexpr uint64_t kBytesOfImage = 4;  // for each: what is kept is twice that
static_assert(2 * kBytesOfImage == sizeof(wire_parameter));
// Bytes of names of sections that are looked at, for each byte of a file: some names are the end of
// others, but what many sections name by the same bytes would be looked through without an end.
constexpr uint64_t kMostNameBytes = 4;

constexpr uint16_t kCudaMachine = 190;             // EM_CUDA
constexpr uint8_t kOldestAbi = 7, kNewestAbi = 8;  // 8: since CUDA 13
// What the place of a kernel's parameters in the constant bank is a multiple of, on every device. A
// parameter with a greater alignment has it in the bank, so its place among the others is the
// device's: behind one byte lies what is aligned to 32 bytes at 16 on 9.0, and at 32 on 12.0.
constexpr uint32_t kBankAlign = 16;
constexpr std::string_view kRecordsOfKernel = ".nv.info.";

enum Format : uint8_t { kNoValue = 1, kByte = 2, kHalf = 3, kSized = 4 };
enum Record : uint8_t {
  kBank = 0x0a,  // u32 symbol, u16 offset, u16 bytes of all parameters
  kParameter = 0x17,
  kBankBytes = 0x19,  // bytes of all parameters
  kLargeParameter = 0x45,
};

template <class T>
T value_at(CodeBytes bytes, size_t offset) {
  T value;
  memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

// The next parameter, which must lie behind the others. False when it does not.
bool append(Layout &layout, uint64_t offset, uint64_t size) {
  if (offset < layout.bytes || size == 0 || size > kMostBytes || offset > kMostBytes - size)
    return false;
  layout.parameters.push_back({static_cast<uint32_t>(offset), static_cast<uint32_t>(size)});
  layout.bytes = static_cast<uint32_t>(offset + size);
  return true;
}

// ---- machine code ------------------------------------------------------------------------------

// Nothing where the records are damaged, or do not tell all.
std::optional<Layout> from_records(CodeBytes records) {
  struct Parameter {
    uint16_t place, offset;
    uint32_t size;
  };
  std::vector<Parameter> parameters;
  std::optional<uint32_t> all;  // bytes
  while (!records.empty()) {
    if (records.size() < 4) return std::nullopt;
    const uint8_t format = records[0], record = records[1];
    const uint16_t value = value_at<uint16_t>(records, 2);
    records = records.subspan(4);
    if (format < kNoValue || format > kSized) return std::nullopt;
    const size_t size = format == kSized ? value : 0;
    if (size > records.size()) return std::nullopt;
    const CodeBytes data = records.first(size);
    records = records.subspan(size);
    if (record == kBankBytes && format == kHalf) all = value;
    if (record == kBank && size >= 8) all = value_at<uint16_t>(data, 6);
    if (record != kParameter && record != kLargeParameter) continue;
    if (size < 12) return std::nullopt;
    const uint32_t word = value_at<uint32_t>(data, 8);
    parameters.push_back({value_at<uint16_t>(data, 4), value_at<uint16_t>(data, 6),
                          record == kParameter ? word >> 18 : word & 0xffffff});
  }
  std::sort(parameters.begin(), parameters.end(),
            [](const Parameter &a, const Parameter &b) { return a.place < b.place; });
  Layout layout;
  for (const Parameter &parameter : parameters) {
    if (parameter.place != layout.parameters.size()) return std::nullopt;
    if (!append(layout, parameter.offset, parameter.size)) return std::nullopt;
  }
  // A compiler may leave the parameters out, and say only how many bytes they are.
  if (parameters.empty() ? all.value_or(0) != 0 : layout.bytes > all.value_or(kMostBytes))
    return std::nullopt;
  return layout;
}

// ---- PTX ---------------------------------------------------------------------------------------

// 0 where it is no number, or one in another form than compilers write.
uint32_t number(std::string_view word) {
  uint32_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  const bool whole = error == std::errc() && end == word.data() + word.size();
  return whole && word[0] != '0' ? value : 0;
}

// Bytes of a type that a parameter may have; 0 where it is none that is known.
uint32_t bytes_of(std::string_view type) {
  struct Type {
    std::string_view name;
    uint32_t bytes;
  };
  static constexpr Type kTypes[] = {
      {".u64", 8}, {".u32", 4}, {".b8", 1},  {".f32", 4},   {".f64", 8}, {".s32", 4},
      {".s64", 8}, {".u16", 2}, {".u8", 1},  {".s16", 2},   {".s8", 1},  {".b64", 8},
      {".b32", 4}, {".b16", 2}, {".f16", 2}, {".b128", 16},
  };
  for (const Type &known : kTypes)
    if (known.name == type) return known.bytes;
  return 0;
}

bool is_space(std::string_view word) {
  return word == ".global" || word == ".const" || word == ".shared" || word == ".local" ||
         word == ".param";
}

// A parameter, from behind `.param` to the sign behind it, which is left in *word:
// `.align 8 .b8 a[24]`, `.u64 .ptr .global .align 4 b`. False where it is not understood.
bool parameter(PtxLexer &lexer, Layout &layout, std::string_view *word) {
  uint32_t unit = 0, align = 0;
  uint64_t count = 1;
  bool points = false, named = false;
  for (*word = lexer.next(); *word != "," && *word != ")"; *word = lexer.next()) {
    if (word->empty()) return false;
    if (*word == ".align") {
      const uint32_t given = number(lexer.next());
      if (!std::has_single_bit(given)) return false;
      if (!points) align = given;  // otherwise it is of what it points to
    } else if (*word == ".ptr") {
      points = true;
    } else if (points && is_space(*word)) {
      continue;
    } else if (*word == "[") {
      count *= number(lexer.next());
      if (count > kMostBytes || lexer.next() != "]") return false;
    } else if (word->front() == '.') {
      if (unit) return false;
      unit = bytes_of(*word);
      if (!unit) return false;
    } else {
      if (named || !is_ptx_word(word->front())) return false;
      named = true;
    }
  }
  if (!named || !unit || (align && align < unit) || align > kBankAlign) return false;
  const uint64_t boundary = std::max(align, unit);
  return append(layout, (layout.bytes + boundary - 1) & ~(boundary - 1), unit * count);
}

// Parameters from behind the opening parenthesis to the closing one. They lie one behind the other,
// each at its own or its type's alignment.
std::optional<Layout> from_text(PtxLexer &lexer) {
  Layout layout;
  std::string_view word = lexer.next();
  while (word != ")") {
    if (word != ".param" || !parameter(lexer, layout, &word)) return std::nullopt;
    if (word == "," && (word = lexer.next()) == ")") return std::nullopt;
  }
  return layout;
}

// ------------------------------------------------------------------------------------------------

class LayoutReader final : public CodeVisitor {
 public:
  LayoutReader(const Image &image, std::span<const std::string_view> names, Capability capability,
               std::string *why)
      : capability_(static_cast<uint32_t>(capability.major * 10 + capability.minor)),
        most_(std::clamp(image.size() / kBytesOfImage, kFewParameters, kMostParameters)),
        why_(why),
        kernels_(names.size()) {
    places_.reserve(names.size());
    for (size_t i = 0; i < names.size(); i++) places_.try_emplace(names[i], i);
  }

  bool wants(const abi_fatbin_entry &entry) override {
    const bool older = entry.arch <= capability_;
    return older && (entry.kind == ABI_ENTRY_PTX || entry.arch / 10 == capability_ / 10);
  }
  bool ptx(std::string_view text) override;
  bool machine_code(CodeBytes file) override;

  std::vector<std::optional<Layout>> layouts() {
    std::vector<std::optional<Layout>> layouts;
    layouts.reserve(kernels_.size());
    for (Kernel &kernel : kernels_) layouts.push_back(std::move(kernel.layout));
    return layouts;
  }

 private:
  struct Kernel {
    std::optional<Layout> layout;
    bool doubtful = false;
  };

  // The kernel of that name, if it is one of those that are asked for.
  Kernel *find(std::string_view name) {
    const auto found = places_.find(name);
    return found == places_.end() ? nullptr : &kernels_[found->second];
  }
  // Takes what was found for a kernel; nothing: it is there, but was not understood.
  bool take(Kernel &kernel, std::optional<Layout> layout);
  bool fail(const char *why) {
    *why_ = why;
    return false;
  }

  const uint32_t capability_;
  const uint64_t most_;  // parameters
  std::string *const why_;
  std::unordered_map<std::string_view, size_t> places_;
  std::vector<Kernel> kernels_;
  uint64_t parameters_ = 0;
};

bool LayoutReader::take(Kernel &kernel, std::optional<Layout> layout) {
  if (kernel.doubtful) return true;
  if (!layout || (kernel.layout && !(*kernel.layout == *layout))) {
    kernel = {std::nullopt, true};
  } else if (!kernel.layout) {
    parameters_ += layout->parameters.size();
    if (parameters_ > most_) return fail("an image has more parameters than can be kept");
    layout->parameters.shrink_to_fit();
    kernel.layout = std::move(layout);
  }
  return true;
}

bool LayoutReader::ptx(std::string_view text) {
  PtxLexer lexer(text);
  for (std::string_view word = lexer.next(); !word.empty(); word = lexer.next()) {
    if (word == "{") lexer.skip_block();
    if (word != ".entry") continue;
    Kernel *const kernel = find(lexer.next());
    word = lexer.next();
    std::optional<Layout> layout;
    if (word == "(")
      layout = from_text(lexer);
    else
      layout.emplace();
    if (kernel && !take(*kernel, std::move(layout))) return false;
    if (word == "{") lexer.skip_block();
  }
  return true;
}

bool LayoutReader::machine_code(CodeBytes file) {
  const auto *start = elf_at<Elf64_Ehdr>(file, 0);
  if (!start) return fail("machine code is cut off");
  const Elf64_Ehdr head = elf_copy(start);
  const uint8_t abi = head.e_ident[EI_ABIVERSION];
  if (head.e_machine != kCudaMachine || head.e_ident[EI_CLASS] != ELFCLASS64 || abi < kOldestAbi ||
      abi > kNewestAbi || head.e_shentsize != sizeof(Elf64_Shdr))
    return fail("machine code is of a form that is not known");
  const auto *first = elf_at<Elf64_Shdr>(file, head.e_shoff);
  if (!first) return fail("the sections of machine code lie outside of it");
  // Files with very many sections keep their numbers in the first one.
  const Elf64_Shdr numbers = elf_copy(first);
  const uint64_t count = head.e_shnum ? head.e_shnum : numbers.sh_size;
  const uint64_t names = head.e_shstrndx == SHN_XINDEX ? numbers.sh_link : head.e_shstrndx;
  const auto *sections = elf_at<Elf64_Shdr>(file, head.e_shoff, count);
  if (!sections || names >= count) return fail("the sections of machine code lie outside of it");
  const Elf64_Shdr texts = elf_copy(sections, names);
  const auto *text = elf_at<char>(file, texts.sh_offset, texts.sh_size);
  if (!text) return fail("the names of sections lie outside of machine code");
  uint64_t left = kMostNameBytes * file.size(), records_left = file.size();
  for (uint64_t i = 0; i < count; i++) {
    const Elf64_Shdr section = elf_copy(sections, i);
    if (section.sh_type == SHT_NOBITS || section.sh_name >= texts.sh_size) continue;
    const std::string_view rest(text + section.sh_name, texts.sh_size - section.sh_name);
    if (!rest.starts_with(kRecordsOfKernel)) continue;
    const std::string_view name(rest.data() + kRecordsOfKernel.size(),
                                strnlen(rest.data(), rest.size()) - kRecordsOfKernel.size());
    if (name.size() > left) return fail("names of sections of machine code overlap");
    left -= name.size();
    Kernel *const kernel = find(name);
    if (!kernel) continue;
    const auto *records = elf_at<uint8_t>(file, section.sh_offset, section.sh_size);
    if (!records) return fail("the sections of machine code lie outside of it");
    if (section.sh_size > records_left) return fail("sections of machine code overlap");
    records_left -= section.sh_size;
    if (!take(*kernel, from_records({records, section.sh_size}))) return false;
  }
  return true;
}

}  // namespace

bool operator==(const Layout &a, const Layout &b) {
  return a.bytes == b.bytes &&
         std::equal(a.parameters.begin(), a.parameters.end(), b.parameters.begin(),
                    b.parameters.end(), [](const wire_parameter &one, const wire_parameter &other) {
                      return one.offset == other.offset && one.size == other.size;
                    });
}

std::vector<std::optional<Layout>> read_layouts(const Image &image,
                                                std::span<const std::string_view> names,
                                                Capability capability, std::string *why) {
  LayoutReader reader(image, names, capability, why);
  if (!visit_code(image, reader, why)) return std::vector<std::optional<Layout>>(names.size());
  return reader.layouts();
}

}  // namespace outboard
