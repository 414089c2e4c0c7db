#include "translate/program.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "parse/index.h"
#include "parse/lexer.h"
#include "translate/builtins.h"

namespace softdev {
namespace {

enum : int { kOutOfMemory = 2, kInvalidPtx = 218, kUnsupportedVersion = 222 };
constexpr uint64_t kFunctionTag = uint64_t{0xf0} << 56;
constexpr uint32_t kWorkspaces = 64;
constexpr uint32_t kWorkspaceBytes = 64;
constexpr int kNewestVersion = 99;

Status error_at(int code, uint32_t line, const std::string &message) {
  return {code, false, "PTX line " + std::to_string(line) + ": " + message};
}

}  // namespace

// ---- loading

uint64_t ProgramImpl::function_address(uint32_t function) {
  return kFunctionTag | ((uint64_t{function} + 1) << 4);
}

uint32_t ProgramImpl::function_at(uint64_t address) {
  if ((address & kFunctionTag) != kFunctionTag || (address & 15) || (address << 8 >> 12) == 0)
    return kNone;
  return static_cast<uint32_t>((address << 8 >> 12) - 1);
}

Status ProgramImpl::load(const AllocateGlobal &allocate) {
  // Drivers pass PTX with its terminating zero counted.
  while (!text_.empty() && text_.back() == '\0') text_.pop_back();
  if (ParseError error = index_module(text_, &module_))
    return error_at(kInvalidPtx, error.line, error.message);
  if (module_.version > kNewestVersion)
    return {kUnsupportedVersion, false,
            "PTX version " + std::to_string(module_.version / 10) + "." +
                std::to_string(module_.version % 10) + " is newer than this device understands"};
  for (uint32_t i = 0; i < module_.functions.size(); ++i) {
    const FunctionSyntax &function = module_.functions[i];
    if (!function.entry || !function.body) continue;
    kernels_.push_back(std::make_unique<KernelImpl>(*this, i));
    by_name_[function.name] = kernels_.back().get();
  }
  if (Status status = place_variables(allocate); !status.ok()) return status;
  return place_extras(allocate);
}

namespace {

bool is_in(const VariableSyntax &variable, Storage storage) {
  if (variable.is_extern) return false;
  if (storage == Storage::kConstant) return variable.space == Space::Constant;
  return variable.space == Space::Global && variable.managed == (storage == Storage::kManaged);
}

}  // namespace

// All variables of one kind, one behind the other in one allocation.
Status ProgramImpl::place_variables(const AllocateGlobal &allocate, Storage storage,
                                    std::vector<uint32_t> *placed) {
  uint64_t bytes = 0, align = 256;
  const size_t first = placed->size();
  for (uint32_t i = 0; i < module_.variables.size(); ++i) {
    const VariableSyntax &variable = module_.variables[i];
    if (!is_in(variable, storage)) continue;
    align = std::max<uint64_t>(align, variable.align);
    bytes = (bytes + variable.align - 1) / variable.align * variable.align;
    addresses_[i] = bytes;
    bytes += variable.size;
    placed->push_back(i);
    if (bytes > (uint64_t{1} << 46)) return {kOutOfMemory, false, "the variables are too large"};
  }
  if (placed->size() == first) return {};
  uint64_t base = allocate(std::max<uint64_t>(bytes, 1), align, storage);
  if (base == 0)
    return {kOutOfMemory, false,
            "no memory for " + std::to_string(bytes) + " bytes of module variables"};
  for (size_t i = first; i < placed->size(); ++i) addresses_[(*placed)[i]] += base;
  return {};
}

Status ProgramImpl::place_variables(const AllocateGlobal &allocate) {
  addresses_.assign(module_.variables.size(), 0);
  std::vector<uint32_t> placed;
  for (Storage storage : {Storage::kGlobal, Storage::kManaged, Storage::kConstant})
    if (Status status = place_variables(allocate, storage, &placed); !status.ok()) return status;
  std::sort(placed.begin(), placed.end());  // in order of the text
  for (uint32_t i : placed) {
    const VariableSyntax &variable = module_.variables[i];
    if (variable.opaque != Opaque::None) {
      // What a sampler is to be is asked for where it is used, which is refused.
      if (variable.initialiser && variable.opaque != Opaque::Sampler)
        return {kInvalidPtx, false,
                "initialiser of " + std::string(variable.name) +
                    ": those of textures and surfaces are not supported"};
      bool texture = variable.opaque == Opaque::Texture;
      if (texture || variable.opaque == Opaque::Surface)
        references_.push_back({std::string(variable.name), addresses_[i],
                               texture ? ImageView::Kind::Texture : ImageView::Kind::Surface});
      continue;
    }
    Variable out;
    out.name = variable.name;
    out.address = addresses_[i];
    out.size = variable.size;
    out.constant = variable.space == Space::Constant;
    out.managed = variable.managed;
    variables_.push_back(std::move(out));
  }
  for (uint32_t i : placed) {
    const VariableSyntax &variable = module_.variables[i];
    if (!variable.initialiser || variable.opaque != Opaque::None ||
        (variable.managed && managed_are_there_))
      continue;
    if (Status status = initialise(i); !status.ok()) return status;
  }
  return {};
}

Status ProgramImpl::initialise(uint32_t index) {
  const VariableSyntax &variable = module_.variables[index];
  auto *image = reinterpret_cast<uint8_t *>(addresses_[index]);
  std::vector<Relocation> relocations;
  if (ParseError error = read_initialiser(text_, variable, image, &relocations))
    return error_at(kInvalidPtx, error.line,
                    "initialiser of " + std::string(variable.name) + ": " + error.message);
  for (const Relocation &relocation : relocations) {
    uint64_t value = 0;
    auto other = module_.variable_by_name.find(relocation.symbol);
    auto function = module_.function_by_name.find(relocation.symbol);
    if (other != module_.variable_by_name.end() && addresses_[other->second]) {
      value = addresses_[other->second] + static_cast<uint64_t>(relocation.addend);
    } else if (function != module_.function_by_name.end()) {
      value = function_address(function->second);
      pointed_at_.insert(function->second);
    } else {
      return {kInvalidPtx, false,
              "initialiser of " + std::string(variable.name) + ": unknown name '" +
                  std::string(relocation.symbol) + "'"};
    }
    if (relocation.mask != ~uint64_t{0}) {
      value &= relocation.mask;
      if (relocation.mask) value >>= __builtin_ctzll(relocation.mask);
    }
    std::memcpy(image + relocation.at, &value, relocation.size);
  }
  return {};
}

template <class Test>
bool ProgramImpl::wants(Test test) const {
  for (const FunctionSyntax &function : module_.functions) {
    if (function.body || function.entry) continue;
    const BuiltinFunction *builtin = find_builtin(function.name);
    if (builtin && test(*builtin)) return true;
  }
  return false;
}

bool ProgramImpl::uses_device_runtime() const {
  return wants([](const BuiltinFunction &function) { return function.of_device_runtime(); });
}

// Memory that a few modules need besides their variables.
Status ProgramImpl::place_extras(const AllocateGlobal &allocate) {
  if (wants([](const BuiltinFunction &function) {
        return function.builtin == Builtin::Malloc || function.builtin == Builtin::RuntimeMalloc;
      })) {
    uint64_t base = allocate(heap_bytes_, 256, Storage::kGlobal);
    if (base == 0) return {kOutOfMemory, false, "no memory for the heap of device malloc"};
    heap_.place(base, heap_bytes_);
  }
  if (memmem(text_.data(), text_.size(), "%envreg", 7)) {
    workspaces_ = allocate(kWorkspaces * kWorkspaceBytes, 256, Storage::kGlobal);
    if (workspaces_ == 0) return {kOutOfMemory, false, "no memory for grid barriers"};
  }
  return {};
}

uint32_t ProgramImpl::line_at(size_t position) {
  constexpr size_t kStretch = 1 << 14;
  std::string_view text = text_;
  std::call_once(lines_once_, [&] {
    uint32_t ends = 0;
    for (size_t at = 0; at < text.size(); at += kStretch) {
      lines_.push_back(ends);
      ends += count_lines(text.substr(at, kStretch));
    }
  });
  if (lines_.empty()) return 1;
  size_t stretch = std::min(position / kStretch, lines_.size() - 1);
  size_t begin = stretch * kStretch;
  return 1 + lines_[stretch] + count_lines(text.substr(begin, position - begin));
}

const std::set<uint32_t> &ProgramImpl::taken() {
  std::call_once(taken_once_, [this] {
    for (const FunctionSyntax &function : module_.functions) {
      if (!function.body) continue;
      Lexer lexer(std::string_view(text_).substr(function.body, function.body_end - function.body));
      bool moves = false;  // between "mov" and the end of its statement
      for (Token token = lexer.next(); token.kind != Tok::End; token = lexer.next()) {
        if (token.is(';')) moves = false;
        if (token.word("mov")) moves = true;
        if (!moves || token.kind != Tok::Word) continue;
        const auto found = module_.function_by_name.find(token.text);
        if (found != module_.function_by_name.end()) taken_.insert(found->second);
      }
    }
  });
  return taken_;
}

uint64_t ProgramImpl::grid_workspace() {
  if (workspaces_ == 0) return 0;
  uint64_t address = workspaces_ + (next_workspace_++ % kWorkspaces) * kWorkspaceBytes;
  std::memset(reinterpret_cast<void *>(address), 0, kWorkspaceBytes);
  return address;
}

Kernel *ProgramImpl::find_kernel(std::string_view name) {
  auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : found->second;
}

Kernel *ProgramImpl::kernel_at(uint64_t address) {
  const uint32_t function = function_at(address);
  if (function >= module_.functions.size() || !module_.functions[function].entry) return nullptr;
  return find_kernel(module_.functions[function].name);
}

std::vector<Kernel *> ProgramImpl::kernels() {
  std::vector<Kernel *> all;
  for (const auto &kernel : kernels_) all.push_back(kernel.get());
  return all;
}

std::unique_ptr<Program> Program::load(std::string ptx, const AllocateGlobal &allocate,
                                       Status *status, uint64_t heap_bytes,
                                       bool managed_are_there) {
  auto program = std::make_unique<ProgramImpl>(std::move(ptx), heap_bytes, managed_are_there);
  *status = program->load(allocate);
  if (!status->ok()) return nullptr;
  return program;
}

}  // namespace softdev
