#include "libraries/cublas_lt.h"

#include <dlfcn.h>

#include <algorithm>
#include <iterator>
#include <string>

#include "base/library_at_work.h"
#include "libraries/cublas.h"

namespace outboard {

namespace {

// What a guest sets of an algorithm, as far as the library takes it for the place in a table.
struct LtSetting {
  int id;        // of cublasLtMatmulAlgoConfigAttributes_t
  size_t bytes;  // of its value
  int cap;       // the attribute of its capabilities that names the values, or the greatest; or -1
  uint32_t most;
};
constexpr LtSetting kLtSettings[] = {
    {1, 4, 6, 0},      // tile
    {2, 4, -1, 4096},  // parts of K
    {3, 4, -1, 7},     // how these are summed up
    {4, 4, -1, 255},   // order of blocks
    {5, 4, 7, 0},      // what only this algorithm knows
    {6, 4, 13, 0},     // stages
    {7, 2, -1, 4},     // inner shape
    {8, 2, -1, 51},    // cluster
};

std::string bytes_of(const uint64_t *algo) {
  return {reinterpret_cast<const char *>(algo), LT_ALGO_WORDS * 8};
}

}  // namespace

LtAlgos::Origin LtAlgos::origin(const uint64_t *algo) const {
  std::lock_guard lock(mutex_);
  const auto one = all_.find(bytes_of(algo));
  return one == all_.end() ? kNone : one->second;
}

bool LtAlgos::add(const uint64_t *algo, Origin origin) {
  // Far more than the problems of a program; some 2 MiB.
  constexpr size_t kMost = 16384;
  std::lock_guard lock(mutex_);
  if (all_.size() >= kMost && !all_.contains(bytes_of(algo))) return false;
  Origin &kept = all_[bytes_of(algo)];
  if (kept != kFound) kept = origin;
  return true;
}

bool LtAlgos::empty() const {
  std::lock_guard lock(mutex_);
  return all_.empty();
}

void LtAlgos::clear() {
  std::lock_guard lock(mutex_);
  all_.clear();
}

bool CublasLt::open(void *library) {
  bool whole = true;
  const auto find = [&](auto *function, const char *name) {
    *reinterpret_cast<void **>(function) = dlsym(library, name);
    whole = whole && *function;
  };
  find(&create_, "cublasLtCreate");
  find(&destroy_, "cublasLtDestroy");
  find(&matmul_, "cublasLtMatmul");
  find(&transform_, "cublasLtMatrixTransform");
  find(&heuristic_, "cublasLtMatmulAlgoGetHeuristic");
  find(&check_, "cublasLtMatmulAlgoCheck");
  find(&ids_, "cublasLtMatmulAlgoGetIds");
  find(&init_, "cublasLtMatmulAlgoInit");
  find(&cap_, "cublasLtMatmulAlgoCapGetAttribute");
  find(&config_get_, "cublasLtMatmulAlgoConfigGetAttribute");
  find(&config_set_, "cublasLtMatmulAlgoConfigSetAttribute");
  find(&init_desc_, "cublasLtMatmulDescInit_internal");
  find(&init_layout_, "cublasLtMatrixLayoutInit_internal");
  find(&init_transform_, "cublasLtMatrixTransformDescInit_internal");
  find(&init_preference_, "cublasLtMatmulPreferenceInit_internal");
  find(&set_[LT_DESC], "cublasLtMatmulDescSetAttribute");
  find(&set_[LT_LAYOUT], "cublasLtMatrixLayoutSetAttribute");
  find(&set_[LT_TRANSFORM_DESC], "cublasLtMatrixTransformDescSetAttribute");
  find(&set_[LT_PREFERENCE], "cublasLtMatmulPreferenceSetAttribute");
  return whole;
}

void *CublasLt::create(int *status) const {
  void *handle = nullptr;
  const LibraryAtWork at_work;
  *status = create_(&handle);
  return *status == kCublasSuccess ? handle : nullptr;
}

void CublasLt::destroy(void *handle) const {
  const LibraryAtWork at_work;
  destroy_(handle);
}

int CublasLt::make(const LtDescriptor &from, Object *object) const {
  int status = kCublasNotSupported;
  uint64_t given = 0;  // what it has been made with, a bit each
  switch (from.kind()) {
    case LT_DESC:
      status = init_desc_(object, sizeof *object, from.number(LT_AT_COMPUTE_TYPE),
                          from.number(LT_AT_SCALE_TYPE));
      given = 0b11;
      break;
    case LT_LAYOUT:
      status =
          init_layout_(object, sizeof *object, from.number(LT_AT_TYPE), from.address(LT_AT_ROWS),
                       from.address(LT_AT_COLUMNS), from.whole(LT_AT_LD));
      given = 0b11101;
      break;
    case LT_TRANSFORM_DESC:
      status = init_transform_(object, sizeof *object, from.number(LT_AT_TRANSFORM_SCALE_TYPE));
      given = 0b1;
      break;
    case LT_PREFERENCE:
      status = init_preference_(object, sizeof *object);
      break;
    case LT_KIND_COUNT:
      break;
  }
  const lt_table &table = lt_tables[from.kind()];
  for (uint32_t i = 0; status == kCublasSuccess && i < table.count; i++) {
    const lt_attribute &attribute = table.attributes[i];
    if (given >> i & 1 || !from.is_told(i)) continue;
    status = set_[from.kind()](object, attribute.id, from.at(attribute.place), attribute.bytes);
  }
  return status;
}

LtAlgos::Origin CublasLt::origin_of(const uint64_t *algo) const {
  // Of numbers that the library names, the greatest that it says it has; of others the greatest
  // that there is.
  const auto greatest = [&](int cap) {
    uint32_t all[4096] = {};
    size_t bytes = 0;
    if (cap_(algo, cap, nullptr, 0, &bytes) != kCublasSuccess || bytes > sizeof all) return 0u;
    if (cap_(algo, cap, all, bytes, &bytes) != kCublasSuccess) return 0u;
    return *std::max_element(std::begin(all), std::end(all));
  };
  for (const LtSetting &setting : kLtSettings) {
    uint32_t value = 0;
    size_t written = 0;
    // What it does not have is not set, either.
    if (config_get_(algo, setting.id, &value, setting.bytes, &written) != kCublasSuccess) continue;
    if (value > (setting.cap < 0 ? setting.most : greatest(setting.cap))) return LtAlgos::kBeyond;
  }
  return LtAlgos::kSet;
}

int CublasLt::check(void *handle, const LtArguments &arguments, const LtAlgos &algos,
                    const Object &desc, const Object *layouts, lt_result *result) const {
  // Of what is beyond its tables the library itself reads whatever lies there.
  if (algos.origin(arguments.algo) == LtAlgos::kBeyond) return kCublasNotSupported;
  return check_(handle, &desc, &layouts[0], &layouts[1], &layouts[2], &layouts[3], arguments.algo,
                result);
}

int CublasLt::start(const Gate::Pass &, void *handle, const LtArguments &arguments,
                    const LtAlgos &algos, CUstream stream) const {
  const LibraryAtWork at_work;
  Object desc, layouts[4];
  int status = make(arguments.desc, &desc);
  const size_t count = arguments.function == LT_MATMUL ? 4 : 3;
  for (size_t i = 0; status == kCublasSuccess && i < count; i++)
    status = make(arguments.layouts[i], &layouts[i]);
  if (status != kCublasSuccess) return status;
  // A number lies here, an address is what the word says.
  const auto scalar = [](const uint64_t *words, bool here) {
    return here ? words : reinterpret_cast<const uint64_t *>(words[0]);
  };
  if (arguments.function == LT_TRANSFORM) {
    const lt_transform &t = arguments.transform;
    const bool here = arguments.desc.number(LT_AT_TRANSFORM_POINTER_MODE) == LIBRARY_MODE_HOST;
    return transform_(handle, &desc, scalar(t.alpha, here), t.a, &layouts[0], scalar(t.beta, here),
                      t.b, t.b ? &layouts[1] : nullptr, t.c, &layouts[2], stream);
  }
  const lt_matmul &m = arguments.matmul;
  if (arguments.has_algo && algos.origin(arguments.algo) != LtAlgos::kFound) {
    lt_result result{};
    status = check(handle, arguments, algos, desc, layouts, &result);
    if (status == kCublasSuccess) status = result.state;
    if (status != kCublasSuccess) return status;
    if (result.workspace > (m.workspace ? m.workspace_size : 0)) return kCublasInvalidValue;
  }
  const int32_t mode = arguments.desc.number(LT_AT_POINTER_MODE);
  return matmul_(handle, &desc, scalar(m.alpha, lt_alpha_here(mode)), m.a, &layouts[0], m.b,
                 &layouts[1], scalar(m.beta, lt_beta_here(mode)), m.c, &layouts[2], m.d,
                 &layouts[3], arguments.has_algo ? arguments.algo : nullptr, m.workspace,
                 m.workspace_size, stream);
}

int CublasLt::heuristic(void *handle, const LtArguments &arguments, LtAlgos *algos,
                        LtAnswer *answer) const {
  Object desc, layouts[4], preference;
  int status = make(arguments.desc, &desc);
  for (size_t i = 0; status == kCublasSuccess && i < 4; i++)
    status = make(arguments.layouts[i], &layouts[i]);
  if (arguments.function == LT_ALGO_CHECK) {
    auto *result = reinterpret_cast<lt_result *>(answer->words);
    if (status == kCublasSuccess) status = check(handle, arguments, *algos, desc, layouts, result);
    if (status == kCublasSuccess) answer->size = sizeof *result;
    return status;
  }
  if (status == kCublasSuccess) status = make(arguments.preference, &preference);
  if (status != kCublasSuccess) return status;
  auto *results = reinterpret_cast<lt_result *>(&answer->words[1]);
  // Where it cannot tell, it may leave that as it is.
  int count = -1;
  status = heuristic_(handle, &desc, &layouts[0], &layouts[1], &layouts[2], &layouts[3],
                      &preference, static_cast<int>(arguments.numbers[0]), results, &count);
  if (count < 0 || count > arguments.numbers[0]) return status;
  answer->words[0] = static_cast<uint64_t>(count);
  answer->size = 8;
  if (status != kCublasSuccess) return status;
  answer->size += static_cast<uint32_t>(static_cast<size_t>(count) * sizeof *results);
  for (int i = 0; i < count; i++)
    if (!algos->add(results[i].algo, LtAlgos::kFound)) return kCublasAllocFailed;
  return status;
}

int CublasLt::ask(void *handle, const LtArguments &arguments, LtAlgos *algos,
                  LtAnswer *answer) const {
  const LibraryAtWork at_work;
  const int64_t *const n = arguments.numbers;
  const auto number = [&](size_t i) { return static_cast<int>(n[i]); };
  int status = kCublasNotSupported;
  switch (arguments.function) {
    case LT_HEURISTIC:
    case LT_ALGO_CHECK:
      return heuristic(handle, arguments, algos, answer);
    case LT_ALGO_IDS: {
      int count = 0;
      status = ids_(handle, number(0), number(1), number(2), number(3), number(4), number(5),
                    number(6), reinterpret_cast<int *>(&answer->words[1]), &count);
      if (status != kCublasSuccess || count < 0 || count > n[6]) return status;
      answer->words[0] = static_cast<uint64_t>(count);
      answer->size = static_cast<uint32_t>(8 + static_cast<size_t>(count) * sizeof(int));
      return status;
    }
    case LT_ALGO_INIT:
      status = init_(handle, number(0), number(1), number(2), number(3), number(4), number(5),
                     number(6), answer->words);
      break;
    case LT_ALGO_CONFIG_SET:
      memcpy(answer->words, arguments.algo, sizeof arguments.algo);
      status = config_set_(answer->words, number(0), &n[2], static_cast<size_t>(n[1]));
      break;
    case LT_ALGO_CAP:
    case LT_ALGO_CONFIG_GET: {
      const auto function = arguments.function == LT_ALGO_CAP ? cap_ : config_get_;
      const auto wanted = static_cast<size_t>(n[1]);
      size_t written = 0;
      status = function(arguments.algo, number(0), wanted ? &answer->words[1] : nullptr, wanted,
                        &written);
      if (status != kCublasSuccess) return status;
      answer->words[0] = written;
      answer->size = static_cast<uint32_t>(8 + std::min(wanted, written));
      return status;
    }
  }
  if (status != kCublasSuccess) return status;
  if (!algos->add(answer->words, origin_of(answer->words))) return kCublasAllocFailed;
  answer->size = sizeof arguments.algo;
  return status;
}

}  // namespace outboard
