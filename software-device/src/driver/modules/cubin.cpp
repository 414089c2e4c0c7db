// The format is not documented. What is known of it is what compilers write for known kernels:
// - a kernel is a symbol of a function with a flag; its code is in `.text.NAME`;
// - `.nv.info.NAME` has records on it, `.nv.info` those that name a function by its symbol;
// - `.nv.shared.NAME` is as large as its shared memory, `.nv.global`, `.nv.global.init` and
//   `.nv.constant3` have the variables.
#include "modules/cubin.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "modules/elf_file.h"

namespace softdev::driver {
namespace {

constexpr uint8_t kOldAbi = 7;                         // of files for devices of before CUDA 13
constexpr uint8_t kOfEntry = 0x10, kOfManaged = 0x04;  // st_other
constexpr uint32_t kMostParameterBytes = 64 << 10;
constexpr uint32_t kMostParameters = 8 << 10;
constexpr uint64_t kMostVariableBytes = uint64_t{1} << 40;
constexpr size_t kMostNames = 4;            // bytes of names of symbols, for each byte of the file
constexpr uint32_t kMostStack = 512 << 10;  // bytes of local memory of a thread
constexpr uint32_t kMostThreads = 1024;
// In front of a block's own shared memory, from compute capability 9.0 on.
constexpr uint32_t kReservedShared = 1 << 10;

// Records: how long what follows is, and what it is about.
constexpr uint8_t kWithSize = 4;
enum Record : uint8_t {
  kMostThreadsOfBlock = 0x05,
  kThreadsOfBlock = 0x10,
  kFrame = 0x11,
  kStack = 0x12,  // with what it calls
  kParameter = 0x17,
  kRegisters = 0x2f,
  kCluster = 0x3d,
  kExplicitCluster = 0x3e,
  kMostOfCluster = 0x3f,
  kLargeParameter = 0x45,
};

// Calls visit(kind, data) for each record of a section of them. False when it is damaged.
template <class Visit>
bool each_record(Bytes section, Visit visit) {
  for (size_t at = 0; at < section.size();) {
    uint8_t head[4];
    if (!read(section, at, &head)) return false;
    at += sizeof head;
    const size_t size = head[0] == kWithSize ? static_cast<size_t>(head[2] | head[3] << 8) : 0;
    if (!within(at, size, section.size())) return false;
    if (!visit(head[1], section.subspan(at, size))) return false;
    at += size;
  }
  return true;
}

uint32_t word(Bytes data, size_t index) {
  uint32_t value = 0;
  read(data, index * sizeof value, &value);
  return value;
}

struct Section {
  std::string_view name;
  Elf64_Shdr header;
};

class Reader {
 public:
  Reader(Bytes file, Cubin *out) : file_(file), out_(out) {}

  std::string run() {
    if (std::string bad = read_sections(); !bad.empty()) return bad;
    if (!symbols_) return {};  // it has no code
    if (std::string bad = read_symbols(); !bad.empty()) return bad;
    return read_common_records();
  }

 private:
  std::string read_sections() {
    Elf64_Ehdr header;
    if (!read_header(file_, &header)) return "it is not a 64-bit ELF file";
    return each_section(file_, header, [&](std::string_view name, const Elf64_Shdr &section) {
      if (section.sh_type != SHT_NOBITS &&
          !within(section.sh_offset, section.sh_size, file_.size()))
        return "its section " + std::string(name) + " is cut off";
      if (section.sh_type == SHT_SYMTAB) symbols_ = sections_.size();
      if (section.sh_type == SHT_SYMTAB_SHNDX) far_ = sections_.size();
      by_name_.try_emplace(name, sections_.size());
      sections_.push_back({name, section});
      return std::string();
    });
  }

  Bytes bytes(size_t section) const {
    const Elf64_Shdr &header = sections_[section].header;
    if (header.sh_type == SHT_NOBITS) return {};
    return file_.subspan(header.sh_offset, header.sh_size);
  }
  const Section *named(const std::string &name) const {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : &sections_[found->second];
  }

