#include "graphs/user_object.h"

#include "core/driver.h"

namespace softdev::driver {

void UserObject::retain(uint64_t count) { references_.fetch_add(count, std::memory_order_relaxed); }

bool UserObject::release(uint64_t count) {
  uint64_t before = references_.load(std::memory_order_relaxed);
  do {
    if (before < count) return false;
  } while (!references_.compare_exchange_weak(before, before - count, std::memory_order_acq_rel));
  if (before != count || count == 0) return true;
  driver()->handles.remove<UserObject>(handle());
  auto destroy = [with = destroy_, what = pointer_] {
    HostFunctionScope scope;
    with(what);
  };
  if (!driver()->callers.post(destroy)) destroy();
  return true;
}

UserReferences &UserReferences::operator=(const UserReferences &other) {
  if (this == &other) return *this;
  for (const auto &[object, count] : other.held_) object->retain(count);
  clear();
  held_ = other.held_;
  return *this;
}

void UserReferences::add(const std::shared_ptr<UserObject> &object, uint64_t count) {
  held_[object] += count;
}

bool UserReferences::remove(const std::shared_ptr<UserObject> &object, uint64_t count) {
  auto found = held_.find(object);
  if (found == held_.end() || found->second < count) return false;
  if ((found->second -= count) == 0) held_.erase(found);
  return object->release(count);
}

void UserReferences::clear() {
  for (const auto &[object, count] : held_) object->release(count);
  held_.clear();
}

}  // namespace softdev::driver
