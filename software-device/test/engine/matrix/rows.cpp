// ldmatrix, stmatrix, movmatrix.
#include "../behaviour/check.h"
#include "../proven.h"

using namespace check;
using rig::Device;
using rig::Parameters;

namespace {

// Shared memory of 2048 bytes, filled from p1 and copied to p0 at the end. Lane l's row begins at
// %r10: rows in an order of their own, 48 bytes apart, so that none follows another.
std::string with_shared(const std::string &body, const std::string &result = "") {
  return ".shared .align 16 .b8 buffer[2048];\n" + kernel("k", 2,
                                                          R"(
    .reg .b32 %v<4>; .reg .b64 %a<4>;
    mov.u32 %r4, buffer; shl.b32 %r5, %r0, 2; cvt.u64.u32 %d4, %r5;
    add.s64 %d5, %d1, %d4; add.s64 %d6, %d0, %d4; add.s32 %r6, %r4, %r5;
    mov.u32 %r7, 0;
    FILL: ld.global.u32 %r8, [%d5]; st.shared.u32 [%r6], %r8;
    add.s64 %d5, %d5, 128; add.s32 %r6, %r6, 128; add.s32 %r7, %r7, 1;
    setp.lt.u32 %p0, %r7, 16; @%p0 bra FILL;
    bar.sync 0;
    mul.lo.u32 %r9, %r0, 7; add.u32 %r9, %r9, 3; and.b32 %r9, %r9, 31; mul.lo.u32 %r9, %r9, 48;
    add.u32 %r10, %r4, %r9;
    cvt.u64.u32 %d7, %r10; cvta.shared.u64 %d7, %d7;
)" + body + R"(
    bar.sync 0;
)" +
                                                              (result.empty() ? R"(
    add.s32 %r6, %r4, %r5; mov.u32 %r7, 0;
    OUT: ld.shared.u32 %r8, [%r6]; st.global.u32 [%d6], %r8;
    add.s64 %d6, %d6, 128; add.s32 %r6, %r6, 128; add.s32 %r7, %r7, 1;
    setp.lt.u32 %p0, %r7, 16; @%p0 bra OUT;
)"
                                                                              : result));
}

unsigned row_of(unsigned lane) { return ((lane * 7 + 3) & 31) * 48 / 2; }  // in 16-bit elements

std::string values(unsigned count) {
  std::string text = "{";
  for (unsigned i = 0; i < count; ++i) text += std::string(i ? "," : "") + "%v" + std::to_string(i);
  return text + "}";
}

}  // namespace

TEST(ldmatrix_loads_rows_and_columns) {
  Device device(1);
  auto *in = device.array<uint16_t>(1024);
  auto *out = device.array<uint16_t>(1024);
  for (unsigned i = 0; i < 1024; ++i) in[i] = static_cast<uint16_t>(i * 40503u >> 3);
  for (unsigned count : {1u, 2u, 4u})
    for (bool transposed : {false, true})
      for (int way = 0; way < 4; ++way) {
        std::string text = "ldmatrix.sync.aligned.";
        std::string number = "x" + std::to_string(count);
        // libraries write the number first
        text += way == 1 ? number + (transposed ? ".trans" : "") + ".m8n8"
                         : "m8n8." + number + (transposed ? ".trans" : "");
        text += way == 2 ? ".b16 " : way == 3 ? ".shared::cta.b16 " : ".shared.b16 ";
        proven::add_text(text, count * 64);
        text += values(count) + (way == 2 ? ", [%d7+16];\n" : ", [%r10+16];\n");
        std::string result;
        for (unsigned i = 0; i < count; ++i)
          result +=
              "st.global.u32 [%d6+" + std::to_string(i * 128) + "], %v" + std::to_string(i) + ";\n";
        auto program = device.load(module(with_shared(text, result)));
        CHECK_OK(device.launch(program, "k", {1}, {32}, Parameters().add(out).add(in)));
        bool good = true;
        for (unsigned m = 0; m < count; ++m)
          for (unsigned lane = 0; lane < 32; ++lane)
            for (unsigned e = 0; e < 2; ++e) {
              unsigned row = lane / 4, column = lane % 4 * 2 + e;
              if (transposed) std::swap(row, column);
              good &= out[m * 64 + lane * 2 + e] == in[row_of(m * 8 + row) + 8 + column];
            }
        if (!good) fail(__FILE__, __LINE__, text);
      }
}

