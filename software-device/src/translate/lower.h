// From the parsed statements of a function to its intermediate form. Every instruction and
// modifier is either understood here or refused.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <unordered_map>

#include "parse/syntax.h"
#include "translate/ir.h"
#include "translate/matrix.h"

namespace softdev {

struct SurfaceRequest;

inline constexpr uint32_t kMaxFrame = 1 << 24;
inline constexpr uint64_t kMaxCallTable = 1 << 20;

// What a function may refer to outside itself.
class Surroundings {
 public:
  virtual ~Surroundings() = default;
  virtual const ModuleSyntax &module() const = 0;
  virtual std::string_view text() const = 0;
  // Address of a .global or .const variable.
  virtual uint64_t variable_address(uint32_t variable) const = 0;
  // The value that a pointer to the function has.
  virtual uint64_t function_address(uint32_t function) = 0;
  // Position of the function among those of the executable; it will be translated too.
  virtual uint32_t reach_function(uint32_t function) = 0;
  // The executable makes indirect calls: every function whose address is known may be reached.
  virtual void reach_all_pointed_at() = 0;
  // Position among the executable's shared variables.
  virtual uint32_t reach_shared(const VariableSyntax &variable) = 0;
};

inline bool is_signed(Type type) {
  return type == Type::S8 || type == Type::S16 || type == Type::S32 || type == Type::S64;
}

// The type of bits for 1, 2, 4 or 8 bytes.
inline Type untyped(unsigned size) {
  return size == 1 ? Type::B8 : size == 2 ? Type::B16 : size == 4 ? Type::B32 : Type::B64;
}

inline uint32_t align_up(uint32_t value, uint32_t align) {
  return (value + align - 1) / align * align;
}

struct FrameLayout {
  std::vector<uint32_t> results, parameters;  // offsets
  uint32_t bytes = 0;
};
// Where the results and parameters of a function lie in its stack frame.
FrameLayout frame_layout(const Signature &signature);
// Where the parameters of a kernel lie in its parameter block.
std::vector<uint32_t> kernel_parameter_offsets(const Signature &signature, uint32_t *bytes);

struct Refusal {
  uint32_t line = 0;
  std::string message;  // empty: none
  explicit operator bool() const { return !message.empty(); }
};

class Lowering {
 public:
  Lowering(Surroundings &surroundings, const FunctionSyntax &function, const BodySyntax &body,
           FunctionIr *out);
  Refusal run();

 private:
  using Method = bool (Lowering::*)();
  enum class SharedWindow : uint8_t { Generic, Block, Cluster };
  struct Row {
    Method method;
    Op op;
    uint8_t sources;
    uint32_t flags;
  };
  enum Flag : uint32_t {
    kRound = 1,
    kFtz = 2,
    kSat = 4,
    kApprox = 8,
    kFull = 16,
    kNan = 32,
    kCarry = 64,
    kRelu = 128,
    kNeedApproxOrRound = 256,
    kXorSign = 512,
  };
  static const std::unordered_map<std::string_view, Row> &table();

  // ---- modifiers of the current statement
  bool take(std::string_view modifier);
  bool has(std::string_view modifier) const;  // taken or not
  Type take_type();
  Round take_round();
  std::optional<Compare> take_compare();
  Boolean take_boolean();
  std::optional<Space> take_space();
  bool take_memory_order(Order *order);
  // The name of one of these operations; empty when there is none.
  std::optional<AtomicOp> take_atomic_op(std::initializer_list<AtomicOp> legal);
  void take_cache_hints();
  unsigned take_vector();
  bool modifiers_done();

