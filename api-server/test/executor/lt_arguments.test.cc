// Arguments of calls of cuBLASLt, as guests send them and as hostile ones might.
#include "libraries/lt_arguments.h"

#include <vector>

#include "check.h"

using namespace outboard;

namespace {

using Words = std::vector<uint64_t>;
constexpr uint64_t kMemory = 0x400000000000;

// A descriptor whose attributes at these places of its table are told.
struct Told {
  std::vector<std::pair<uint32_t, int64_t>> all;
  Told with(uint32_t place, int64_t value) const {
    Told more = *this;
    more.all.emplace_back(place, value);
    return more;
  }
  void add(Words *to) const {
    uint64_t bits = 0;
    Words values;
    for (uint32_t place = 0; place < 64; place++) {
      for (const auto &[at, value] : all) {
        if (at != place) continue;
        bits |= uint64_t{1} << place;
        values.push_back(static_cast<uint64_t>(value));
      }
    }
    to->push_back(bits);
    to->insert(to->end(), values.begin(), values.end());
  }
};

// Places in the tables.
enum { kType, kOrder, kRows, kColumns, kLd, kBatch, kStride, kPlane, kBatchMode };
enum {
  kComputeType,
  kScaleType,
  kPointerMode,
  kEpilogue = 7,
  kBias = 8,
  kAux = 10,
  kAuxLd,
  kAScale = 16
};

Told layout(int64_t rows, int64_t columns, int64_t ld) {
  return Told{{{kRows, rows}, {kColumns, columns}, {kLd, ld}}};
}
const Told kSquare = layout(16, 16, 16), kDesc = Told{{{kComputeType, 68}}};

struct Product {
  Told desc = kDesc, a = kSquare, b = kSquare, c = kSquare;
  uint64_t workspace = 0, workspace_size = 0, alpha = 0, beta = 0, at_b = kMemory + 0x100000;
  Words words() const {
    lt_matmul m{};
    m.flags = LT_D_IS_LIKE_C;
    m.a = kMemory;
    m.b = at_b;
    m.c = m.d = kMemory + 0x200000;
    m.workspace = workspace;
    m.workspace_size = workspace_size;
    m.alpha[0] = alpha;
    m.beta[0] = beta;
    Words words(sizeof m / 8);
    memcpy(words.data(), &m, sizeof m);
    for (const Told *one : {&desc, &a, &b, &c}) one->add(&words);
    return words;
  }
};

std::string why(uint32_t function, const Words &words) {
  LtArguments arguments;
  const char *broken = arguments.decode(
      function, {reinterpret_cast<const uint8_t *>(words.data()), words.size() * 8});
  return broken ? broken : "ok";
}

// How far the call reaches from `from` on, up to the next megabyte: `LOW HIGH`.
std::string reach(const Product &product, uint64_t from = kMemory) {
  const Words words = product.words();
  LtArguments arguments;
  CHECK(!arguments.decode(LT_MATMUL,
                          {reinterpret_cast<const uint8_t *>(words.data()), words.size() * 8}));
  int64_t low = 0, high = 0;
  const bool all = arguments.are_reachable([&](uint64_t address, uint64_t size) {
    const int64_t begin = static_cast<int64_t>(address - from);
    if (begin < -0x80000 || begin >= 0x80000) return true;
    low = std::min(low, begin);
    high = std::max(high, begin + static_cast<int64_t>(size));
    return true;
  });
  return all ? std::to_string(low) + " " + std::to_string(high) : "no";
}

std::string reach_of_a(const Told &a) {
  Product product;
  product.a = a;
  return reach(product);
}

}  // namespace

TEST(a_matrix_reaches_as_far_as_its_layout_says) {
  CHECK_EQUAL(reach_of_a(kSquare), "0 1024");
  CHECK_EQUAL(reach_of_a(layout(4, 3, 10)), "0 96");
  CHECK_EQUAL(reach_of_a(layout(4, 3, 10).with(kOrder, 1)), "0 132");
  CHECK_EQUAL(reach_of_a(layout(4, 3, 10).with(kType, 2)), "0 48");
  CHECK_EQUAL(reach_of_a(layout(4, 3, 10).with(kType, 5)), "0 384");
  CHECK_EQUAL(reach_of_a(layout(4, 3, -10)), "-80 16");
  // A row for 32 columns.
  CHECK_EQUAL(reach_of_a(layout(4, 40, 128).with(kOrder, 2).with(kType, 3)), "0 256");
  CHECK_EQUAL(reach_of_a(layout(4, 3, 4).with(kBatch, 3).with(kStride, 100)), "0 848");
  CHECK_EQUAL(reach_of_a(layout(4, 3, 4).with(kBatch, 3).with(kStride, -100)), "-800 48");
  // Pointers, whatever the matrices are.
  CHECK_EQUAL(reach_of_a(layout(4, 3, 4).with(kBatch, 3).with(kBatchMode, 1)), "0 24");
  // Real and imaginary parts that lie apart.
  CHECK_EQUAL(reach_of_a(layout(4, 3, 4).with(kType, 4).with(kPlane, 4096)), "0 4144");
  // Of others these say nothing.
  CHECK_EQUAL(reach_of_a(layout(4, 3, 4).with(kType, 0).with(kPlane, 64)), "0 112");
  // Of what is no way to lay them out that is known here.
  CHECK_EQUAL(reach_of_a(layout(4, 3, 4).with(kBatch, 3).with(kBatchMode, 2)), "no");
  // Half bytes.
  CHECK_EQUAL(reach_of_a(layout(5, 1, 5).with(kType, 33)), "0 3");
  CHECK_EQUAL(reach_of_a(layout(0, 3, 4)), "0 0");
}

