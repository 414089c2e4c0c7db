#include "libraries/lt_arguments.h"

#include <algorithm>

#include "libraries/sane.h"
#include "library_call.h"

namespace outboard {

namespace {

template <class T>
bool take(LtWords *words, T *value) {
  static_assert(sizeof *value % 8 == 0);
  if (words->size_bytes() < sizeof *value) return false;
  memcpy(value, words->data(), sizeof *value);
  *words = words->subspan(sizeof *value / 8);
  return true;
}

bool take(LtWords *words, int64_t *values, size_t count) {
  if (words->size() < count) return false;
  memcpy(values, words->data(), count * 8);
  *words = words->subspan(count);
  return true;
}

// Bits of an element of a cudaDataType. Of one that is not known, as many as there may be: what the
// library makes of it is its own to say.
int64_t bits_of(int32_t type) {
  if (type >= 16 && type <= 19) return type % 2 ? 8 : 4;  // whole numbers of 4 bits
  if (type == 30) return 8;
  if (type == 31 || type == 32) return 8;  // of 6 bits
  if (type == 33) return 4;
  const uint32_t bytes = library_type_bytes(static_cast<uint32_t>(type));
  return bytes ? bytes * 8 : 128;
}

constexpr int32_t kInt8 = 3;  // CUDA_R_8I
enum Order { kColumns, kRows };
enum BatchMode { kStrided, kPointers };
enum EpilogueBit { kRelu = 2, kReluBackwards = 8, kAux = 128, kSumsOfB = 512 };
// What of an epilogue names no vector that is added, or is summed up.
constexpr uint32_t kWithoutBias = 1 | kRelu | kReluBackwards | 32 | 64 | kAux;

int64_t in_all(int64_t count, int64_t each) { return (count + each - 1) / each; }

class Memory {
 public:
  explicit Memory(const LtArguments::Reachable &reachable) : reachable_(reachable) {}

  // `count` elements from `address` on, the first of each `batch` of them `stride` apart. None is
  // the library's own to complain of.
  bool has(uint64_t address, __int128 count, int64_t bits, int64_t batch = 1,
           int64_t stride = 0) const {
    if (!address || count <= 0 || batch <= 0) return true;
    if (!is_sane(batch) || !is_sane(stride)) return false;
    const __int128 beyond = __int128{batch - 1} * stride;
    const __int128 low = std::min<__int128>(beyond, 0) * bits / 8;
    const __int128 high = ((count + std::max<__int128>(beyond, 0)) * bits + 7) / 8;
    return spans(address, low, high);
  }
  // What a layout says.
  bool has(uint64_t address, const LtDescriptor &layout) const;

 private:
  bool spans(uint64_t address, __int128 low, __int128 high) const {
    const __int128 begin = __int128{address} + low, end = __int128{address} + high;
    if (begin < 0 || end > UINT64_MAX) return false;
    return reachable_(static_cast<uint64_t>(begin), static_cast<uint64_t>(end - begin));
  }