  std::string read_symbols() {
    const Bytes table = bytes(symbols_);
    const uint64_t link = sections_[symbols_].header.sh_link;
    if (link >= sections_.size()) return "its table of symbols is damaged";
    const Bytes names = bytes(link);
    for (size_t i = 0; i < table.size() / sizeof(Elf64_Sym); i++) {
      Elf64_Sym symbol;
      read(table, i * sizeof symbol, &symbol);
      const std::string_view name = string_at(names, symbol.st_name);
      if (name.size() > names_left_) return "its names of symbols overlap";
      names_left_ -= name.size();
      if (name.empty() || symbol.st_shndx == SHN_UNDEF) continue;
      std::string bad;
      if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && (symbol.st_other & kOfEntry))
        bad = read_kernel(name, i);
      else if (ELF64_ST_TYPE(symbol.st_info) == STT_OBJECT)
        bad = read_variable(name, symbol, section_of(symbol, i));
      if (!bad.empty()) return std::string(name) + ": " + bad;
    }
    return {};
  }

  size_t section_of(const Elf64_Sym &symbol, size_t index) const {
    if (symbol.st_shndx != SHN_XINDEX) return symbol.st_shndx;
    return far_ ? word(bytes(far_), index) : SHN_UNDEF;
  }

  // ---- kernels

  std::string read_kernel(std::string_view name, size_t symbol) {
    CubinKernel kernel;
    kernel.name = name;
    kernel.attributes.ptx_version = static_cast<int>(out_->arch);
    if (const Section *info = named(".nv.info." + kernel.name)) {
      std::string bad = read_records(bytes(static_cast<size_t>(info - sections_.data())), &kernel);
      if (!bad.empty()) return bad;
    }
    if (const Section *shared = named(".nv.shared." + kernel.name)) {
      const uint64_t reserved = out_->arch >= 90 ? kReservedShared : 0;
      if (shared->header.sh_size > UINT32_MAX) return "its shared memory is too large";
      kernel.attributes.static_shared =
          static_cast<uint32_t>(std::max(shared->header.sh_size, reserved) - reserved);
    }
    kernel_by_symbol_[symbol] = out_->kernels.size();
    out_->kernels.push_back(std::move(kernel));
    return {};
  }

  static std::string read_records(Bytes records, CubinKernel *kernel) {
    KernelAttributes &is = kernel->attributes;
    std::map<uint32_t, ParameterInfo> parameters;
    const bool whole = each_record(records, [&](uint8_t record, Bytes data) {
      switch (record) {
        case kParameter:
        case kLargeParameter: {
          if (data.size() < 12) return false;
          const uint32_t place = word(data, 1), size = word(data, 2);
          return parameters
              .try_emplace(place & 0xffff,
                           ParameterInfo{place >> 16, record == kParameter ? size >> 18 : size})
              .second;
        }
        case kMostThreadsOfBlock:
        case kThreadsOfBlock: {
          uint64_t threads = 1;
          for (size_t i = 0; i < 3; i++) {
            const uint32_t count = word(data, i);
            if (count == 0 || count > kMostThreads) return false;
            threads *= count;
            if (record == kThreadsOfBlock) is.required_threads[i] = count;
          }
          is.max_threads = static_cast<uint32_t>(std::min<uint64_t>(threads, kMostThreads));
          return true;
        }
        case kCluster:
          for (size_t i = 0; i < 3; i++) {
            is.required_cluster[i] = word(data, i);
            if (is.required_cluster[i] == 0) return false;
          }
          return true;
        case kExplicitCluster:
          is.cluster_must_be_set = true;
          return true;
        case kMostOfCluster:
          is.max_cluster_blocks = word(data, 0);
          return data.size() >= 4;
        default:
          return true;
      }
    });
    if (!whole) return "the records on it are damaged";
    if (is.required_cluster[0]) is.cluster_must_be_set = false;
    return take_parameters(parameters, kernel);
  }

