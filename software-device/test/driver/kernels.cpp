#include "support.h"

const char kKernels[] = R"(
.version 7.0
.target sm_70
.address_size 64

.global .align 4 .u32 counter = 41;
.const .align 8 .b8 table[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};

.visible .entry add_one(.param .u64 data, .param .u32 count)
{
  .reg .pred %p<2>;
  .reg .b32 %r<6>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [data];
  ld.param.u32 %r1, [count];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.s32 %r2, %r2, %r3, %r4;
  setp.ge.u32 %p1, %r2, %r1;
  @%p1 bra DONE;
  cvta.to.global.u64 %rd1, %rd1;
  mul.wide.u32 %rd2, %r2, 4;
  add.s64 %rd3, %rd1, %rd2;
  ld.global.u32 %r5, [%rd3];
  add.s32 %r5, %r5, 1;
  st.global.u32 [%rd3], %r5;
DONE:
  ret;
}

.visible .entry store(.param .u64 at, .param .u32 value)
{
  .reg .b32 %r<2>;
  .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [at];
  ld.param.u32 %r1, [value];
  cvta.to.global.u64 %rd1, %rd1;
  st.global.u32 [%rd1], %r1;
  ret;
}

.visible .entry nothing()
{
  ret;
}

.visible .entry at_most_64() .maxntid 64, 1, 1
{
  .shared .align 4 .b8 scratch[1024];
  .reg .b32 %r<2>;
  mov.u32 %r1, 0;
  st.shared.u32 [scratch], %r1;
  ret;
}

.visible .entry unknown()
{
  .reg .b32 %r<3>;
  mov.u32 %r1, 1;
  tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
  ret;
}
)";