  const LtArguments::Reachable &reachable_;
};

bool Memory::has(uint64_t address, const LtDescriptor &layout) const {
  const int64_t rows = layout.whole(LT_AT_ROWS), columns = layout.whole(LT_AT_COLUMNS);
  const int64_t ld = layout.whole(LT_AT_LD), plane = layout.whole(LT_AT_PLANE);
  const int64_t batch = layout.number(LT_AT_BATCH), stride = layout.whole(LT_AT_STRIDE);
  if (!address || rows == 0 || columns == 0 || batch == 0) return true;
  if (rows < 0 || columns < 0 || batch < 0) return false;
  const int32_t mode = layout.number(LT_AT_BATCH_MODE);
  if (mode == kPointers) return has(address, batch, 64);
  // What layouts of later ones mean nobody knows here.
  if (mode != kStrided) return false;
  if (!is_sane(rows) || !is_sane(columns) || !is_sane(ld) || !is_sane(stride) || !is_sane(plane))
    return false;
  const int32_t type = layout.number(LT_AT_TYPE);
  // Real and imaginary parts may lie apart.
  const bool is_planar = plane && library_is_complex(static_cast<uint32_t>(type));
  const int64_t bits = bits_of(type) / (is_planar ? 2 : 1);
  __int128 low = 0, high = 0;
  switch (layout.number(LT_AT_ORDER)) {
    case kColumns:
    case kRows: {
      const bool by_columns = layout.number(LT_AT_ORDER) == kColumns;
      const __int128 steps = __int128{(by_columns ? columns : rows) - 1} * ld;
      low = std::min<__int128>(steps, 0);
      high = std::max<__int128>(steps, 0) + (by_columns ? rows : columns);
      break;
    }
    default:
      // 32 columns of all rows lie together.
      if (ld / 32 < rows) return false;
      high = __int128{in_all(columns, 32)} * ld;
  }
  const __int128 beyond = __int128{batch - 1} * stride;
  low += std::min<__int128>(beyond, 0);
  high += std::max<__int128>(beyond, 0);
  const __int128 first = low * bits / 8, end = (high * bits + 7) / 8;
  return spans(address, first, end) && (!plane || spans(address, first + plane, end + plane));
}

// How many bytes the scales of a matrix have at least.
int64_t scale_bytes(int32_t mode, const LtDescriptor &layout, bool by_rows) {
  const int64_t rows = layout.whole(LT_AT_ROWS), columns = layout.whole(LT_AT_COLUMNS);
  if (rows <= 0 || columns <= 0 || !is_sane(rows) || !is_sane(columns)) return 0;
  switch (mode) {
    case 1:
      return in_all(rows, 16) * columns;
    case 2:
      return in_all(rows, 32) * columns;
    case 3:
      return (by_rows ? rows : columns) * 4;
    case 4:
      return in_all(rows, 128) * columns * 4;
    case 5:
      return in_all(rows, 128) * in_all(columns, 128) * 4;
    default:
      return 4;
  }
}

}  // namespace

bool LtDescriptor::read(lt_kind kind, LtWords *words) {
  kind_ = kind;
  const lt_table &table = lt_tables[kind];
  if (words->empty()) return false;
  told_ = words->front();
  *words = words->subspan(1);
  if (told_ >> table.count) return false;
  for (uint32_t i = 0; i < table.count; i++) {
    const lt_attribute &attribute = table.attributes[i];
    memcpy(object_ + attribute.place, &attribute.otherwise, attribute.bytes);
    if (!is_told(i)) continue;
    uint64_t word = 0;
    if (!take(words, &word)) return false;
    memcpy(object_ + attribute.place, &word, attribute.bytes);
  }
  return true;
}

const char *LtArguments::decode(uint32_t which, std::span<const uint8_t> bytes) {
  uint64_t words[LT_WORDS_MOST];
  function = which;
  if (bytes.size() > sizeof words || bytes.size() % 8) return "it is longer than its arguments";
  if (!bytes.empty()) memcpy(words, bytes.data(), bytes.size());
  return decode_words({words, bytes.size() / 8});
}

const char *LtArguments::decode_words(LtWords words) {
  bool whole = true;
  const auto read_algo = [&] { whole = whole && take(&words, &algo), has_algo = true; };
  const auto read_numbers = [&](size_t count) { whole = whole && take(&words, numbers, count); };
  const auto read = [&](LtDescriptor *one, lt_kind kind) {
    whole = whole && one->read(kind, &words);
  };
  const auto read_layouts = [&](size_t count) {
    for (size_t i = 0; i < count; i++) read(&layouts[i], LT_LAYOUT);
  };
  switch (function) {
    case LT_MATMUL:
      whole = take(&words, &matmul);
      if (matmul.flags & ~uint64_t{LT_HAS_ALGO | LT_D_IS_LIKE_C}) return "it has unknown flags";
      if (matmul.flags & LT_HAS_ALGO) read_algo();
      read(&desc, LT_DESC);
      read_layouts(matmul.flags & LT_D_IS_LIKE_C ? 3 : 4);
      if (matmul.flags & LT_D_IS_LIKE_C) layouts[3] = layouts[2];
      break;
    case LT_TRANSFORM:
      whole = take(&words, &transform);
      read(&desc, LT_TRANSFORM_DESC);
      read_layouts(3);
      break;
    case LT_HEURISTIC:
      read_numbers(1);
      if (whole && (numbers[0] < 1 || numbers[0] > LT_RESULTS_MOST)) return "it wants too many";
      read(&desc, LT_DESC);
      read_layouts(4);
      read(&preference, LT_PREFERENCE);
      break;
    case LT_ALGO_CHECK:
      read_algo();
      read(&desc, LT_DESC);
      read_layouts(4);
      break;
    case LT_ALGO_IDS:
      read_numbers(7);
      if (whole && (numbers[6] < 1 || numbers[6] > LT_IDS_MOST)) return "it wants too many";
      break;
    case LT_ALGO_INIT:
      read_numbers(7);
      break;
    case LT_ALGO_CAP:
    case LT_ALGO_CONFIG_GET:
      read_algo();
      read_numbers(2);
      if (whole && (numbers[1] < 0 || numbers[1] > LT_ATTRIBUTE_BYTES_MOST))
        return "it wants too many bytes";
      break;
    case LT_ALGO_CONFIG_SET:
      read_algo();
      read_numbers(3);
      if (whole && (numbers[1] < 0 || numbers[1] > 8)) return "its value is too long";
      break;
    default:
      return "a call of a function that its library does not have";
  }
  if (!whole) return "it has fewer arguments than its function";
  return words.empty() ? nullptr : "it is longer than its arguments";
}

bool LtArguments::are_reachable(const Reachable &reachable) const {
  // One of another kind might be read here.
  const int32_t mode =
      desc.number(function == LT_MATMUL ? LT_AT_POINTER_MODE : LT_AT_TRANSFORM_POINTER_MODE);
  if (mode < 0 || mode > (function == LT_MATMUL ? 4 : 1)) return false;
  return function == LT_MATMUL ? matmul_is_reachable(reachable) : transform_is_reachable(reachable);
}

bool LtArguments::matmul_is_reachable(const Reachable &reachable) const {
  const Memory memory(reachable);
  const lt_matmul &m = matmul;
  const uint64_t pointers[] = {m.a, m.b, m.c, m.d};
  for (size_t i = 0; i < 4; i++)
    if (!memory.has(pointers[i], layouts[i])) return false;
  if (m.workspace_size > uint64_t{kSaneMost}) return false;
  if (!memory.has(m.workspace, static_cast<int64_t>(m.workspace_size), 8)) return false;

  const LtDescriptor &d = layouts[3];
  const int64_t rows = d.whole(LT_AT_ROWS), columns = d.whole(LT_AT_COLUMNS);
  const int64_t batch = d.number(LT_AT_BATCH);
  if (rows == 0 || columns == 0) return true;
  if (rows < 0 || columns < 0 || !is_sane(rows) || !is_sane(columns)) return false;

  const int32_t mode = desc.number(LT_AT_POINTER_MODE);
  const int32_t scale_type = desc.number(LT_AT_SCALE_TYPE);
  const int64_t scale = bits_of(scale_type), scalars = mode >= 2 ? rows : 1;
  if (!lt_alpha_here(mode) &&
      !memory.has(m.alpha[0], scalars, scale, batch, desc.whole(LT_AT_ALPHA_STRIDE)))
    return false;
  // In mode 3 it is zero, whatever is said.
  if (!lt_beta_here(mode) && mode != 3 && !memory.has(m.beta[0], scalars, scale)) return false;

  const uint32_t epilogue = static_cast<uint32_t>(desc.number(LT_AT_EPILOGUE));
  const int32_t d_type = d.number(LT_AT_TYPE);
  if (epilogue & ~kWithoutBias) {
    const int32_t told = desc.number(LT_AT_BIAS_TYPE);
    // Unless told it is that of D, but for products of 8 bits, where it is another; of whole
    // numbers it is that of alpha.
    const int32_t a_type = layouts[0].number(LT_AT_TYPE);
    const int64_t untold = a_type == kInt8 ? 32 : bits_of(a_type) <= 8 ? 16 : bits_of(d_type);
    const int64_t bits = told >= 0 ? bits_of(told) : untold;
    const int64_t count = epilogue & kSumsOfB ? columns : rows;
    if (!memory.has(desc.address(LT_AT_BIAS), count, bits, batch, desc.whole(LT_AT_BIAS_STRIDE)))
      return false;
  }
  if (epilogue & kAux) {
    const int64_t ld = desc.whole(LT_AT_AUX_LD), stride = desc.whole(LT_AT_AUX_STRIDE);
    if (ld < 0 || !is_sane(ld)) return false;
    const int32_t told = desc.number(LT_AT_AUX_TYPE);
    const bool is_mask = epilogue & (kRelu | kReluBackwards);
    const int64_t bits = is_mask ? 1 : bits_of(told >= 0 ? told : d_type);
    const __int128 count = __int128{columns - 1} * ld + rows;
    if (!memory.has(desc.address(LT_AT_AUX), count, bits, batch, stride)) return false;
  }

  for (uint32_t i = 0; i < 4; i++) {
    const int32_t how = desc.number(LT_AT_A_SCALE_MODE + 4 * i);
    const bool by_rows = i == 0   ? desc.number(LT_AT_TRANSA) == 0
                         : i == 1 ? desc.number(LT_AT_TRANSB) != 0
                                  : true;
    const uint64_t at = desc.address(LT_AT_A_SCALE + 8 * i);
    if (!memory.has(at, scale_bytes(how, layouts[i], by_rows), 8)) return false;
  }
  const int64_t out = scale_bytes(desc.number(LT_AT_D_OUT_SCALE_MODE), d, true);
  if (!memory.has(desc.address(LT_AT_D_OUT_SCALE), out, 8)) return false;
  for (const uint32_t place : {LT_AT_D_AMAX, LT_AT_AUX_SCALE, LT_AT_AUX_AMAX})
    if (!memory.has(desc.address(place), 4, 8)) return false;
  return true;
}

bool LtArguments::transform_is_reachable(const Reachable &reachable) const {
  const Memory memory(reachable);
  const lt_transform &t = transform;
  const uint64_t pointers[] = {t.a, t.b, t.c};
  for (size_t i = 0; i < 3; i++)
    if (!memory.has(pointers[i], layouts[i])) return false;
  const int32_t mode = desc.number(LT_AT_TRANSFORM_POINTER_MODE);
  if (mode == LIBRARY_MODE_HOST) return true;
  const int64_t bits = bits_of(desc.number(LT_AT_TRANSFORM_SCALE_TYPE));
  return memory.has(t.alpha[0], 1, bits) && memory.has(t.beta[0], 1, bits);
}

std::string LtArguments::text() const {
  const LtDescriptor &out = layouts[function == LT_MATMUL ? 3 : 2], &a = layouts[0];
  std::string text = function == LT_MATMUL ? "cublasLtMatmul(" : "cublasLtMatrixTransform(";
  text += std::to_string(out.whole(LT_AT_ROWS)) + "," + std::to_string(out.whole(LT_AT_COLUMNS));
  if (function == LT_MATMUL) {
    const bool turned = desc.number(LT_AT_TRANSA) != 0;
    text += "," + std::to_string(a.whole(turned ? LT_AT_ROWS : LT_AT_COLUMNS));
  }
  text += " of type " + std::to_string(a.number(LT_AT_TYPE));
  const int32_t batch = out.number(LT_AT_BATCH);
  if (batch != 1) text += ", " + std::to_string(batch) + " times";
  return text + ")";
}

}  // namespace outboard
