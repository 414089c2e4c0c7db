// The executable form: what the interpreter runs.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "translate/ir.h"

namespace softdev {

// One instruction. d, a, b, c, e are byte offsets of slots in the frame's register file: 32 lanes
// of 2, 4 or 8 bytes, or one 32-bit lane mask for a predicate.
struct Ins {
  Handler run = nullptr;  // returns the next instruction, or nullptr to leave the group
  uint32_t d = 0, a = 0, b = 0, c = 0, e = 0;
  uint16_t flags = 0;  // kGuard...: see below
  uint8_t mode = 0;
  uint8_t count = 0;  // elements of a vector
  int64_t imm = 0;
  union {
    const uint32_t *list;  // slot offsets of a vector
    const Ins *target;     // of a branch
    const struct CallCode *call;
    const Ins *const *table;
  };
  uint32_t guard = kNone;  // slot of the predicate of control instructions
  Ins() : list(nullptr) {}
};

enum : uint16_t {
  kNegateGuard = 1,
  kNegateA = 2,
  kNegateC = 4,
  kHasSecond = 8,
  kHasCombine = 16,
  kNegateB = 32,
  kSameA = 64,       // a is the same for all lanes, as far as it is known beforehand
  kUnaligned = 128,  // ... and only its elements need be aligned
};

struct Function;

struct CallCode {
  const Function *callee = nullptr;
  const BuiltinFunction *builtin = nullptr;
  std::vector<CallSite::Copy> arguments, results;
};

struct Where {
  uint32_t line = 0;
  uint32_t length = 0;
  size_t text = 0;
};

struct SlotFill {
  Constant constant;
  uint32_t slot = 0;
  bool first_only = false;  // where thread numbers count up, only its first lane is read
};

struct Function {
  std::string name;
  std::vector<Ins> code;
  std::vector<uint32_t> statements;  // of each Ins, for messages
  std::vector<Where> wheres;         // by statement
  std::string_view module;           // the text that wheres point into
  std::vector<std::unique_ptr<uint32_t[]>> lists;
  std::vector<std::unique_ptr<const Ins *[]>> tables;
  std::vector<std::unique_ptr<CallCode>> calls;
  std::vector<SlotFill> launch_fills;  // the same for all blocks of a launch
  std::vector<SlotFill> warp_fills;    // differ between warps, not between blocks
  std::vector<SlotFill> block_fills;   // differ between blocks
  uint32_t register_bytes = 0;
  uint32_t registers = 0;    // of 32 bits, for a thread: what a GPU would need at most
  uint32_t frame_bytes = 0;  // of local memory
  bool uses_alloca = false;
  uint32_t index = 0;  // in the executable
};

// All that one kernel needs: itself and the functions it may reach.
struct Executable {
  std::vector<std::unique_ptr<Function>> functions;  // [0] is the kernel
  std::vector<const Function *> by_module_index;     // targets of indirect calls
  uint32_t static_shared = 0;
  uint32_t reserved_shared = 0;  // for the system, behind the rest; 0 when nothing asks for it
  uint32_t stack_bytes = 0;      // local memory per thread, as far as it is known
  bool open_stack = false;       // ... which it is not: recursion, pointers to functions, alloca
  bool uses_grid_workspace = false;
  bool uses_device_runtime = false;
  bool prints = false;
};

}  // namespace softdev
