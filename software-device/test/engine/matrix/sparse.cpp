// mma.sp: half of A is zeros that are not there, and metadata tells where.
#include <cfenv>

#include "../proven.h"
#include "fragments.h"

using namespace check;
using namespace matrix;
using rig::Device;
using rig::Parameters;

namespace {

struct Case {
  Shape shape;
  const Format *a, *b, *c;
  bool saturate = false, ordered = true;
};

// A dense matrix with the zeros, its packed form, and four bits for each chunk of a row.
struct Sparse {
  Dense dense, packed;
  std::vector<std::vector<uint32_t>> indices;
};

// A chunk: 4 elements of which 2 are kept; tf32: 1 of 2; nibbles: 2 pairs of 4 pairs.
Sparse random_sparse(const Shape &shape, const Format &format, std::mt19937 &random) {
  unsigned chunk = format.bits == 32 ? 2 : format.bits == 4 ? 8 : 4, kept = chunk / 2;
  Sparse sparse{Dense(shape.m, shape.k), Dense(shape.m, shape.k / 2), {}};
  for (unsigned row = 0; row < shape.m; ++row) {
    sparse.indices.emplace_back();
    for (unsigned at = 0; at < shape.k; at += chunk) {
      uint64_t values[4];
      for (unsigned i = 0; i < kept; ++i) {
        values[i] = random_element(format, random, false);
        sparse.packed(row, at / 2 + i) = values[i];
      }
      if (chunk == 2) {
        unsigned which = random() & 1;
        sparse.dense(row, at + which) = values[0];
        sparse.indices[row].push_back(which ? 0b1110 : 0b0100);
        continue;
      }
      unsigned first = random() % 3, second = first + 1 + random() % (3 - first);
      unsigned width = chunk / 4;
      for (unsigned i = 0; i < width; ++i) {
        sparse.dense(row, at + first * width + i) = values[i];
        sparse.dense(row, at + second * width + i) = values[width + i];
      }
      sparse.indices[row].push_back(first | second << 2);
    }
  }
  return sparse;
}

// Which lane of each four, and which bits of its word, have the indices of a chunk.
void place_metadata(const Format &format, unsigned chunks, unsigned selector, unsigned row,
                    unsigned chunk, unsigned *lane, unsigned *bit) {
  unsigned below = row >= 8;
  if (format.bits >= 16) {
    *lane = chunks == 4 ? selector : selector * 2 + chunk / 4;
    *bit = chunk % 4 * 4 + below * 16;
  } else {
    *lane = chunks == 8 ? selector * 2 + below : chunk / 8 * 2 + below;
    *bit = chunk % 8 * 4;
  }
}

}  // namespace

