// The calls of the driver API, as data: what each takes, and how it is called with given values.
#pragma once
#include <cstring>
#include <string>
#include <vector>

#include "cuda_driver.h"

namespace arguments {

/** One argument, of whichever type: as many of the bytes as it has. */
struct Value {
  unsigned char bytes[64] = {};
};

template <class T>
Value value_of(T of) {
  static_assert(sizeof of <= sizeof Value{}.bytes);
  Value value;
  memcpy(value.bytes, &of, sizeof of);
  return value;
}

struct Parameter {
  /** Without `const`, and without the star of a pointer: "size_t". */
  std::string type;
  /** How many stars. */
  unsigned depth;
  bool constant;
  std::string name;
};

struct Call {
  std::string name;
  std::vector<Parameter> parameters;
  CUresult (*invoke)(void *function, const Value *values);

  bool has(const char *part) const { return name.find(part) != std::string::npos; }
};

/** Every call whose parameters are known, in the order of the driver's list. */
const std::vector<Call> &all_calls();

}  // namespace arguments