  // ---- operands
  uint32_t operand_count() const { return statement_->operands; }
  const OperandSyntax &operand(uint32_t index) const {
    return body_.operands[statement_->first_operand + index];
  }
  bool expect_operands(uint32_t least, uint32_t most);
  bool expect_operands(uint32_t count) { return expect_operands(count, count); }
  bool destination(const OperandSyntax &operand, unsigned size, Value *out);
  bool destination_any(const OperandSyntax &operand, Value *out, unsigned *size);
  bool source(const OperandSyntax &operand, Type type, Value *out);
  // A source whose register may be wider than the type.
  bool source_wide(const OperandSyntax &operand, Type type, Value *out, unsigned *size);
  bool predicate_source(const OperandSyntax &operand, Value *out, bool *negated);
  bool predicate_destination(uint32_t reg, Value *out);
  bool immediate_bits(const OperandSyntax &operand, Type type, uint64_t *bits);
  bool address(const OperandSyntax &written, Space space, unsigned access, Ir *ir);
  Value constant(Constant value);
  Value bits(uint64_t value, unsigned size);
  Value special(Special special, unsigned size);
  bool special_value(std::string_view name, std::string_view part, unsigned size, Value *out);
  bool symbol_value(const OperandSyntax &written, unsigned size, Value *out);
  bool element_value(const OperandSyntax &operand, const VariableSyntax &variable, unsigned size,
                     Value *out);
  // Of an element with a constant index, the variable and its offset in bytes.
  OperandSyntax in_bytes(const OperandSyntax &operand);
  Value temporary(Type type);
  unsigned register_size(const Value &value) const;

  // ---- symbols
  const VariableSyntax *find_variable(std::string_view name, uint32_t scope);
  std::optional<uint32_t> local_offset(const VariableSyntax &variable);
  uint32_t find_label(std::string_view name, uint32_t scope) const;
  uint32_t new_label();

  // ---- emission
  Ir make(Op op) const;
  void emit(const Ir &ir) { out_->code.push_back(ir); }
  void emit_label(uint32_t label);
  uint32_t add_list(const std::vector<Value> &values);
  bool refuse(std::string message);
  // Guards of instructions that involve other lanes become branches around them.
  void begin_guarded_region();
  void end_guarded_region();

  bool statement();

