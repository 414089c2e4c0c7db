// The intermediate form: one instruction of a function, with everything that its text said made
// explicit. What an operation reads and writes is told by its Ir alone (reads(), writes()); what
// it means is told by the handler that select() picks for (op, types, flags).
#pragma once

#include <cstdint>
#include <vector>

#include "parse/syntax.h"

namespace softdev {

struct Warp;
struct Ins;
using Handler = const Ins *(*)(Warp &, const Ins *);

enum class Op : uint8_t {
  Nop,
  Label,
  // d = f(a, b, c)
  Move,
  Add,
  Sub,
  Mul,
  MulHigh,
  MulWide,
  Mul24,
  Mad,
  MadHigh,
  MadWide,
  Mad24,
  Div,
  Rem,
  Neg,
  Abs,
  Min,
  Max,
  And,
  Or,
  Xor,
  Not,
  Cnot,
  Shl,
  Shr,
  Fma,
  Sad,
  Select,
  SelectByInt,
  Copysign,
  Testp,
  Popc,
  Clz,
  Bfind,
  Brev,
  Bfe,
  Bfi,
  Bmsk,
  Prmt,
  Lop3,
  FunnelLeft,
  FunnelRight,
  Szext,
  Dp4a,
  Dp2a,
  Rcp,
  Sqrt,
  Rsqrt,
  Ex2,
  Lg2,
  Sin,
  Cos,
  Tanh,
  Convert,
  ConvertPack,      // two f32 to a pair of f16 or bf16
  ConvertSmall,     // pairs of 8-bit and smaller floating-point values, from and to others
  ConvertIntegers,  // cvt.pack
  Resize,
  Fns,
  Video,  // vadd and its kin; `offset` holds VideoOptions
  // carry chains; the flag is a predicate-like register of the function
  AddCarry,
  SubCarry,
  MadCarry,
  // predicates
  Setp,
  Set,
  PredAnd,
  PredOr,
  PredXor,
  PredNot,
  PredMove,
  // vectors in registers
  Pack,
  Unpack,
  // memory
  Load,
  Store,
  Atomic,
  LocalAddress,
  IsSpace,
  IsOpaque,
  ToShared,
  FromShared,
  Fence,
  // textures and surfaces, see texture_request.h
  Texture,
  TextureQuery,
  SurfaceLoad,
  SurfaceStore,
  SurfaceReduce,
  Alloca,
  StackSave,
  StackRestore,
  // between threads
  Shuffle,
  Vote,
  Match,
  Redux,
  Elect,
  ActiveMask,
  WarpBarrier,
  Barrier,
  // asynchronous copies and what waits for them
  AsyncCopy,
  Mbarrier,
  BulkCopy,
  BulkReduce,
  TensorCopy,
  TensorReduce,
  TensorReplace,
  StoreAsync,
  ReduceAsync,
  // the shared memory of the blocks of a cluster
  ClusterToGeneric,
  GenericToCluster,
  MapShared,
  SharedRank,
  ClusterBarrier,
  // matrices, see matrix.h
  Mma,
  MmaQuads,
  Wgmma,
  FragmentLoad,
  FragmentStore,
  MatrixLoad,
  MatrixStore,
  MatrixMove,
  // control
  Branch,
  BranchIndexed,
  Call,
  CallIndirect,
  CallBuiltin,
  Return,
  Exit,
  Trap,
  Breakpoint,
  NanoSleep,
  Clock,
  Guard,
};

enum class Compare : uint8_t {
  None,
  Eq,
  Ne,
  Lt,
  Le,
  Gt,
  Ge,
  Equ,
  Neu,
  Ltu,
  Leu,
  Gtu,
  Geu,
  Num,
  Nan
};
enum class Boolean : uint8_t { None, And, Or, Xor };
enum class Round : uint8_t {
  None,
  NearestEven,
  Zero,
  Down,
  Up,  // .rn .rz .rm .rp
  IntNearest,
  IntZero,
  IntDown,
  IntUp,
  NearestAway,  // .rni .rzi .rmi .rpi .rna
};
enum class Order : uint8_t { Weak, Volatile, Relaxed, Acquire, Release, AcqRel, SeqCst };
enum class AtomicOp : uint8_t { Add, Min, Max, And, Or, Xor, Exch, Cas, Inc, Dec };
enum class ShuffleMode : uint8_t { Up, Down, Bfly, Idx };
enum class VoteMode : uint8_t { All, Any, Uni, Ballot };
enum class BarrierMode : uint8_t { Sync, Arrive, Popc, And, Or };
enum class BulkWay : uint8_t { GlobalToShared, SharedToShared, SharedToGlobal, Fill };
// Fields of a tensor map that tensormap.replace knows, and a copy of a whole map.
enum class TensorField : uint8_t {
  Address,
  Rank,
  Box,
  Dimension,
  Stride,
  Step,
  Element,
  Interleave,
  Swizzle,
  Fill,
  Atomicity,
  Whole,
};
enum class TensorWay : uint8_t { Load, Store, Prefetch };
// Rows: four of a tensor with two dimensions, each at a place of its own (gather4, scatter4).
enum class TensorMode : uint8_t { Tile, Rows, Im2col, Wide, Wide128 };
// Of a copy by a tensor map, in Ir::offset. The list holds coordinates, offsets, and the mask of
// the blocks of a multicast.
struct TensorRequest {
  TensorWay way = TensorWay::Load;
  TensorMode mode = TensorMode::Tile;
  uint8_t rank = 0;         // 1 to 5
  uint8_t coordinates = 0;  // as many, but for Rows
  uint8_t offsets = 0;      // 16-bit offsets of the pixels; Wide: pixels behind them, and an offset
  bool multicast = false;
  uint8_t unused[2] = {};
};
static_assert(sizeof(TensorRequest) == 8);
enum class MbarrierMode : uint8_t {
  Init,
  Inval,
  ExpectTx,
  CompleteTx,
  Arrive,
  ArriveExpectTx,
  Drop,
  DropExpectTx,
  Touch,  // cp.async.mbarrier.arrive, which adds the arrival that it then makes
  TestWait,
  TestParity,
  TryWait,
  TryParity
};
enum class Builtin : uint8_t {
  Printf,
  Assert,
  Malloc,
  Free,
  SetConditional,
  FirstOfRuntime,
  ParameterBuffer = FirstOfRuntime,
  ParameterBufferFor,
  Launch,
  LaunchPrepared,
  CreateStream,
  DestroyStream,
  StreamWait,
  CreateEvent,
  DestroyEvent,
  RecordEvent,
  RecordEventFlags,
  Copy,
  Copy2D,
  Copy3D,
  Set,
  Set2D,
  Set3D,
  RuntimeMalloc,
  RuntimeFree,
  TakeError,
  PeekError,
  ErrorName,
  ErrorSentence,
  DeviceAttribute,
  DeviceLimit,
  CacheConfig,
  SharedConfig,
  DeviceCount,
  CurrentDevice,
  RuntimeVersion,
  FunctionAttributes,
  Occupancy,
  OccupancyFlags,
};
struct BuiltinFunction;  // builtins.h

// A value: a virtual register, or one that never changes while a thread block runs and is
// written into the register file beforehand.
struct Value {
  enum Kind : uint8_t { None, Reg, Const } kind = None;
  uint32_t index = 0;
  bool is_reg() const { return kind == Reg; }
  explicit operator bool() const { return kind != None; }
  bool operator==(const Value &other) const = default;
};
inline Value reg_value(uint32_t index) { return {Value::Reg, index}; }

// What a constant slot holds.
struct Constant {
  enum Kind : uint8_t {
    Bits,       // payload
    Parameter,  // `size` bytes of the kernel's parameters at `payload`, sign-extended if `sign`
    ParameterAddress,  // address of the kernel's parameters + payload
    SharedOffset,      // of variable `payload` of the executable (resolved when placed)
    Special,           // a special register, see Special
  } kind = Bits;
  uint8_t size = 4;  // of the slot: 2, 4 or 8; 0 for a predicate
  uint8_t read = 0;  // Parameter: bytes to read
  bool sign = false;
  uint64_t payload = 0;
  bool operator==(const Constant &other) const = default;
};

// Ir::offset of conversions, for handlers that look at it when they run.
enum : int64_t { kConvertFtz = 1, kConvertSat = 2, kConvertRelu = 4, kConvertSatfinite = 8 };

enum class VideoOp : uint8_t {
  Add,
  Sub,
  AbsDiff,
  Min,
  Max,
  ShiftLeft,
  ShiftRight,
  MultiplyAdd,
  Set,
  Average
};

// What a video instruction does around its operation; Ir::mode holds the operation.
struct VideoOptions {
  uint8_t parts : 3;  // 1: scalar; 2 or 4: that many in parallel
  uint8_t signed_a : 1, signed_b : 1, signed_d : 1, sat : 1, wrap : 1;
  uint8_t second : 2;   // on the result and c: 0 nothing, 1 add, 2 min, 3 max
  uint8_t compare : 3;  // of vset: Compare - Compare::Eq
  uint8_t negate_ab : 1, negate_c : 1, plus_one : 1;  // vmad
  uint8_t shift;                                      // vmad: 7 or 15
  uint8_t select_d;  // scalar: a VideoPart to merge into c, 0 none; else a mask of parts
  // Scalar: element 0 is a VideoPart. Else of each element which part of {b, a} it is.
  uint16_t select_a, select_b;  // four bits each
};
static_assert(sizeof(VideoOptions) == 8);
// .b0 to .b3, .h0, .h1 of a scalar video instruction
enum VideoPart : uint8_t { kWholeWord, kByte0, kByte1, kByte2, kByte3, kHalf0, kHalf1 };

enum class Special : uint8_t {
  TidX,
  TidY,
  TidZ,
  NtidX,
  NtidY,
  NtidZ,
  CtaidX,
  CtaidY,
  CtaidZ,
  NctaidX,
  NctaidY,
  NctaidZ,
  LaneId,
  WarpId,
  NwarpId,
  SmId,
  NsmId,
  GridId,
  LanemaskEq,
  LanemaskLe,
  LanemaskLt,
  LanemaskGe,
  LanemaskGt,
  Envreg1,
  Envreg2,
  DynamicShared,
  TotalShared,
  AggregateShared,
  ClusterExplicit,
  ClusterCtaidX,
  ClusterCtaidY,
  ClusterCtaidZ,
  ClusterNctaidX,
  ClusterNctaidY,
  ClusterNctaidZ,
  ClusterRank,
  ClusterBlocks,
  ClusterIdX,
  ClusterIdY,
  ClusterIdZ,
  NclusterIdX,
  NclusterIdY,
  NclusterIdZ,
  ReservedBegin,
  ReservedEnd,
  Zero,
  One,
  // read when they are executed, by Op::Clock
  Clock,
  ClockHi,
  Clock64,
  GlobalTimer,
  GlobalTimerLo,
  GlobalTimerHi,
};

struct Ir {
  Op op = Op::Nop;
  Type type = Type::None;   // of the result
  Type type2 = Type::None;  // of the sources where they differ
  Type type3 = Type::None;
  Compare compare = Compare::None;
  Boolean boolean = Boolean::None;
  Round round = Round::None;
  bool ftz = false, sat = false, approx = false, nan = false, relu = false, satfinite = false;
  bool carry_in = false, carry_out = false, negate_c = false;
  bool negate_a = false;  // predicate operands
  bool negate_b = false;
  bool xorsign = false;  // min, max: of magnitudes, with the product's sign
  bool high = false;     // mul.hi in carry chains, shf.clamp, bmsk.clamp
  bool guard_negated = false;
  uint8_t mode = 0;  // AtomicOp, ShuffleMode, VoteMode, BarrierMode, ...
  Space space = Space::Generic;
  Order order = Order::Weak;
  uint8_t memory_size = 0;    // Load, Store: bytes of one element
  uint8_t register_size = 0;  // ... and of its register
  bool sign = false;          // Load: sign-extends
  bool unaligned = false;     // Load: only its elements need be aligned
  // The sources are the same for all lanes of a warp or count up over them, and only their first
  // lane's value may be there: see shapes.cpp. A comparison has in `offset` by how much the last
  // lane's a is larger than the first one's.
  bool shaped = false;
  Value guard;
  Value d, d2;
  Value a, b, c, e;
  uint32_t list = 0, list_count = 0;  // in FunctionIr::values
  uint32_t list_written = 0;          // so many at its front are written, the others read
  // Address offset or immediate of the operation. Load, Store with an index c, of type3: its low
  // half is the offset, its high half what the index is multiplied by.
  int64_t offset = 0;
  uint32_t target = kNone;    // label or function
  uint32_t statement = 0;     // for messages
  Handler handler = nullptr;  // what executes it
};

// A branch that some lanes may not take: a predicate says which, or a comparison that it has taken
// over.
inline bool is_conditional(const Ir &branch) {
  return branch.guard || branch.compare != Compare::None;
}

struct CallSite {
  uint32_t callee = kNone;  // function of the executable
  const BuiltinFunction *builtin = nullptr;
  struct Copy {
    uint32_t local;   // offset in the caller's frame
    uint32_t remote;  // offset in the callee's frame
    uint32_t size;
  };
  std::vector<Copy> arguments, results;
};

struct FunctionIr {
  std::vector<Ir> code;
  std::vector<Value> values;    // lists
  std::vector<Type> registers;  // Pred or by size
  std::vector<Constant> constants;
  std::vector<CallSite> calls;
  std::vector<std::vector<uint32_t>> branch_tables;  // labels
  std::vector<bool> lasting;  // registers that share their slot with no other; may be shorter
  uint32_t labels = 0;
  uint32_t frame_bytes = 0;  // local memory: parameters, results, locals
  uint32_t remembered = 0;   // registers that loads remember addresses in: a GPU has none for that
  bool uses_alloca = false;
};

// Size class of a register's slot: 0 predicate, else 2, 4 or 8 bytes per lane.
inline unsigned slot_size(Type type) {
  if (type == Type::Pred) return 0;
  unsigned size = type_size(type);
  return size < 2 ? 2 : size;
}

template <class F>
void for_each_read(const FunctionIr &function, const Ir &ir, F f) {
  if (ir.guard) f(ir.guard);
  for (const Value *value : {&ir.a, &ir.b, &ir.c, &ir.e})
    if (*value) f(*value);
  for (uint32_t i = ir.list_written; i < ir.list_count; ++i)
    if (function.values[ir.list + i]) f(function.values[ir.list + i]);
}

template <class F>
void for_each_write(const FunctionIr &function, const Ir &ir, F f) {
  if (ir.d) f(ir.d);
  if (ir.d2) f(ir.d2);
  for (uint32_t i = 0; i < ir.list_written; ++i)
    if (function.values[ir.list + i]) f(function.values[ir.list + i]);
}

// No effect but its results.
bool is_pure(Op op);

}  // namespace softdev