TEST(stmatrix_stores_rows_and_columns) {
  Device device(1);
  auto *in = device.array<uint16_t>(1024), *out = device.array<uint16_t>(1024);
  for (unsigned i = 0; i < 1024; ++i) in[i] = static_cast<uint16_t>(i * 977 + 5);
  for (unsigned count : {1u, 2u, 4u})
    for (bool transposed : {false, true})
      for (const char *space : {"", ".shared", ".shared::cta"}) {
        std::string text;
        for (unsigned i = 0; i < count; ++i)
          text += "ld.global.u32 %v" + std::to_string(i) + ", [%d5+" +
                  std::to_string(static_cast<int>(i * 128) - 2048) + "];\n";
        std::string store = "stmatrix.sync.aligned.m8n8.x" + std::to_string(count) +
                            (transposed ? ".trans" : "") + space +
                            (*space ? ".b16 [%r10]" : ".b16 [%d7]") + ", " + values(count) + ";\n";
        proven::add_text(store, count * 64);
        auto program = device.load(module(with_shared(text + store)));
        CHECK_OK(device.launch(program, "k", {1}, {32}, Parameters().add(out).add(in)));
        std::vector<uint16_t> want(in, in + 1024);
        for (unsigned m = 0; m < count; ++m)
          for (unsigned lane = 0; lane < 32; ++lane)
            for (unsigned e = 0; e < 2; ++e) {
              unsigned row = lane / 4, column = lane % 4 * 2 + e;
              if (transposed) std::swap(row, column);
              want[row_of(m * 8 + row) + column] = in[m * 64 + lane * 2 + e];
            }
        if (!std::equal(want.begin(), want.end(), out)) fail(__FILE__, __LINE__, store);
      }
}

TEST(movmatrix_transposes) {
  Device device(1);
  auto program = device.load(module(kernel("k", 1, R"(
    mul.lo.u32 %r4, %r0, 0x20002; add.u32 %r4, %r4, 0x10000;
    movmatrix.sync.aligned.m8n8.trans.b16 %r4, %r4;)" + store_result("%r4"))));
  auto *out = device.array<uint16_t>(64);
  CHECK_OK(device.launch(program, "k", {1}, {32}, Parameters().add(out)));
  for (unsigned i = 0; i < 64; ++i) CHECK(out[i] == i % 8 * 8 + i / 8);
  proven::add("movmatrix.sync.aligned.m8n8.trans.b16", 64);
}

TEST(matrix_rows_are_checked) {
  Device device(1);
  auto *in = device.array<uint32_t>(512), *out = device.array<uint32_t>(512);
  auto run = [&](const std::string &text) {
    auto program = device.load(module(with_shared(text)));
    return device.launch(program, "k", {1}, {32}, Parameters().add(out).add(in));
  };
  CHECK_FAILS(run("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%v0,%v1,%v2,%v3}, [%r10+4];"), 716,
              "ldmatrix", "misaligned", "thread (0,0,0)");
  CHECK_FAILS(run("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%v0}, [%r10+2048];"), 700,
              "not allowed", "2048 bytes of shared memory");
  CHECK_FAILS(run("stmatrix.sync.aligned.m8n8.x1.b16 [%d7+65536], {%v0};"), 700, "write of 16");
  // Addresses of lanes whose rows are not wanted are not looked at.
  CHECK_OK(
      run("setp.ge.u32 %p1, %r0, 8; @%p1 mov.u32 %r10, 0x7fffffff;"
          "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%v0}, [%r10];"));
  // A guard that no lane passes
  CHECK_OK(
      run("setp.ge.u32 %p1, %r0, 32;"
          "@%p1 ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%v0}, [%r10+4];"));
  auto refused = [&](const std::string &text, const char *word) {
    auto program = device.load(module(with_shared(text)));
    CHECK_FAILS(program->find_kernel("k")->translate(), 218, word);
  };
  refused("ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {%v0,%v1}, [%r10];", "m8n8");
  refused("ldmatrix.sync.aligned.m8n8.shared.b16 {%v0}, [%r10];", ".x1");
  refused("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%v0}, [%r10];", "number of registers");
  refused("ldmatrix.sync.aligned.m8n8.x1.global.b16 {%v0}, [%d7];", ".shared");
  refused("movmatrix.sync.aligned.m8n8.b16 %r4, %r5;", ".trans");
}
