// Device code as nvcc registers it: a fatbin with PTX, plain.
#pragma once

#include <stdint.h>
#include <string.h>

static const char kernels[] =
    ".version 6.5\n.target sm_52\n.address_size 64\n"
    ".visible .global .align 4 .u32 step = 1;\n"
    "// to[i] = to[i] * factor + step\n"
    ".visible .entry scale(.param .u64 to, .param .u32 factor, .param .u32 count)\n"
    "{\n"
    "  .reg .pred %p; .reg .b32 %r<9>; .reg .b64 %d<4>;\n"
    "  ld.param.u64 %d0, [to]; ld.param.u32 %r0, [factor]; ld.param.u32 %r1, [count];\n"
    "  mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;\n"
    "  mad.lo.s32 %r5, %r2, %r3, %r4; setp.ge.u32 %p, %r5, %r1;\n"
    "  @%p bra DONE;\n"
    "  cvta.to.global.u64 %d0, %d0; mul.wide.u32 %d1, %r5, 4; add.s64 %d0, %d0, %d1;\n"
    "  ld.global.u32 %r6, [%d0]; ld.global.u32 %r7, [step];\n"
    "  mad.lo.s32 %r8, %r6, %r0, %r7; st.global.u32 [%d0], %r8;\n"
    "DONE:\n"
    "  ret;\n"
    "}\n";

struct fatbin {
  uint32_t magic;
  uint16_t version, header;
  uint64_t size;
  struct {
    uint16_t kind, version;
    uint32_t header;
    uint64_t size;
    uint32_t compressed, unused;
    uint16_t minor, major;
    uint32_t architecture;
    uint32_t name, name_length;
    uint64_t flags, zero, uncompressed;
  } entry;
  char text[(sizeof kernels + 7) & ~7ul];
};

struct fatbin_wrapper {
  uint32_t magic, version;
  const void *fatbin;
  void *unused;
};

static inline void fatbin_make(struct fatbin *fatbin, struct fatbin_wrapper *wrapper) {
  memset(fatbin, 0, sizeof *fatbin);
  fatbin->magic = 0xba55ed50;
  fatbin->version = 1;
  fatbin->header = 16;
  fatbin->size = sizeof fatbin->entry + sizeof fatbin->text;
  fatbin->entry.kind = 1;
  fatbin->entry.version = 0x101;
  fatbin->entry.header = sizeof fatbin->entry;
  fatbin->entry.size = sizeof fatbin->text;
  fatbin->entry.major = 6;
  fatbin->entry.minor = 5;
  fatbin->entry.architecture = 52;
  fatbin->entry.flags = 0x11;
  memcpy(fatbin->text, kernels, sizeof kernels);
  *wrapper = (struct fatbin_wrapper){0x466243b1, 1, fatbin, NULL};
}
