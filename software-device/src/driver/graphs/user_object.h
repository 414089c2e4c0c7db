// Objects of the program that graphs keep alive: counted, and destroyed by a function of the
// program.
#pragma once

#include <atomic>
#include <map>
#include <memory>

#include "core/handles.h"
#include "cuda_driver.h"

namespace softdev::driver {

class UserObject : public Object {
 public:
  static constexpr Kind kKind = Kind::kUserObject;
  UserObject(void *what, CUhostFn with, unsigned references)
      : pointer_(what), destroy_(with), references_(references) {}

  void retain(uint64_t count);
  // False when there are not so many. The last one has the object destroyed, on a thread of its
  // own: the program's function may take any lock.
  bool release(uint64_t count);

 private:
  void *const pointer_;
  const CUhostFn destroy_;
  std::atomic<uint64_t> references_;
};

// The references that a graph holds; they go with it.
class UserReferences {
 public:
  UserReferences() = default;
  UserReferences(const UserReferences &other) { *this = other; }
  UserReferences &operator=(const UserReferences &other);
  ~UserReferences() { clear(); }

  void add(const std::shared_ptr<UserObject> &object, uint64_t count);  // takes them over
  bool remove(const std::shared_ptr<UserObject> &object, uint64_t count);
  void clear();

 private:
  std::map<std::shared_ptr<UserObject>, uint64_t> held_;
};

}  // namespace softdev::driver
