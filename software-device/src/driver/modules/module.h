// Modules, libraries, and the functions in them.
//
// A Library belongs to no context; it becomes an Instance in each context that uses it: a Program
// of the engine with its variables in that context's memory. A Module of cuModuleLoad* is one
// Instance. CUkernel names a kernel of a library, CUfunction a kernel of an instance.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/handles.h"
#include "engine.h"
#include "modules/image.h"
#include "nested/runtime_memory.h"
#include "streams/context.h"

namespace softdev::driver {

// Attributes of a function that programs set.
struct FunctionSettings {
  std::atomic<int> max_dynamic_shared{-1};  // -1: what fits without opting in
  std::atomic<int> carveout{-1};
  std::atomic<int> cache_config{0};
  std::atomic<int> cluster[3] = {0, 0, 0};
  std::atomic<int> non_portable_cluster{0}, cluster_policy{0};
};

// How a function is launched by the calls of before CUDA 4, which say it bit by bit.
struct StagedLaunch {
  std::mutex mutex;
  unsigned block[3] = {0, 0, 0};
  unsigned shared = 0;
  size_t parameter_size = 0;
  std::vector<uint8_t> parameters;
};

// The managed variables of a module, or of a library in all contexts: they are one for all devices
// and the host.
class ManagedVariables {
 public:
  explicit ManagedVariables(uint64_t base) : base(base) {}
  ~ManagedVariables();
  const uint64_t base;
};

class Instance;
class TextureReference;
class SurfaceReference;

class Function : public Object {
 public:
  static constexpr Kind kKind = Kind::kFunction;
  Kernel *kernel = nullptr;
  std::weak_ptr<Instance> instance;
  std::shared_ptr<FunctionSettings> settings;
  StagedLaunch staged;
};

// One program in one context.
class Instance : public std::enable_shared_from_this<Instance> {
 public:
  // Unpacks, indexes and places the variables. On failure `*reason` says why.
  // `managed`: those of another instance of the image, or empty.
  static CUresult load(const Image &image, const std::shared_ptr<Context> &context,
                       std::shared_ptr<ManagedVariables> managed,
                       std::shared_ptr<Instance> *instance, std::string *reason);
  // Waits for the context's work, then frees the variables and the handles.
  void unload();

  Program &program() const { return *program_; }
  const std::shared_ptr<Context> &context() const { return context_; }
  // The handle's object for a kernel of this instance. `settings` are those of the library's
  // kernel, or empty for settings of its own.
  std::shared_ptr<Function> function(Kernel *kernel,
                                     std::shared_ptr<FunctionSettings> settings = {});
  // The handle's object of a texture or surface reference at this address.
  template <class Reference>
  std::shared_ptr<Reference> reference(uint64_t address);
  // To be called when a kernel is about to be used. Where that loads its code (lazy loading), the
  // first time waits for the context's work.
  void use(const Kernel *kernel);
  // What the references are bound to now, for a launch.
  std::vector<std::pair<uint64_t, std::shared_ptr<const ImageView>>> bound_images();
  const std::shared_ptr<ManagedVariables> &managed() const { return managed_; }
  // Of a program that uses the device runtime; else nullptr.
  RuntimeMemory *runtime_memory() const { return runtime_memory_.get(); }
  // Whether a kernel that a kernel wants and that cannot run is met for the first time.
  bool first_refusal(const Kernel &kernel);
  uint64_t module = 0;  // handle of the CUmodule
  // Whether its kernels do nothing, as those of machine code: the engine does not know them.
  bool empty() const { return empty_; }
  // Has its code on the device, where it takes memory. False: there is none for it.
  bool load_code();

 private:
  std::shared_ptr<Context> context_;
  std::unique_ptr<Program> program_;
  std::vector<uint64_t> variables_;  // bases of what was allocated
  std::shared_ptr<ManagedVariables> managed_;
  std::unique_ptr<RuntimeMemory> runtime_memory_;
  std::mutex mutex_;
  std::set<const Kernel *> refused_, used_;
  bool empty_ = false;
  uint64_t code_bytes_ = 0;
  bool code_is_there_ = false;
  std::map<Kernel *, std::shared_ptr<Function>> functions_;
  std::map<uint64_t, std::shared_ptr<TextureReference>> textures_;
  std::map<uint64_t, std::shared_ptr<SurfaceReference>> surfaces_;
};

template <>
std::shared_ptr<TextureReference> Instance::reference(uint64_t address);
template <>
std::shared_ptr<SurfaceReference> Instance::reference(uint64_t address);

class Module : public Object {
 public:
  static constexpr Kind kKind = Kind::kModule;
  std::shared_ptr<Instance> instance;
  bool of_library = false;
};

class Library;

class LibraryKernel : public Object {
 public:
  static constexpr Kind kKind = Kind::kKernel;
  std::string name;
  std::weak_ptr<Library> library;
  // Per device: attributes are set so.
  std::vector<std::shared_ptr<FunctionSettings>> settings;
};

class Library : public Object, public std::enable_shared_from_this<Library> {
 public:
  static constexpr Kind kKind = Kind::kLibrary;
  Image image;
  // Under lazy loading, the program's buffer for messages of the compiler, which gets what is wrong
  // with the image when that turns out at its first use. No longer.
  std::span<char> messages;

  // The program in a context; loaded when it is not there yet.
  CUresult instance(const std::shared_ptr<Context> &context, std::shared_ptr<Instance> *instance,
                    std::string *reason);
  // The kernel called `name`. CUDA_ERROR_NOT_FOUND when there is none.
  CUresult kernel(const std::string &name, std::shared_ptr<LibraryKernel> *kernel,
                  std::string *reason);
  // All kernels, in the order of the text.
  CUresult kernels(std::vector<std::shared_ptr<LibraryKernel>> *kernels, std::string *reason);
  // Parameters of the kernel called `name`, in no particular context.
  CUresult parameters(const std::string &name, std::vector<ParameterInfo> *parameters,
                      std::string *reason);
  void unload();

 private:
  // Under mutex_. A program to ask about names and parameters: they are the same in all contexts,
  // and cudart asks for its first kernel before it has one.
  CUresult catalogue(Program **program, std::string *reason);
  // Under mutex_. Says what came of the first use of the image.
  CUresult first_use(CUresult result, const std::string &reason);
  std::shared_ptr<LibraryKernel> named(const std::string &name);

  std::mutex mutex_;
  std::map<uint64_t, std::shared_ptr<Instance>> instances_;  // by context
  std::weak_ptr<ManagedVariables> managed_;                  // of any instance
  std::map<std::string, std::shared_ptr<LibraryKernel>> kernels_;
  std::unique_ptr<Program> contextless_;              // while there is no instance
  std::vector<std::unique_ptr<uint8_t[]>> unplaced_;  // its variables
};

// The kernel behind a CUfunction or a CUkernel, in the given context.
struct Callable {
  std::shared_ptr<Instance> instance;
  Kernel *kernel = nullptr;
  std::shared_ptr<FunctionSettings> settings;
};
CUresult find_callable(const void *handle, const std::shared_ptr<Context> &context,
                       Callable *callable);

// Translates the kernel if that has not happened. A kernel that cannot be executed is named in
// the log.
CUresult prepare(Kernel &kernel);

}  // namespace softdev::driver
