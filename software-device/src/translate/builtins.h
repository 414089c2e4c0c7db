// Functions that PTX declares and the device's system provides.
#pragma once

#include <string_view>

#include "parse/syntax.h"
#include "translate/ir.h"

namespace softdev {

struct BuiltinFunction {
  std::string_view name;  // of one of the device runtime: without its prefix
  Builtin builtin;
  // Bytes of each parameter, in the order of the declaration; each a digit of base 36.
  std::string_view parameters;
  unsigned result = 0;       // bytes; 0: none
  bool own_default = false;  // stream 0 is the thread's own

  // Of CUDA's device runtime: needs Launch::runtime.
  bool of_device_runtime() const { return builtin >= Builtin::FirstOfRuntime; }
};

// nullptr when there is none of this name.
const BuiltinFunction *find_builtin(std::string_view name);
// Whether it is declared as we know it. A declaration may leave the result out, as ptxas allows it
// to; its calls leave it out then, too.
bool declared_as(const BuiltinFunction &function, const Signature &signature);

}  // namespace softdev