TEST(what_has_no_end_is_not_the_guests) {
  const int64_t far = int64_t{1} << 62;
  for (const Told &a : {layout(far, 2, 4), layout(4, far, 4), layout(4, 2, far), layout(4, 2, -far),
                        kSquare.with(kBatch, 2).with(kStride, far), kSquare.with(kPlane, far)})
    CHECK_EQUAL(reach_of_a(a), "no");
  Product product;
  product.workspace = kMemory;
  product.workspace_size = uint64_t{1} << 63;
  CHECK_EQUAL(reach(product), "no");
}

TEST(what_an_epilogue_names_is_looked_at) {
  const uint64_t elsewhere = kMemory + 0x400000;
  const auto with = [&](const Told &desc, const Told &c = kSquare, const Told &a = kSquare) {
    Product product;
    product.desc = desc;
    product.a = a;
    product.c = c;
    return reach(product, elsewhere);
  };
  const Told bias = kDesc.with(kBias, static_cast<int64_t>(elsewhere));
  const Told wide = layout(8, 20, 8);
  // A pointer that is left over from another product is not read.
  CHECK_EQUAL(with(bias), "0 0");
  CHECK_EQUAL(with(bias.with(kEpilogue, 2)), "0 0");
  CHECK_EQUAL(with(bias.with(kEpilogue, 4), wide), "0 32");
  CHECK_EQUAL(with(bias.with(kEpilogue, 36), wide), "0 32");
  // One of whole numbers is added as alpha is.
  CHECK_EQUAL(with(bias.with(kEpilogue, 4), wide.with(kType, 3), kSquare.with(kType, 3)), "0 32");
  // Sums of B have one for each column.
  CHECK_EQUAL(with(bias.with(kEpilogue, 512), wide), "0 80");
  const Told aux = kDesc.with(kAux, static_cast<int64_t>(elsewhere)).with(kAuxLd, 128);
  CHECK_EQUAL(with(aux.with(kEpilogue, 2 | 128), wide), "0 305");
  CHECK_EQUAL(with(aux.with(kEpilogue, 32 | 128), wide), "0 9760");
  CHECK_EQUAL(with(kDesc.with(kAScale, static_cast<int64_t>(elsewhere))), "0 4");
}

TEST(scalars_are_where_the_pointer_mode_says) {
  const auto with = [](int64_t mode) {
    Product product;
    product.desc = kDesc.with(kPointerMode, mode);
    product.alpha = kMemory + 0x300000;
    product.beta = kMemory + 0x300000 + 0x1000;
    return reach(product, kMemory + 0x300000);
  };
  CHECK_EQUAL(with(0), "0 0");
  CHECK_EQUAL(with(1), "0 4100");
  CHECK_EQUAL(with(2), "0 4160");
  CHECK_EQUAL(with(3), "0 64");
  CHECK_EQUAL(with(4), "0 64");
  // Of another one nobody knows where it has them.
  CHECK_EQUAL(with(5), "no");
  CHECK_EQUAL(with(-1), "no");
}

TEST(malformed_calls_are_told) {
  const Words whole = Product().words();
  CHECK_EQUAL(why(LT_MATMUL, whole), "ok");
  for (size_t length = 0; length < whole.size(); length++)
    CHECK_EQUAL(why(LT_MATMUL, Words(whole.begin(), whole.begin() + static_cast<long>(length))),
                "it has fewer arguments than its function");
  Words longer = whole;
  longer.push_back(0);
  CHECK_EQUAL(why(LT_MATMUL, longer), "it is longer than its arguments");
  CHECK_EQUAL(why(LT_MATMUL, Words(1000)), "it is longer than its arguments");
  Words flagged = whole;
  flagged[0] = 8;
  CHECK_EQUAL(why(LT_MATMUL, flagged), "it has unknown flags");
  // An attribute beyond the table.
  CHECK_EQUAL(why(LT_HEURISTIC, {1, uint64_t{1} << 40, 0}),
              "it has fewer arguments than its function");
  CHECK_EQUAL(why(LT_HEURISTIC, {LT_RESULTS_MOST + 1}), "it wants too many");
  CHECK_EQUAL(why(LT_ALGO_IDS, {0, 0, 0, 0, 0, 0, LT_IDS_MOST + 1}), "it wants too many");
  CHECK_EQUAL(why(LT_ALGO_CAP, {1, 2, 3, 4, 5, 6, 7, 8, 0, 5000}), "it wants too many bytes");
  CHECK_EQUAL(why(LT_ALGO_CONFIG_SET, {1, 2, 3, 4, 5, 6, 7, 8, 0, 9, 0}), "its value is too long");
  CHECK_EQUAL(why(LT_FUNCTION_COUNT, {}), "a call of a function that its library does not have");
}

TEST(costs_are_told_apart_by_what_is_computed) {
  const auto text = [](const Product &product) {
    const Words words = product.words();
    LtArguments arguments;
    arguments.decode(LT_MATMUL,
                     {reinterpret_cast<const uint8_t *>(words.data()), words.size() * 8});
    return arguments.text();
  };
  Product product;
  CHECK_EQUAL(text(product), "cublasLtMatmul(16,16,16 of type 0)");
  product.c = layout(8, 20, 8).with(kBatch, 3);
  CHECK_EQUAL(text(product), "cublasLtMatmul(8,20,16 of type 0, 3 times)");
}
