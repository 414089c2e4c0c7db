// A loaded module: its text, its index, its variables, and its kernels, each translated when it
// is first wanted.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <unordered_map>

#include "device_heap.h"
#include "engine.h"
#include "parse/syntax.h"
#include "translate/code.h"
#include "translate/lower.h"

namespace softdev {

class ProgramImpl;

class KernelImpl final : public Kernel {
 public:
  KernelImpl(ProgramImpl &program, uint32_t function);
  const std::string &name() const override { return name_; }
  const std::vector<ParameterInfo> &parameters() const override { return parameters_; }
  uint32_t parameter_bytes() const override { return parameter_bytes_; }
  Status translate() override;
  const KernelAttributes &attributes() const override { return attributes_; }

  const Executable &executable() const { return *executable_; }
  ProgramImpl &program() const { return program_; }

 private:
  Status translate_now();

  ProgramImpl &program_;
  uint32_t function_;
  std::string name_;
  std::vector<ParameterInfo> parameters_;
  uint32_t parameter_bytes_ = 0;
  std::once_flag once_;
  Status status_;
  KernelAttributes attributes_;
  std::unique_ptr<Executable> executable_;
};

class ProgramImpl final : public Program {
 public:
  ProgramImpl(std::string text, uint64_t heap_bytes, bool managed_are_there)
      : text_(std::move(text)), heap_bytes_(heap_bytes), managed_are_there_(managed_are_there) {}
  Status load(const AllocateGlobal &allocate);

  Kernel *find_kernel(std::string_view name) override;
  std::vector<Kernel *> kernels() override;
  // nullptr when it is not the address of a kernel.
  Kernel *kernel_at(uint64_t address);
  const std::vector<Variable> &variables() const override { return variables_; }
  const std::vector<Reference> &references() const override { return references_; }

  bool has_heap() const override { return heap_.bytes() != 0; }
  bool uses_device_runtime() const override;

  std::string_view text() const { return text_; }
  // The line of a position in the text. The first call reads the whole text once.
  uint32_t line_at(size_t position);
  const ModuleSyntax &module() const { return module_; }
  uint64_t variable_address(uint32_t variable) const { return addresses_[variable]; }
  static uint64_t function_address(uint32_t function);
  // kNone when it is not the address of a function.
  static uint32_t function_at(uint64_t address);
  // Functions whose addresses initialisers hold.
  const std::set<uint32_t> &pointed_at() const { return pointed_at_; }
  // Functions whose addresses the code of any function takes, and may leave in memory. The first
  // call reads the whole text once.
  const std::set<uint32_t> &taken();
  DeviceHeap &heap() { return heap_; }
  // A zeroed block of memory for the barrier of a cooperative grid; 0 when there is none.
  uint64_t grid_workspace();

 private:
  Status place_variables(const AllocateGlobal &allocate);
  Status place_variables(const AllocateGlobal &allocate, Storage storage,
                         std::vector<uint32_t> *placed);
  Status initialise(uint32_t variable);
  Status place_extras(const AllocateGlobal &allocate);
  // Whether it declares such a function of the system and does not define it.
  template <class Test>
  bool wants(Test test) const;

  std::string text_;
  ModuleSyntax module_;
  std::vector<uint64_t> addresses_;  // by variable; 0 for those without one
  std::vector<Variable> variables_;
  std::vector<Reference> references_;
  std::vector<std::unique_ptr<KernelImpl>> kernels_;
  std::unordered_map<std::string_view, KernelImpl *> by_name_;
  std::set<uint32_t> pointed_at_;
  std::once_flag taken_once_;
  std::set<uint32_t> taken_;
  std::once_flag lines_once_;
  std::vector<uint32_t> lines_;  // line ends before each stretch of the text
  const uint64_t heap_bytes_;
  const bool managed_are_there_;
  DeviceHeap heap_;
  uint64_t workspaces_ = 0;
  std::atomic<uint32_t> next_workspace_{0};
};

}  // namespace softdev