TEST(mma_of_sparse_matrices) {
  std::vector<Case> cases;
  for (bool ordered : {false, true}) {
    for (unsigned k : {16u, 32u}) {
      cases.push_back({{16, 8, k}, &f16, &f16, &f32, false, ordered});
      cases.push_back({{16, 8, k}, &f16, &f16, &f16, false, ordered});
      cases.push_back({{16, 8, k}, &bf16, &bf16, &f32, false, ordered});
      cases.push_back({{16, 8, k / 2}, &tf32, &tf32, &f32, false, ordered});
    }
    for (bool saturate : {false, true})
      for (unsigned k : {32u, 64u}) {
        for (const Format *a : {&s8, &u8})
          for (const Format *b : {&s8, &u8})
            cases.push_back({{16, 8, k}, a, b, &s32, saturate, ordered});
        for (const Format *a : {&s4, &u4})
          for (const Format *b : {&s4, &u4})
            cases.push_back({{16, 8, 2 * k}, a, b, &s32, saturate, ordered});
      }
    for (const Format *a : {&e4m3, &e5m2})
      for (const Format *b : {&e4m3, &e5m2})
        for (const Format *c : {&f32, &f16})
          cases.push_back({{16, 8, 64}, a, b, c, false, ordered});
  }

  Device device(1);
  std::mt19937 random(5);
  auto *d = device.array<uint64_t>(256), *a = device.array<uint64_t>(256);
  auto *b = device.array<uint64_t>(256), *c = device.array<uint64_t>(256);
  auto *metadata = device.array<uint32_t>(32);
  for (const Case &one : cases) {
    const Shape &s = one.shape, packed{s.m, s.n, s.k / 2};
    unsigned chunks = s.k / (one.a->bits == 32 ? 2 : one.a->bits == 4 ? 8 : 4);
    unsigned holders = chunks / 4;
    for (unsigned selector = 0; selector < 4 / holders; ++selector) {
      unsigned ac = registers(*one.a, s.m * s.k / 64), bc = registers(*one.b, s.k * s.n / 32);
      unsigned cc = registers(*one.c, s.m * s.n / 32);
      std::string body = ".reg .b64 %at<5>, %byte;\nmul.wide.u32 %byte, %r0, 4;\n";
      for (char matrix : {'a', 'b', 'c', 'd'})
        body += std::string(".reg .b32 %") + matrix + "r<8>;\n";
      for (int i = 0; i < 5; ++i)
        body += "add.s64 %at" + std::to_string(i) + ", %d" + std::to_string(i) + ", %byte;\n";
      body += transfer(*one.a, 'a', 1, ac, false) + transfer(*one.b, 'b', 2, bc, false) +
              transfer(*one.c, 'c', 3, cc, false) + "ld.global.b32 %r20, [%at4];\n";
      std::string text = "mma.sp" + std::string(one.ordered ? "::ordered_metadata" : "") +
                         ".sync.aligned." + s.name() + ".row.col" +
                         (one.saturate ? ".satfinite" : "");
      for (const Format *format : {one.c, one.a, one.b, one.c})
        text += std::string(".") + format->name;
      body += text + " " + vector(*one.c, 'd', cc) + ", " + vector(*one.a, 'a', ac) + ", " +
              vector(*one.b, 'b', bc) + ", " + vector(*one.c, 'c', cc) + ", %r20, " +
              std::to_string(selector) + ";\n" + transfer(*one.c, 'd', 0, cc, true);
      auto program = device.load(module(kernel("k", 5, body)));
      constexpr unsigned kRounds = 6;
      proven::add(text, size_t{kRounds} * s.m * s.n);
      for (unsigned round = 0; round < kRounds; ++round) {
        Sparse da = random_sparse(s, *one.a, random);
        Dense db = random_dense(s.k, s.n, *one.b, random, false);
        Dense dc = random_dense(s.m, s.n, *one.c, random, false);
        fragments(*one.a, packed, place_a, &da.packed, a, true);
        fragments(*one.b, s, place_b, &db, b, true);
        fragments(*one.c, s, place_c, &dc, c, true);
        for (unsigned lane = 0; lane < 32; ++lane) metadata[lane] = random();  // nobody reads these
        for (unsigned row = 0; row < s.m; ++row)
          for (unsigned chunk = 0; chunk < chunks; ++chunk) {
            unsigned lane, bit;
            place_metadata(*one.a, chunks, selector, row, chunk, &lane, &bit);
            uint32_t &word = metadata[row % 8 * 4 + lane];
            word = (word & ~(15u << bit)) | da.indices[row][chunk] << bit;
          }
        CHECK_OK(device.launch(program, "k", {1}, {32},
                               Parameters().add(d).add(a).add(b).add(c).add(metadata)));
        Dense got(s.m, s.n);
        fragments(*one.c, s, place_c, &got, d, false);
        compare(text, got,
                product(*one.a, da.dense, *one.b, db, *one.c, dc, *one.c, one.saturate, BitOp::None,
                        FE_TONEAREST));
      }
    }
  }
}

TEST(sparse_forms_that_do_not_exist) {
  Device device(1);
  auto refused = [&](const std::string &instruction, const char *word) {
    auto program = device.load(module(kernel("k", 1, ".reg .b32 %u<8>;\n" + instruction)));
    CHECK_FAILS(program->find_kernel("k")->translate(), 218, word, "line");
  };
  const std::string two = " {%f0,%f1,%f2,%f3}, {%u0,%u1}, {%u4,%u5}, {%f0,%f1,%f2,%f3}, %u6, ";
  const std::string four =
      " {%f0,%f1,%f2,%f3}, {%u0,%u1,%u2,%u3}, {%u4,%u5,%u6,%u7}, "
      "{%f0,%f1,%f2,%f3}, %u6, ";
  refused("mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32" + two + "4;", "selector");
  refused("mma.sp.sync.aligned.m16n8k16.row.col.f32.tf32.tf32.f32" + four + "2;", "selector");
  refused("mma.sp.sync.aligned.m16n8k64.row.col.f32.e4m3.e4m3.f32" + four + "1;", "selector");
  refused("mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32" + two + "%u7;", "constant");
  refused("mma.sp.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32" + two + "0;", "no such shape");
  refused("mma.sp.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32" + two + "0;", "no such shape");
  refused("mma.sp.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32" + two + "0;", "no such shape");
  refused("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32" + four + "0;", "operands");
}