  // ---- families: lower_arithmetic.cpp, lower_compare.cpp, lower_bits.cpp
  bool plain();
  bool multiply();
  bool multiply_add();
  bool multiply24();
  bool setp();
  bool set();
  bool selp();
  bool slct();
  bool logic();
  bool shift();
  bool funnel();
  bool bit_field();
  bool bit_mask();
  bool count_bits();
  bool permute();
  bool lop3();
  bool dot_product();
  bool testp();
  bool szext();
  bool sad();
  bool find_nth();
  bool implies_rounding() const;
  bool extreme3(Ir ir);
  bool widened(const OperandSyntax &operand, Type half, Value *out);
  bool halves(const OperandSyntax &operand, Type pair, Value out[2]);
  // lower_video.cpp
  bool video();
  bool video_operand(const OperandSyntax &operand, VideoOptions *options, bool second);
  // lower_convert.cpp
  bool cvt();
  bool convert_pair(Ir ir);
  bool convert_small(Ir ir);
  bool convert_integers(bool sat);
  // lower_move.cpp
  bool mov();
  bool mov_vector(unsigned count, Type type);
  bool mov_wide();
  bool wide_register(const OperandSyntax &operand, Value out[2]);
  bool cvta();
  bool isspacep();
  bool fill(Value destination, unsigned size, Type type, const Value &source);
  // lower_memory.cpp
  const OperandSyntax &only_element(const OperandSyntax &operand, unsigned vector) const;
  bool load();
  bool store();
  bool atomic();
  bool multimem();  // lower_multimem.cpp
  bool alloca_();
  // lower_hint.cpp
  bool fence();
  bool fence_proxy(bool old);
  bool create_policy();
  bool hint();
  bool unsupported();
  // lower_async.cpp
  bool copy_async();
  bool copy_async_arrive();
  bool mbarrier();
  bool bulk_copy(bool reduce);
  bool store_async(bool reduce);
  bool store_bulk();
  bool take_reduction(Ir *ir);
  bool cluster_address();
  bool cluster_launch();
  // tensor/
  bool tensor_copy(bool reduce);
  bool tensor_map();
  bool copy_tensor_map();
  bool take_tensor_mode(bool to_global, TensorRequest *request);
  bool tensor_map_place(const OperandSyntax &operand, TensorRequest *request,
                        std::vector<Value> *values, Value *map);
  bool plain_address(const OperandSyntax &operand, Space space, Value *out);
  bool shared_address(const OperandSyntax &operand, SharedWindow window, Value *out);
  SharedWindow take_shared_window();
  // lower_texture.cpp
  bool texture();
  bool texture_query();
  bool surface();
  bool surface_reduce();
  bool istypep();
  bool image_operand(const OperandSyntax &operand, uint32_t elements, Value *handle);
  bool take_geometry(uint8_t *dimensions, bool *layered, bool *cube);
  bool take_surface(SurfaceRequest *request);
  bool elements(const OperandSyntax &operand, Type type, unsigned count, Value *out);
  bool coordinates(const OperandSyntax &operand, Type type, unsigned dimensions, bool layered,
                   std::vector<Value> *inputs);
  void add_results_and_inputs(const std::vector<Value> &results, const std::vector<Value> &inputs,
                              Ir *ir);
  // lower_control.cpp
  bool branch();
  bool branch_indexed();
  bool ret();
  bool exit();
  bool trap();
  bool barrier();
  bool shuffle();
  bool vote();
  bool match();
  bool redux();
  bool elect();
  bool active_mask();
  Value lanes_here();
  bool nanosleep();
  // lower_call.cpp
  bool call();
  bool leave();
  bool register_parameters(bool results);
  bool passing_room(const VariableSyntax &formal, uint32_t *offset);
  Ir frame_access(Op op, uint32_t offset, unsigned size, const Value &value) const;
  const Signature *prototype(const OperandSyntax &operand);
  bool call_builtin(const BuiltinFunction &builtin, const Signature &signature,
                    const OperandSyntax *results, const OperandSyntax *arguments);
  bool call_site(const Signature &signature, const OperandSyntax *results,
                 const OperandSyntax *arguments, CallSite *site, std::vector<Ir> *after);
  void emit_call(Ir ir, CallSite site, const std::vector<Ir> &after);
  // lower_matrix.cpp
  enum class Layout : uint8_t { None, Row, Column };
  bool take_shape(unsigned shape[3]);
  Element take_element();
  Layout take_layout();
  // Adds the first `different` of `count` registers to the values.
  bool fragment(const OperandSyntax &operand, unsigned count, Type type, bool written,
                std::vector<Value> *values, unsigned different = ~0u);
  bool matrix_address(const OperandSyntax &operand, Space space, Ir *ir);
  bool mma_types(MmaForm *form, Element d, Element c, Round round);
  bool emit_mma(MmaForm form, Element d, Element c, Round round);
  bool take_aligned();
  bool wmma_shape(const unsigned shape[3], Element element);
  bool wmma_fragment(bool load);
  bool mma();
  bool wmma();
  // lower_wgmma.cpp
  bool wgmma();
  bool register_count();
  bool take_sign(const OperandSyntax &operand, bool *negative);
  bool take_flag(const OperandSyntax &operand, bool *flag);
  bool matrix_rows();
  bool move_matrix();

  Surroundings &surroundings_;
  const FunctionSyntax &function_;
  const BodySyntax &body_;
  FunctionIr *out_;
  Refusal refusal_;
  const StatementSyntax *statement_ = nullptr;
  const Row *row_ = nullptr;
  uint32_t statement_index_ = 0;
  uint32_t taken_ = 0;  // modifiers used, one bit each
  Value guard_;
  bool guard_negated_ = false;
  uint32_t guard_label_ = kNone;
  Value carry_;
  std::unordered_map<uint32_t, std::pair<Value, Value>> wide_registers_;  // .b128, as two halves
  std::unordered_map<const VariableSyntax *, uint32_t> frame_offsets_;
  // name -> scope -> index
  using Scoped = std::unordered_map<std::string_view, std::unordered_map<uint32_t, uint32_t>>;
  uint32_t find_scoped(const Scoped &names, std::string_view name, uint32_t scope) const;
  Scoped labels_by_name_;
  Scoped variables_by_name_;
  std::unordered_map<uint64_t, std::vector<uint32_t>> constants_by_hash_;
  std::vector<uint32_t> kernel_offsets_;
  FrameLayout layout_;
};

}  // namespace softdev
