#include "libraries/library_arguments.h"

#include <cstring>

#include "libraries/sane.h"

namespace outboard {

// The last one that functions take: CUBLAS_OP_C.
constexpr uint64_t kOperationMost = 2;

const char *LibraryArguments::decode(const library_call &call, uint32_t mode,
                                     std::span<const uint8_t> bytes) {
  call_ = &call;
  mode_ = mode;
  if (mode != LIBRARY_MODE_HOST && mode != LIBRARY_MODE_DEVICE) return "its pointer mode is none";
  const size_t fixed = call.count * sizeof(uint64_t);
  if (bytes.size() < fixed) return "it has fewer arguments than its function";
  memcpy(words_, bytes.data(), fixed);
  size_t at = fixed, scalars = 0, results = 0;
  for (uint32_t i = 0; i < call.count; i++) {
    const library_argument &argument = call.arguments[i];
    // What is looked at here is what the function sees.
    const bool is_int = call.ints >> i & 1;
    if (is_int && static_cast<int64_t>(words_[i]) != static_cast<int32_t>(words_[i]))
      return "a number does not fit into its parameter";
    if (!library_in_host(&argument, mode)) continue;
    if (argument.optional && words_[i] == LIBRARY_NONE) {
      words_[i] = 0;
      continue;
    }
    const uint32_t size = library_element(&argument, words_) * argument.count;
    if (!size) return "nobody knows the size of a scalar of its type";
    const uint32_t padded = (size + 7) & ~7u;
    const bool receives = library_receives(&argument, mode);
    size_t &used = receives ? results : scalars;
    if (size > LIBRARY_SCALAR_MAX || used + LIBRARY_SCALAR_MAX > LIBRARY_SCALARS_MAX)
      return "its scalars are too many";
    uint8_t *const place = reinterpret_cast<uint8_t *>(receives ? results_ : scalars_) + used;
    if (library_sends(&argument, mode)) {
      if (bytes.size() - at < padded) return "a scalar is missing";
      memcpy(place, bytes.data() + at, size);
      at += padded;
    }
    words_[i] = reinterpret_cast<uint64_t>(place);
    used += (size + 15) & ~15u;
  }
  if (at != bytes.size()) return "it is longer than its arguments";
  results_size_ = static_cast<uint32_t>(results);
  return nullptr;
}

int64_t LibraryArguments::length(const library_length &length) const {
  const auto value = [&](int8_t place) {
    return place < 0 ? 0 : static_cast<int64_t>(words_[place]);
  };
  const int64_t first = value(length.first), second = value(length.second);
  return is_sane(first) && is_sane(second) ? first + second + length.plus : kSaneMost + 1;
}

bool LibraryArguments::reaches(const library_argument &argument, uint64_t address,
                               const Reachable &reachable) const {
  const auto value = [&](int8_t place, int64_t otherwise) {
    return place < 0 ? otherwise : static_cast<int64_t>(words_[place]);
  };
  // An operation or side that there is not has any shape.
  if (argument.by >= 0 && words_[argument.by] > kOperationMost) return false;
  const int which = argument.by >= 0 && words_[argument.by] != 0;
  const int64_t element = library_element(&argument, words_);
  int64_t rows = argument.count, columns = 1, step = 1;
  if (argument.kind >= LIBRARY_VECTOR) {
    rows = length(argument.rows[which]);
    step = value(argument.step, 1);
  }
  if (argument.kind == LIBRARY_MATRIX) columns = length(argument.columns[which]);
  const int64_t batch = value(argument.batch, 1), stride = value(argument.stride, 0);
  if (!element || !is_sane(rows) || !is_sane(columns) || !is_sane(step) || !is_sane(batch) ||
      !is_sane(stride))
    return false;
  // Nothing is touched.
  if (rows <= 0 || columns <= 0 || batch <= 0) return true;
  __int128 span = rows;
  if (argument.kind == LIBRARY_VECTOR) span = __int128{rows - 1} * (step < 0 ? -step : step) + 1;
  if (argument.kind == LIBRARY_MATRIX) span = __int128{columns - 1} * (step < 0 ? 0 : step) + rows;
  if (argument.kind == LIBRARY_PACKED) span = __int128{rows} * (rows + 1) / 2;
  const __int128 beyond = __int128{batch - 1} * stride;
  const __int128 low = beyond < 0 ? beyond * element : 0;
  const __int128 high = (span + (beyond > 0 ? beyond : 0)) * element;
  const __int128 begin = __int128{address} + low, end = __int128{address} + high;
  if (begin < 0 || end > UINT64_MAX) return false;
  return reachable(static_cast<uint64_t>(begin), static_cast<uint64_t>(end - begin));
}

bool LibraryArguments::are_reachable(const Reachable &reachable) const {
  for (uint32_t i = 0; i < call_->count; i++) {
    const library_argument &argument = call_->arguments[i];
    if (argument.kind == LIBRARY_VALUE || library_in_host(&argument, mode_)) continue;
    // The library itself knows what to make of none.
    if (words_[i] && !reaches(argument, words_[i], reachable)) return false;
  }
  return true;
}

uint64_t LibraryArguments::shape() const {
  uint64_t hash = mode_;
  for (uint32_t i = 0; i < call_->count; i++) {
    if (call_->arguments[i].kind != LIBRARY_VALUE) continue;
    hash = (hash ^ words_[i]) * 0x9e3779b97f4a7c15ull;
    hash ^= hash >> 32;
  }
  return hash;
}

std::string LibraryArguments::text() const {
  std::string text = call_->name;
  char next = '(';
  for (uint32_t i = 0; i < call_->count; i++) {
    if (call_->arguments[i].kind != LIBRARY_VALUE) continue;
    text += next + std::to_string(static_cast<int64_t>(words_[i]));
    next = ',';
  }
  return next == '(' ? text : text + ")";
}

}  // namespace outboard