  // In the order in which a launch names them.
  static std::string take_parameters(const std::map<uint32_t, ParameterInfo> &parameters,
                                     CubinKernel *kernel) {
    if (parameters.size() > kMostParameters) return "it has too many parameters";
    uint64_t end = 0;
    for (const auto &[place, parameter] : parameters) {
      if (place != kernel->parameters.size()) return "not all of its parameters are described";
      if (parameter.offset < end) return "its parameters overlap";
      end = uint64_t{parameter.offset} + parameter.size;
      if (end > kMostParameterBytes) return "its parameters are too large";
      kernel->parameters.push_back(parameter);
    }
    kernel->parameter_bytes = static_cast<uint32_t>(end);
    return {};
  }

  std::string read_common_records() {
    const Section *info = named(".nv.info");
    if (!info) return {};
    std::map<size_t, uint32_t> frames;
    const bool whole = each_record(
        bytes(static_cast<size_t>(info - sections_.data())), [&](uint8_t record, Bytes data) {
          const auto found = kernel_by_symbol_.find(word(data, 0));
          if (data.size() < 8 || found == kernel_by_symbol_.end()) return true;
          KernelAttributes &is = out_->kernels[found->second].attributes;
          const uint32_t value = word(data, 1);
          if (record == kRegisters) is.registers = std::min<uint32_t>(value, 255);
          // Of a kernel whose stack has no bound, what its own frame takes.
          if ((record == kStack || record == kFrame) && value <= kMostStack)
            is.local_bytes = std::max(is.local_bytes, value);
          return true;
        });
    return whole ? std::string() : "the records on its functions are damaged";
  }

  // ---- variables

  std::string read_variable(std::string_view name, const Elf64_Sym &symbol, size_t index) {
    if (index >= sections_.size()) return {};
    const auto &[section, header] = sections_[index];
    const bool constant = section == ".nv.constant3";
    if (!constant && section != ".nv.global" && section != ".nv.global.init") return {};
    if (header.sh_size > kMostVariableBytes ||
        !within(symbol.st_value, symbol.st_size, header.sh_size))
      return "it lies outside of its section";
    CubinVariable variable;
    variable.name = name;
    variable.size = symbol.st_size;
    // As much as its place in an aligned section shows.
    const uint64_t place = symbol.st_value | std::max<uint64_t>(header.sh_addralign, 1) | 4096;
    variable.align = place & (~place + 1);
    variable.storage = constant                         ? Storage::kConstant
                       : (symbol.st_other & kOfManaged) ? Storage::kManaged
                                                        : Storage::kGlobal;
    if (header.sh_type != SHT_NOBITS)
      variable.initial = bytes(index).subspan(symbol.st_value, symbol.st_size);
    out_->variables.push_back(std::move(variable));
    return {};
  }

  const Bytes file_;
  Cubin *const out_;
  std::vector<Section> sections_;
  std::map<std::string_view, size_t, std::less<>> by_name_;
  size_t symbols_ = 0, far_ = 0;  // places of sections; 0: there is none
  // Names are copied: what many symbols name by the same bytes would take memory without an end.
  size_t names_left_ = kMostNames * file_.size();
  std::map<size_t, size_t> kernel_by_symbol_;
};

}  // namespace

uint32_t cubin_arch(Bytes file) {
  Elf64_Ehdr header;
  if (!read_header(file, &header) || header.e_machine != kCudaMachine) return 0;
  const bool old = header.e_ident[EI_ABIVERSION] <= kOldAbi;
  return (old ? header.e_flags : header.e_flags >> 8) & 0xff;
}

bool is_cubin(Bytes file) {
  Elf64_Ehdr header;
  return cubin_arch(file) != 0 && read_header(file, &header) && header.e_type == ET_EXEC;
}

std::string read_cubin(Bytes file, Cubin *cubin) {
  *cubin = {};
  if (!is_cubin(file)) return "it is no cubin";
  cubin->arch = cubin_arch(file);
  return Reader(file, cubin).run();
}

}  // namespace softdev::driver
