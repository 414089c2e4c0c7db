#include "modules/empty_program.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "cuda_driver.h"
#include "modules/cubin.h"

namespace softdev::driver {
namespace {

class EmptyKernel final : public Kernel {
 public:
  explicit EmptyKernel(CubinKernel is) : is_(std::move(is)) {}
  const std::string &name() const override { return is_.name; }
  const std::vector<ParameterInfo> &parameters() const override { return is_.parameters; }
  uint32_t parameter_bytes() const override { return is_.parameter_bytes; }
  Status translate() override { return {}; }
  const KernelAttributes &attributes() const override { return is_.attributes; }

 private:
  const CubinKernel is_;
};

class EmptyProgram final : public Program {
 public:
  // False when there is no memory for the variables.
  bool load(Cubin &cubin, const AllocateGlobal &allocate, bool managed_are_there) {
    for (CubinKernel &kernel : cubin.kernels)
      kernels_.push_back(std::make_unique<EmptyKernel>(std::move(kernel)));
    for (const auto &kernel : kernels_) by_name_.try_emplace(kernel->name(), kernel.get());
    for (Storage storage : {Storage::kGlobal, Storage::kManaged, Storage::kConstant})
      if (!place(cubin, storage, allocate, storage == Storage::kManaged && managed_are_there))
        return false;
    return true;
  }

  Kernel *find_kernel(std::string_view name) override {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : found->second;
  }
  std::vector<Kernel *> kernels() override {
    std::vector<Kernel *> all;
    for (const auto &kernel : kernels_) all.push_back(kernel.get());
    return all;
  }
  const std::vector<Variable> &variables() const override { return variables_; }
  bool has_heap() const override { return false; }
  bool uses_device_runtime() const override { return false; }
  const std::vector<Reference> &references() const override { return references_; }

 private:
  // All variables of one kind, one behind the other in one allocation.
  bool place(const Cubin &cubin, Storage storage, const AllocateGlobal &allocate, bool are_there) {
    uint64_t bytes = 0;
    const size_t first = variables_.size();
    std::vector<Bytes> initial;
    for (const CubinVariable &variable : cubin.variables) {
      if (variable.storage != storage) continue;
      bytes = (bytes + variable.align - 1) & ~(variable.align - 1);
      variables_.push_back({variable.name, bytes, variable.size, storage == Storage::kConstant,
                            storage == Storage::kManaged});
      initial.push_back(variable.initial);
      bytes += variable.size;
      if (bytes > kMostBytes) return false;
    }
    if (initial.empty()) return true;
    const uint64_t base = allocate(std::max<uint64_t>(bytes, 1), kMostAlign, storage);
    if (base == 0) return false;
    for (size_t i = 0; i < initial.size(); i++) {
      Variable &variable = variables_[first + i];
      variable.address += base;
      if (!are_there && !initial[i].empty())
        memcpy(reinterpret_cast<void *>(variable.address), initial[i].data(), initial[i].size());
    }
    return true;
  }

  static constexpr uint64_t kMostAlign = 4096;  // of a CubinVariable
  static constexpr uint64_t kMostBytes = uint64_t{1} << 46;
  std::vector<std::unique_ptr<EmptyKernel>> kernels_;
  std::map<std::string_view, Kernel *, std::less<>> by_name_;
  std::vector<Variable> variables_;
  std::vector<Reference> references_;
};

}  // namespace

std::unique_ptr<Program> empty_program(const std::string &bytes, const AllocateGlobal &allocate,
                                       bool managed_are_there, Status *status) {
  Cubin cubin;
  const Bytes file(reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size());
  if (const std::string bad = read_cubin(file, &cubin); !bad.empty()) {
    *status = {CUDA_ERROR_INVALID_IMAGE, false, "the machine code is damaged: " + bad};
    return nullptr;
  }
  auto program = std::make_unique<EmptyProgram>();
  if (!program->load(cubin, allocate, managed_are_there)) {
    *status = {CUDA_ERROR_OUT_OF_MEMORY, false, "no memory for the variables of machine code"};
    return nullptr;
  }
  *status = {};
  return program;
}

}  // namespace softdev::driver
