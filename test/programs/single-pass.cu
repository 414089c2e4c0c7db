// CUB's and Thrust's algorithms that go over their data once: each block hands its sum on to the
// next ones while all run, in 4, 8, 16 and more bytes that are stored and loaded at once. How often
// each is done may be said, how many items it has, and that sorts are left out.
#include <thrust/device_ptr.h>
#include <thrust/execution_policy.h>
#include <thrust/reduce.h>
#include <thrust/sort.h>
#include <thrust/unique.h>
#include <cub/cub.cuh>

#include <algorithm>
#include <numeric>
#include <vector>

#include "check.h"

// What compilers and CUB treat as plain memory of 16 bytes.
struct Wide {
  long long low, high;
  __host__ __device__ bool operator==(const Wide &b) const {
    return low == b.low && high == b.high;
  }
  __host__ __device__ bool operator<(const Wide &b) const { return low < b.low; }
};
__host__ __device__ Wide operator+(Wide a, Wide b) { return {a.low + b.low, a.high + b.high}; }

template <class T>
T make(unsigned long long from) {
  return static_cast<T>(from % 1000);
}
template <>
Wide make<Wide>(unsigned long long from) {
  return {static_cast<long long>(from % 1000), static_cast<long long>(from >> 20)};
}
struct Add {
  template <class T>
  __host__ __device__ T operator()(const T &a, const T &b) const {
    return a + b;
  }
};
struct Some {
  __host__ __device__ bool operator()(int a) const { return a % 3 == 0; }
  __host__ __device__ bool operator()(long long a) const { return a % 3 == 0; }
  __host__ __device__ bool operator()(const Wide &a) const { return a.low % 3 == 0; }
};
struct Less {
  template <class T>
  __host__ __device__ bool operator()(const T &a, const T &b) const {
    return a < b;
  }
};

static int rounds = 1, items = 50000, wrong = 0, done = 0;
static unsigned long long state = 1;
static unsigned long long next_number() {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return state >> 24;
}

template <class T>
struct Array {
  T *at;
  explicit Array(size_t count) { CHECK(cudaMalloc(&at, count * sizeof(T))); }
  explicit Array(const std::vector<T> &from) : Array(from.size()) {
    CHECK(cudaMemcpy(at, from.data(), from.size() * sizeof(T), cudaMemcpyHostToDevice));
  }
  Array(const Array &) = delete;
  ~Array() { cudaFree(at); }
  std::vector<T> read(size_t count) const {
    std::vector<T> to(count);
    CHECK(cudaMemcpy(to.data(), at, count * sizeof(T), cudaMemcpyDeviceToHost));
    return to;
  }
};

static void judge(const char *what, int bytes, bool right) {
  done++;
  if (right) return;
  if (wrong++ < 20) fprintf(stderr, "wrong: %s, values of %d bytes\n", what, bytes);
}

// f(space, bytes) asks how much it needs, and then works.
template <class F>
void with_space(F f) {
  size_t bytes = 0;
  CHECK(f(nullptr, bytes));
  Array<char> space(bytes + 1);
  CHECK(f(space.at, bytes));
}

template <class T>
void scans(const std::vector<T> &in) {
  const int n = static_cast<int>(in.size());
  std::vector<T> want(in.size());
  std::partial_sum(in.begin(), in.end(), want.begin(), Add());
  Array<T> from(in), to(in.size());
  for (int i = 0; i < rounds; i++) {
    with_space([&](void *space, size_t &bytes) {
      return cub::DeviceScan::InclusiveScan(space, bytes, from.at, to.at, Add(), n);
    });
    judge("scan", sizeof(T), to.read(in.size()) == want);
  }
}

template <class T>
void selections(const std::vector<T> &in) {
  const int n = static_cast<int>(in.size());
  std::vector<T> chosen, others, runs(in);
  for (const T &value : in) (Some()(value) ? chosen : others).push_back(value);
  std::reverse(others.begin(), others.end());  // as CUB leaves them
  std::vector<T> parted(chosen);
  parted.insert(parted.end(), others.begin(), others.end());
  runs.erase(std::unique(runs.begin(), runs.end()), runs.end());
  Array<T> from(in), to(in.size());
  Array<int> count(1);
  auto right = [&](const std::vector<T> &want, size_t counted) {
    return count.read(1)[0] == static_cast<int>(counted) && to.read(want.size()) == want;
  };
  for (int i = 0; i < rounds; i++) {
    with_space([&](void *space, size_t &bytes) {
      return cub::DeviceSelect::If(space, bytes, from.at, to.at, count.at, n, Some());
    });
    judge("select", sizeof(T), right(chosen, chosen.size()));
    with_space([&](void *space, size_t &bytes) {
      return cub::DevicePartition::If(space, bytes, from.at, to.at, count.at, n, Some());
    });
    judge("partition", sizeof(T), right(parted, chosen.size()));
    with_space([&](void *space, size_t &bytes) {
      return cub::DeviceSelect::Unique(space, bytes, from.at, to.at, count.at, n);
    });
    judge("unique", sizeof(T), right(runs, runs.size()));
  }
}

