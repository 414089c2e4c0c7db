// What the parser hands to the translator. All names are views into the module's text, which
// outlives every structure here.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace softdev {

// PTX's types. The names in type.cpp are in this order.
enum class Type : uint8_t {
  None,
  Pred,
  B8,
  U8,
  S8,
  B16,
  U16,
  S16,
  F16,
  BF16,
  B32,
  U32,
  S32,
  F32,
  F16x2,
  BF16x2,
  U16x2,
  S16x2,
  TF32,
  B64,
  U64,
  S64,
  F64,
  F32x2,
  B128,
  // Pairs of 8-bit and smaller floating-point values, of conversions only.
  E4M3x2,
  E5M2x2,
  E2M3x2,
  E3M2x2,
  E2M1x2,
  UE8M0x2,
};
Type type_from_name(std::string_view name);  // Type::None when it is not a type
std::string_view type_name(Type type);
unsigned type_size(Type type);  // bytes; 0 for None and Pred

enum class Space : uint8_t {
  Generic,
  Register,
  Global,
  Constant,
  Shared,
  SharedCluster,
  Local,
  Param
};

// A variable that names a texture, a surface or a sampler: its value is its own address.
enum class Opaque : uint8_t { None, Texture, Surface, Sampler };

struct ParseError {
  uint32_t line = 0;
  std::string message;  // empty: no error
  explicit operator bool() const { return !message.empty(); }
};

// A declared variable, at module or function scope, or a parameter.
struct VariableSyntax {
  std::string_view name;
  Space space = Space::Generic;
  Type type = Type::None;
  Opaque opaque = Opaque::None;
  uint32_t align = 1;
  uint64_t size = 0;     // bytes; 0 for an array of unknown length
  bool unsized = false;  // declared with []
  bool is_extern = false;
  bool managed = false;
  bool weak = false;
  size_t initialiser = 0;  // offset of the text behind '=', 0 when there is none
  size_t initialiser_end = 0;
  uint32_t line = 0;
};

struct Signature {
  std::vector<VariableSyntax> results;
  std::vector<VariableSyntax> parameters;
};

// A function or kernel as the index sees it.
struct FunctionSyntax {
  std::string_view name;
  bool entry = false;
  bool is_extern = false;
  bool weak = false;
  bool noreturn = false;
  Signature signature;
  uint32_t max_threads[3] = {0, 0, 0};  // .maxntid, zeros when absent
  uint32_t required_threads[3] = {0, 0, 0};
  uint32_t max_registers = 0;
  uint32_t cluster[3] = {0, 0, 0};  // .reqnctapercluster, zeros when absent
  bool explicit_cluster = false;
  uint32_t max_cluster_blocks = 0;  // .maxclusterrank
  size_t header = 0;                // offset of the directive that begins it
  size_t body = 0;                  // offset of its '{', 0 for a declaration
  size_t body_end = 0;
};

struct ModuleSyntax {
  int version = 0;                        // major * 10 + minor
  int target = 0;                         // sm_75 -> 75
  bool target_portable = true;            // false for sm_90a, sm_100f
  std::vector<FunctionSyntax> functions;  // definitions, and declarations without one
  std::vector<VariableSyntax> variables;
  std::unordered_map<std::string_view, uint32_t> function_by_name;
  std::unordered_map<std::string_view, uint32_t> variable_by_name;
};

// ---- function bodies

inline constexpr uint32_t kNone = 0xffffffffu;

struct OperandSyntax {
  enum Kind : uint8_t {
    Register,  // reg
    Special,   // name and selector: %tid and x
    Integer,   // bits
    Single,    // bits
    Double,    // bits
    Symbol,    // name + offset, or name[reg + offset] if it is indexed; labels, functions too
    Address,   // [reg + offset] (reg != kNone) or [name + offset] or [offset]; what follows a
               // comma inside, as in [a, {x, y}], is operands first..first+count
    List,      // {a, b} or (a, b): operands first..first+count; {a, b}|p has p as its pair
    Sink,      // _
  } kind = Sink;
  bool negated = false;  // !p
  bool minus = false;    // -r, of video instructions
  bool indexed = false;  // an element of an array: reg, if there is one, and offset count elements
  uint32_t reg = kNone;
  uint32_t pair = kNone;  // second register of  p|q ; kNone - 1 for p|_
  uint32_t scope = 0;     // where a Symbol was written: labels and variables are scoped
  std::string_view name;
  std::string_view selector;  // "b0" of %r1.b0, "x" of %tid.x
  uint64_t bits = 0;
  int64_t offset = 0;
  uint32_t first = 0, count = 0;
};

struct StatementSyntax {
  std::string_view opcode;
  uint32_t first_modifier = 0, modifiers = 0;
  uint32_t first_operand = 0, operands = 0;
  uint32_t guard = kNone;
  bool guard_negated = false;
  bool has_selectors = false;  // %r1.b0 or -%r1 among the operands: video instructions only
  uint32_t line = 0;
  uint32_t text_length = 0;
  size_t text = 0;  // offset in the module, for messages
};

struct LabelSyntax {
  std::string_view name;
  uint32_t scope = 0;
  uint32_t statement = 0;  // the one it stands before
};

struct ScopedVariable {
  VariableSyntax variable;
  uint32_t scope = 0;
};

struct ScopedPrototype {
  std::string_view name;
  Signature signature;
};

struct ScopedTargets {
  std::string_view name;
  uint32_t scope = 0;
  std::vector<std::string_view> labels;
};

struct BodySyntax {
  std::vector<StatementSyntax> statements;
  std::vector<OperandSyntax> operands;
  std::vector<std::string_view> modifiers;
  std::vector<Type> registers;  // the type of each virtual register
  std::vector<LabelSyntax> labels;
  std::vector<ScopedVariable> variables;
  std::vector<ScopedPrototype> prototypes;
  std::vector<ScopedTargets> targets;       // .branchtargets
  std::vector<ScopedTargets> call_targets;  // .calltargets: names of functions
  std::vector<uint32_t> scope_parent;       // scope_parent[0] is kNone
};

}  // namespace softdev
