#include "images/module.h"

#include <algorithm>
#include <cstring>

#include "abi_fatbin.h"
#include "base/session_limits.h"

namespace outboard {

namespace {

constexpr uint32_t kWrapperMagic = 0x466243b1;

}  // namespace

// ---- images ------------------------------------------------------------------------------------

PendingImage *PendingImages::get(const Hash &hash, uint64_t total, const char **why) {
  auto found = images_.find(hash);
  if (found != images_.end()) {
    if (found->second.image()->size() == total) return &found->second;
    *why = "two sizes are given for one image";
    return nullptr;
  }
  if (total == 0 || total > session_limits.coming_bytes ||
      total_ > session_limits.coming_bytes - total) {
    *why = "images are larger than allowed";
    return nullptr;
  }
  if (images_.size() >= session_limits.coming_images) {
    *why = "more images are sent at a time than allowed";
    return nullptr;
  }
  std::shared_ptr<Image> image = Image::make(total);
  if (!image) {
    *why = "the server has no memory for an image";
    return nullptr;
  }
  total_ += total;
  return &images_.emplace(hash, PendingImage(std::move(image))).first->second;
}

std::shared_ptr<Image> PendingImages::take_complete(const Hash &hash, uint64_t total) {
  auto found = images_.find(hash);
  if (found == images_.end() || !found->second.complete()) return nullptr;
  std::shared_ptr<Image> image = found->second.image();
  if (image->size() != total) return nullptr;
  total_ -= image->size();
  images_.erase(found);
  return image;
}

void PendingImages::forget(const Hash &hash) {
  auto found = images_.find(hash);
  if (found == images_.end()) return;
  total_ -= found->second.image()->size();
  images_.erase(found);
}

// Lengths inside the image are the sender's: what they say must fit what was sent.
bool read_code(const Image &image, Code *code) {
  uint64_t at = 0;
  std::vector<const void *> fatbins;
  while (at < image.size()) {
    wire_image_part part;
    if (image.size() - at < sizeof part) return false;
    memcpy(&part, image.data() + at, sizeof part);
    at += sizeof part;
    if (part.size == 0 || part.size > image.size() - at) return false;
    const uint8_t *bytes = image.data() + at;
    const bool alone = at == sizeof part && image.size() - at - part.size < 8;
    switch (part.kind) {
      case WIRE_IMAGE_FATBIN:
        if (abi_image_kind(bytes, part.size) != ABI_IMAGE_FATBIN ||
            abi_image_size(bytes, part.size) == 0) {
          return false;
        }
        fatbins.push_back(bytes);
        break;
      case WIRE_IMAGE_ELF:
        if (!alone || abi_image_kind(bytes, part.size) != ABI_IMAGE_ELF ||
            abi_image_size(bytes, part.size) == 0) {
          return false;
        }
        code->start = bytes;
        break;
      case WIRE_IMAGE_PTX:
        // Terminated: zeros follow every image.
        if (!alone) return false;
        code->start = bytes;
        break;
      default:
        return false;
    }
    at += std::min((part.size + 7) & ~uint64_t{7}, image.size() - at);
  }
  if (fatbins.empty()) return code->start != nullptr;
  if (code->start) return false;
  code->wrapper = {kWrapperMagic, fatbins.size() > 1 ? 2u : 1u, fatbins[0], nullptr};
  if (fatbins.size() > 1) {
    code->pieces.assign(fatbins.begin() + 1, fatbins.end());
    code->pieces.push_back(nullptr);
    code->wrapper.pieces = code->pieces.data();
  }
  code->start = &code->wrapper;
  return true;
}

// ---- modules -----------------------------------------------------------------------------------

std::optional<Layout> layout_of(const Driver &driver, CUkernel kernel) {
  Layout layout;
  for (size_t index = 0;; index++) {
    size_t offset = 0, size = 0;
    const CUresult result = driver.cuKernelGetParamInfo(kernel, index, &offset, &size);
    if (result == CUDA_ERROR_INVALID_VALUE) return layout;
    if (result != CUDA_SUCCESS) return std::nullopt;
    layout.parameters.push_back({static_cast<uint32_t>(offset), static_cast<uint32_t>(size)});
    layout.bytes = std::max(layout.bytes, static_cast<uint32_t>(offset + size));
  }
}

CUresult Module::load(const Driver &driver, std::shared_ptr<const Image> image,
                      Compiling *compiling, std::unique_ptr<Module> *loaded) {
  auto module = std::make_unique<Module>();
  module->image = std::move(image);
  if (!read_code(*module->image, &module->code)) return CUDA_ERROR_INVALID_IMAGE;
  CUlibraryOption options[] = {CU_LIBRARY_BINARY_IS_PRESERVED};
  void *values[] = {reinterpret_cast<void *>(1)};
  compiling->start();
  CUresult result =
      driver.cuLibraryLoadData(&module->library, module->code.start, compiling->options(),
                               compiling->values(), compiling->count(), options, values, 1);
  const bool there = result == CUDA_SUCCESS;
  // A driver that loads lazily compiles, and takes memory, when the library is first used: that is
  // here, where the options are alive and the guest is told what is wrong.
  CUmodule in_context;
  if (there) result = driver.cuLibraryGetModule(&in_context, module->library);
  compiling->finish();
  unsigned count = 0;
  if (result == CUDA_SUCCESS) {
    result = driver.cuLibraryGetKernelCount(&count, module->library);
  }
  std::vector<CUkernel> kernels(count);
  if (result == CUDA_SUCCESS && count > 0) {
    result = driver.cuLibraryEnumerateKernels(kernels.data(), count, module->library);
  }
  for (CUkernel kernel : kernels) {
    const char *name = nullptr;
    if (result == CUDA_SUCCESS) result = driver.cuKernelGetName(&name, kernel);
    if (name) module->kernels.push_back({kernel, name});
  }
  if (result != CUDA_SUCCESS) {
    if (there) driver.cuLibraryUnload(module->library);
    return result;
  }
  *loaded = std::move(module);
  return CUDA_SUCCESS;
}

size_t Module::read_layouts(Capability capability, std::string *why) {
  std::vector<std::string_view> names;
  names.reserve(kernels.size());
  for (const Kernel &kernel : kernels) names.push_back(kernel.name);
  std::vector<std::optional<Layout>> layouts =
      outboard::read_layouts(*image, names, capability, why);
  size_t unknown = 0;
  for (size_t i = 0; i < kernels.size(); i++) {
    if (!layouts[i]) ++unknown;
    kernels[i].layout = std::move(layouts[i]);
  }
  if (unknown && why->empty()) *why = "the image tells none, or more than one";
  return unknown;
}

CUkernel Module::kernel(const Driver &driver, uint32_t hint, const std::string &name,
                        uint32_t *index) const {
  if (hint < kernels.size() && kernels[hint].name == name) {
    *index = hint;
    return kernels[hint].object;
  }
  for (uint32_t i = 0; i < kernels.size(); i++) {
    if (kernels[i].name == name) {
      *index = i;
      return kernels[i].object;
    }
  }
  CUkernel kernel = nullptr;
  *index = UINT32_MAX;
  return driver.cuLibraryGetKernel(&kernel, library, name.c_str()) == CUDA_SUCCESS ? kernel
                                                                                   : nullptr;
}

CUresult Module::variable(const Driver &driver, const std::string &name, Variable *found) const {
  CUdeviceptr address = 0;
  size_t size = 0;
  CUresult result = driver.cuLibraryGetManaged(&address, &size, library, name.c_str());
  const bool managed = result == CUDA_SUCCESS;
  if (result == CUDA_ERROR_NOT_FOUND) {
    result = driver.cuLibraryGetGlobal(&address, &size, library, name.c_str());
  }
  *found = {name, address, size, managed};
  return result;
}

bool LoadedModules::can_mint(uint64_t handle) {
  std::lock_guard lock(mutex_);
  return table_.can_mint(handle);
}

bool LoadedModules::keep(uint64_t handle, std::unique_ptr<Module> &module) {
  std::lock_guard lock(mutex_);
  if (!table_.can_mint(handle)) return false;
  const bool fresh = !module->variables.empty();
  table_.keep(handle, std::move(module));
  if (fresh) fresh_.store(true, std::memory_order_release);
  return true;
}

Module *LoadedModules::find(uint64_t handle) {
  std::lock_guard lock(mutex_);
  const std::unique_ptr<Module> *found = table_.find(handle);
  return found ? found->get() : nullptr;
}

std::unique_ptr<Module> LoadedModules::take(uint64_t handle) {
  std::lock_guard lock(mutex_);
  std::unique_ptr<Module> module;
  table_.take(handle, &module);
  return module;
}

CUresult LoadedModules::unload(const Driver &driver) {
  std::lock_guard lock(mutex_);
  CUresult first = CUDA_SUCCESS;
  table_.each([&](std::unique_ptr<Module> &module) {
    keep_first(first, driver.cuLibraryUnload(module->library));
  });
  table_.clear();
  return first;
}

}  // namespace outboard
