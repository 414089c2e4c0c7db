#include "images/expected_modules.h"

#include <algorithm>

namespace outboard {

bool ExpectedModules::keep(uint32_t index, std::unique_ptr<Module> &module) {
  std::lock_guard lock(mutex_);
  if (modules_.size() <= index) modules_.resize(index + 1);
  if (modules_[index]) return false;
  modules_[index] = std::move(module);
  return true;
}

std::unique_ptr<Module> ExpectedModules::take(uint32_t index) {
  std::lock_guard lock(mutex_);
  return index < modules_.size() ? std::move(modules_[index]) : nullptr;
}

CUresult ExpectedModules::variable(const Driver &driver, uint32_t index, const std::string &name,
                                   Variable *found) {
  std::lock_guard lock(mutex_);
  if (index >= modules_.size() || !modules_[index]) return CUDA_ERROR_INVALID_HANDLE;
  return modules_[index]->variable(driver, name, found);
}

CUresult ExpectedModules::unload(const Driver &driver) {
  std::lock_guard lock(mutex_);
  CUresult first = CUDA_SUCCESS;
  for (const std::unique_ptr<Module> &module : modules_) {
    if (module) keep_first(first, driver.cuLibraryUnload(module->library));
  }
  modules_.clear();
  return first;
}

bool UsedModules::note(const Module &module) {
  std::lock_guard lock(mutex_);
  const bool known =
      std::any_of(modules_.begin(), modules_.end(),
                  [&](const ExpectedModule &other) { return other.hash == module.hash; });
  if (known || modules_.size() >= kMost || module.answer_bytes > kMostAnswerBytes - answer_bytes_)
    return false;
  modules_.push_back({module.hash, module.image->size()});
  answer_bytes_ += module.answer_bytes;
  return true;
}

std::vector<ExpectedModule> UsedModules::list() {
  std::lock_guard lock(mutex_);
  return modules_;
}

}  // namespace outboard