// Segments of equal keys, all of one length.
template <class T>
void by_key(const std::vector<T> &values, int length) {
  const int n = static_cast<int>(values.size());
  std::vector<int> keys(values.size()), heads;
  std::vector<T> sums;
  for (int i = 0; i < n; i++) {
    keys[i] = i / length;
    if (i % length == 0)
      heads.push_back(keys[i]), sums.push_back(values[i]);
    else
      sums.back() = sums.back() + values[i];
  }
  Array<int> from_keys(keys), to_keys(keys.size()), count(1);
  Array<T> from(values), to(values.size());
  for (int i = 0; i < rounds; i++) {
    with_space([&](void *space, size_t &bytes) {
      return cub::DeviceReduce::ReduceByKey(space, bytes, from_keys.at, to_keys.at, from.at, to.at,
                                            count.at, Add(), n);
    });
    judge("reduce by key", sizeof(T),
          count.read(1)[0] == static_cast<int>(heads.size()) &&
              to_keys.read(heads.size()) == heads && to.read(sums.size()) == sums);
  }
}
static void thrust_by_key(const std::vector<int> &values, int length) {
  const int n = static_cast<int>(values.size());
  std::vector<int> keys(values.size()), sums;
  for (int i = 0; i < n; i++) {
    keys[i] = i / length;
    if (i % length == 0)
      sums.push_back(values[i]);
    else
      sums.back() += values[i];
  }
  Array<int> from_keys(keys), to_keys(keys.size()), from(values), to(values.size());
  auto pointer = [](int *at) { return thrust::device_ptr<int>(at); };
  for (int i = 0; i < rounds; i++) {
    const auto end = thrust::reduce_by_key(pointer(from_keys.at), pointer(from_keys.at) + n,
                                           pointer(from.at), pointer(to_keys.at), pointer(to.at));
    judge("thrust::reduce_by_key", sizeof(int),
          end.second - pointer(to.at) == static_cast<long>(sums.size()) &&
              to.read(sums.size()) == sums);
  }
}

static void run_lengths(int length) {
  std::vector<int> in(items), heads, counts;
  for (int i = 0; i < items; i++) {
    in[i] = i / length % 1000;
    if (i % length == 0) heads.push_back(in[i]), counts.push_back(0);
    counts.back()++;
  }
  Array<int> from(in), to(in.size()), lengths(in.size()), count(1);
  for (int i = 0; i < rounds; i++) {
    with_space([&](void *space, size_t &bytes) {
      return cub::DeviceRunLengthEncode::Encode(space, bytes, from.at, to.at, lengths.at, count.at,
                                                items);
    });
    judge("run lengths", sizeof(int),
          count.read(1)[0] == static_cast<int>(heads.size()) && to.read(heads.size()) == heads &&
              lengths.read(counts.size()) == counts);
  }
}

template <class K, class V>
void sorts(const std::vector<V> &values) {
  const int n = static_cast<int>(values.size());
  std::vector<K> keys(values.size()), want(keys);
  for (K &key : keys) key = static_cast<K>(next_number() * 0x9e3779b97f4a7c15u);
  std::vector<int> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return keys[a] < keys[b]; });
  std::vector<V> moved(values);
  for (int i = 0; i < n; i++) want[i] = keys[order[i]], moved[i] = values[order[i]];
  Array<K> from_keys(keys), to_keys(keys.size());
  Array<V> from(values), to(values.size());
  for (int i = 0; i < rounds; i++) {
    with_space([&](void *space, size_t &bytes) {
      return cub::DeviceRadixSort::SortPairs(space, bytes, from_keys.at, to_keys.at, from.at, to.at,
                                             n);
    });
    judge("radix sort", sizeof(V), to_keys.read(n) == want && to.read(n) == moved);
    Array<K> here_keys(keys);
    Array<V> here(values);
    with_space([&](void *space, size_t &bytes) {
      return cub::DeviceMergeSort::StableSortPairs(space, bytes, here_keys.at, here.at, n, Less());
    });
    judge("merge sort", sizeof(V), here_keys.read(n) == want && here.read(n) == moved);
  }
}

template <class T>
std::vector<T> numbers() {
  std::vector<T> all(items);
  for (T &one : all)
    one = make<T>(next_number() % 7);  // few different ones, so that some are equal
  return all;
}

int main(int argc, char **argv) {
  if (argc > 1) rounds = std::max(1, atoi(argv[1]));
  if (argc > 2) items = std::max(1, atoi(argv[2]));
  const auto ints = numbers<int>();
  const auto longs = numbers<long long>();
  const auto wides = numbers<Wide>();
  scans(ints);
  scans(longs);
  scans(wides);
  selections(ints);
  selections(longs);
  selections(wides);
  for (int length = 16; length <= 16384; length *= 4) {
    by_key(ints, length);
    by_key(longs, length);
    by_key(wides, length);
    thrust_by_key(ints, length);
    run_lengths(length);
  }
  if (argc <= 3) {
    sorts<unsigned>(ints);
    sorts<unsigned>(wides);
    sorts<unsigned long long>(longs);
  }
  printf("%d of %d results are wrong\n", wrong, done);
  return wrong != 0;
}
