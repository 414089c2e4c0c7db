#include "modules/module.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "core/driver.h"
#include "modules/empty_program.h"
#include "modules/ptx_version.h"
#include "streams/stream.h"
#include "textures/reference.h"

namespace softdev::driver {
namespace {

bool is_any(const Region &) { return true; }

CUresult result_of(const Status &status) { return static_cast<CUresult>(status.code); }

// The text of an image, or the bytes of its cubin.
CUresult code_of(const Image &image, std::string *code, std::string *reason) {
  if (CUresult bad = image.unpack(code, reason)) return bad;
  return image.is_cubin() ? CUDA_SUCCESS : check_ptx_version(*code, reason);
}

}  // namespace

ManagedVariables::~ManagedVariables() {
  if (auto region = driver()->memory.remove(base, is_any))
    driver()->memory.destroy(std::move(region), [] {});
}

CUresult Instance::load(const Image &image, const std::shared_ptr<Context> &context,
                        std::shared_ptr<ManagedVariables> managed,
                        std::shared_ptr<Instance> *instance, std::string *reason) {
  std::string text;
  if (CUresult bad = code_of(image, &text, reason)) return bad;
  auto fresh = std::make_shared<Instance>();
  fresh->context_ = context;
  fresh->empty_ = image.is_cubin();
  fresh->code_bytes_ = text.size();  // about as many as a GPU's instructions take
  Memory &memory = driver()->memory;
  int device = context->device().ordinal;
  const bool managed_are_there = managed != nullptr;
  auto allocate = [&](size_t size, size_t align, Storage storage) -> uint64_t {
    if (storage == Storage::kManaged) {
      if (!managed_are_there) {
        // Of no context: it outlives them.
        uint64_t base = memory.allocate_host(size, RegionKind::kManaged, device, 0, 0, align, true);
        if (!base) return 0;
        memset(reinterpret_cast<void *>(base), 0, size);
        managed = std::make_shared<ManagedVariables>(base);
      }
      fresh->managed_ = managed;
      return managed->base;
    }
    uint64_t base = memory.allocate_device(
        device, size ? size : 1, align, context->handle(), RegionKind::kDevice,
        storage == Storage::kConstant ? kReadable : kReadable | kWritable, true);
    if (!base) return 0;
    memset(reinterpret_cast<void *>(base), 0, size);
    fresh->variables_.push_back(base);
    return base;
  };
  Status status;
  fresh->program_ = image.is_cubin() ? empty_program(text, allocate, managed_are_there, &status)
                                     : Program::load(std::move(text), allocate, &status,
                                                     context->limit(CU_LIMIT_MALLOC_HEAP_SIZE),
                                                     managed_are_there);
  if (fresh->program_ && fresh->program_->uses_device_runtime()) {
    if (const uint64_t base = allocate(RuntimeMemory::kBytes, 256, Storage::kGlobal)) {
      fresh->runtime_memory_ = std::make_unique<RuntimeMemory>(base);
    } else {
      fresh->program_.reset();
      status = {CUDA_ERROR_OUT_OF_MEMORY, false, "no memory for launches by kernels"};
    }
  }
  if (!fresh->program_) {
    for (uint64_t base : fresh->variables_)
      if (auto region = memory.remove(base, is_any)) memory.destroy(std::move(region), [] {});
    *reason = status.message;
    return result_of(status);
  }
  if (fresh->program_->has_heap()) context->heap_in_use = true;
  *instance = std::move(fresh);
  return CUDA_SUCCESS;
}

// What the first use of code waits for.
static void wait_for_work(Context &context) {
  std::optional<CodeLock> lock;
  if (driver()->settings.traits.lazy_locking) lock.emplace();
  context.drain();
}

bool Instance::first_refusal(const Kernel &kernel) {
  std::lock_guard guard(mutex_);
  return refused_.insert(&kernel).second;
}

void Instance::use(const Kernel *kernel) {
  if (!driver()->settings.traits.lazy_waiting) return;
  {
    std::lock_guard guard(mutex_);
    if (!used_.insert(kernel).second) return;
  }
  wait_for_work(*context_);
}

bool Instance::load_code() {
  std::lock_guard guard(mutex_);
  if (!code_is_there_) code_is_there_ = context_->hidden.load(code_bytes_);
  return code_is_there_;
}

void Instance::unload() {
  Driver &all = *driver();
  {
    std::lock_guard guard(mutex_);
    if (code_is_there_) context_->hidden.unload(code_bytes_);
    code_is_there_ = false;
    for (const auto &[kernel, function] : functions_)
      all.handles.remove<Function>(function->handle());
    functions_.clear();
    for (const auto &[address, texture] : textures_)
      all.handles.remove<TextureReference>(texture->handle());
    for (const auto &[address, surface] : surfaces_)
      all.handles.remove<SurfaceReference>(surface->handle());
    textures_.clear();
    surfaces_.clear();
  }
  context_->drain();
  for (uint64_t base : variables_)
    if (auto region = all.memory.remove(base, is_any))
      all.memory.destroy(std::move(region), [&] { context_->device().drain(); });
  variables_.clear();
  managed_.reset();
}

std::shared_ptr<Function> Instance::function(Kernel *kernel,
                                             std::shared_ptr<FunctionSettings> settings) {
  std::lock_guard guard(mutex_);
  std::shared_ptr<Function> &function = functions_[kernel];
  if (!function) {
    function = std::make_shared<Function>();
    function->kernel = kernel;
    function->instance = weak_from_this();
    function->settings = settings ? settings : std::make_shared<FunctionSettings>();
    driver()->handles.add(function);
  }
  return function;
}

namespace {

template <class Reference>
std::shared_ptr<Reference> reference_at(std::map<uint64_t, std::shared_ptr<Reference>> &all,
                                        uint64_t address) {
  std::shared_ptr<Reference> &reference = all[address];
  if (!reference) {
    auto fresh = std::make_shared<Reference>();
    fresh->variable = address;
    driver()->handles.add(fresh);
    reference = std::move(fresh);
  }
  return reference;
}

}  // namespace

template <>
std::shared_ptr<TextureReference> Instance::reference(uint64_t address) {
  std::lock_guard guard(mutex_);
  return reference_at(textures_, address);
}
template <>
std::shared_ptr<SurfaceReference> Instance::reference(uint64_t address) {
  std::lock_guard guard(mutex_);
  return reference_at(surfaces_, address);
}

std::vector<std::pair<uint64_t, std::shared_ptr<const ImageView>>> Instance::bound_images() {
  std::vector<std::pair<uint64_t, std::shared_ptr<const ImageView>>> images;
  if (program_->references().empty()) return images;
  std::lock_guard guard(mutex_);
  for (const auto &[address, texture] : textures_)
    if (auto image = image_of(*texture)) images.emplace_back(address, std::move(image));
  for (const auto &[address, surface] : surfaces_)
    if (auto image = image_of(*surface)) images.emplace_back(address, std::move(image));
  return images;
}

// ---------------------------------------------------------------------------------------------

CUresult Library::instance(const std::shared_ptr<Context> &context,
                           std::shared_ptr<Instance> *instance, std::string *reason) {
  std::lock_guard guard(mutex_);
  auto found = instances_.find(context->handle());
  // The module's handle goes when its context is torn down.
  if (found != instances_.end() && driver()->handles.find<Module>(found->second->module)) {
    *instance = found->second;
    return CUDA_SUCCESS;
  }
  std::erase_if(instances_, [](const auto &entry) {
    return !driver()->handles.find<Module>(entry.second->module);
  });
  std::shared_ptr<Instance> fresh;
  if (driver()->settings.traits.lazy_waiting) wait_for_work(*context);
  if (CUresult bad =
          first_use(Instance::load(image, context, managed_.lock(), &fresh, reason), *reason))
    return bad;
  managed_ = fresh->managed();
  auto module = std::make_shared<Module>();
  module->instance = fresh;
  module->of_library = true;
  fresh->module = driver()->handles.add(module);
  context->own(fresh->module);
  instances_[context->handle()] = fresh;
  contextless_.reset();
  unplaced_.clear();
  *instance = std::move(fresh);
  return CUDA_SUCCESS;
}

CUresult Library::catalogue(Program **program, std::string *reason) {
  if (!instances_.empty()) {
    *program = &instances_.begin()->second->program();
    return CUDA_SUCCESS;
  }
  if (!contextless_) {
    std::string text;
    if (CUresult bad = code_of(image, &text, reason)) return first_use(bad, *reason);
    // Its variables are never used; they only need a place.
    auto allocate = [this](size_t size, size_t align, Storage) {
      auto &place = unplaced_.emplace_back(std::make_unique<uint8_t[]>(size + align));
      return round_up(reinterpret_cast<uint64_t>(place.get()), align ? align : 1);
    };
    Status status;
    contextless_ = image.is_cubin() ? empty_program(text, allocate, false, &status)
                                    : Program::load(std::move(text), allocate, &status);
    if (!contextless_) {
      unplaced_.clear();
      *reason = status.message;
      return first_use(result_of(status), *reason);
    }
  }
  *program = contextless_.get();
  return CUDA_SUCCESS;
}

CUresult Library::first_use(CUresult result, const std::string &reason) {
  if (result != CUDA_SUCCESS && !messages.empty()) {
    const size_t used = std::min(messages.size() - 1, reason.size());
    memcpy(messages.data(), reason.data(), used);
    messages[used] = 0;
  }
  messages = {};
  return result;
}

std::shared_ptr<LibraryKernel> Library::named(const std::string &name) {
  std::shared_ptr<LibraryKernel> &kernel = kernels_[name];
  if (!kernel) {
    kernel = std::make_shared<LibraryKernel>();
    kernel->name = name;
    kernel->library = weak_from_this();
    for (size_t i = 0; i < driver()->devices.size(); i++)
      kernel->settings.push_back(std::make_shared<FunctionSettings>());
    driver()->handles.add(kernel);
  }
  return kernel;
}

CUresult Library::kernel(const std::string &name, std::shared_ptr<LibraryKernel> *kernel,
                         std::string *reason) {
  std::lock_guard guard(mutex_);
  Program *program;
  if (CUresult bad = catalogue(&program, reason)) return bad;
  if (!program->find_kernel(name)) {
    *reason = "the library has no kernel " + name;
    return CUDA_ERROR_NOT_FOUND;
  }
  *kernel = named(name);
  return CUDA_SUCCESS;
}

CUresult Library::kernels(std::vector<std::shared_ptr<LibraryKernel>> *kernels,
                          std::string *reason) {
  std::lock_guard guard(mutex_);
  Program *program;
  if (CUresult bad = catalogue(&program, reason)) return bad;
  for (Kernel *kernel : program->kernels()) kernels->push_back(named(kernel->name()));
  return CUDA_SUCCESS;
}

CUresult Library::parameters(const std::string &name, std::vector<ParameterInfo> *parameters,
                             std::string *reason) {
  std::lock_guard guard(mutex_);
  Program *program;
  if (CUresult bad = catalogue(&program, reason)) return bad;
  *parameters = program->find_kernel(name)->parameters();
  return CUDA_SUCCESS;
}

void Library::unload() {
  std::lock_guard guard(mutex_);
  for (auto &[name, kernel] : kernels_) driver()->handles.remove<LibraryKernel>(kernel->handle());
  kernels_.clear();
  for (auto &[context, instance] : instances_) {
    if (!driver()->handles.remove<Module>(instance->module)) continue;  // gone with its context
    instance->context()->disown(instance->module);
    instance->unload();
  }
  instances_.clear();
  contextless_.reset();
  unplaced_.clear();
}

// ---------------------------------------------------------------------------------------------

CUresult find_callable(const void *handle, const std::shared_ptr<Context> &context,
                       Callable *callable) {
  Driver &all = *driver();
  if (auto function = all.handles.find<Function>(handle)) {
    callable->instance = function->instance.lock();
    callable->kernel = function->kernel;
    callable->settings = function->settings;
    if (!callable->instance) return CUDA_ERROR_INVALID_HANDLE;
    return CUDA_SUCCESS;
  }
  auto kernel = all.handles.find<LibraryKernel>(handle);
  auto library = kernel ? kernel->library.lock() : nullptr;
  if (!library) return refuse(CUDA_ERROR_INVALID_HANDLE, "%p is no function and no kernel", handle);
  std::string reason;
  if (CUresult bad = library->instance(context, &callable->instance, &reason))
    return refuse(bad, "%s", reason.c_str());
  callable->kernel = callable->instance->program().find_kernel(kernel->name);
  callable->settings = kernel->settings[static_cast<size_t>(context->device().ordinal)];
  if (callable->kernel) callable->instance->use(callable->kernel);
  return CUDA_SUCCESS;
}

CUresult prepare(Kernel &kernel) {
  Status status = kernel.translate();
  if (status.ok()) return CUDA_SUCCESS;
  log(Level::kError, "%s", status.message.c_str());
  // The module was accepted as PTX when it was loaded. A kernel in it that cannot be translated is
  // one that this device does not support; programs must be able to tell that from bad PTX.
  return status.code == CUDA_ERROR_INVALID_PTX ? CUDA_ERROR_NOT_SUPPORTED : result_of(status);
}

void release_module(uint64_t handle) {
  if (auto module = driver()->handles.remove<Module>(handle)) module->instance->unload();
}

}  // namespace softdev::driver
