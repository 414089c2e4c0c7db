#include "modules/grid_barrier.h"

#include <algorithm>

namespace softdev::driver {
namespace {

constexpr std::string_view kNames[] = {
    "cudaCGGetIntrinsicHandle",
    "cudaCGSynchronize",
    "cudaCGSynchronizeGrid",
    "cudaCGGetSize",
    "cudaCGGetRank",
};

// The handle of a grid is the address of its workspace, whose second word is the barrier; kernels
// that have cooperative_groups compiled into them count there, too, in the same way: the highest
// bit turns when the last block has come. What has no such handle (cudaCGScopeGrid is 1, groups
// over several grids have gone with CUDA 13) gets cudaErrorInvalidValue, which is 1.
constexpr const char *kText = R"(.version 6.0
.target sm_30
.address_size 64

.func (.reg .b64 %rd) outboard_grid_handle()
{
  .reg .b32 %low, %high;
  mov.u32 %high, %envreg1;
  mov.u32 %low, %envreg2;
  mov.b64 %rd, {%low, %high};
  ret;
}

.func (.reg .b32 %result) outboard_grid_barrier(.reg .b64 %handle)
{
  .reg .pred %not_first, %not_last, %waits;
  .reg .b32 %r<12>;
  .reg .b64 %own;
  call (%own), outboard_grid_handle;
  mov.u32 %result, 1;
  setp.ne.u64 %waits, %own, %handle;
  @%waits ret;
  mov.u32 %result, 0;
  barrier.sync 0;
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, %tid.y;
  mov.u32 %r3, %tid.z;
  or.b32 %r1, %r1, %r2;
  or.b32 %r1, %r1, %r3;
  setp.ne.u32 %not_first, %r1, 0;
  @%not_first bra others;
  mov.u32 %r1, %nctaid.x;
  mov.u32 %r2, %nctaid.y;
  mov.u32 %r3, %nctaid.z;
  mul.lo.u32 %r1, %r1, %r2;
  mul.lo.u32 %r1, %r1, %r3;
  sub.u32 %r1, 0x80000001, %r1;
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ctaid.y;
  mov.u32 %r4, %ctaid.z;
  or.b32 %r2, %r2, %r3;
  or.b32 %r2, %r2, %r4;
  setp.eq.u32 %not_last, %r2, 0;
  selp.u32 %r5, %r1, 1, %not_last;
  membar.gl;
  atom.add.u32 %r6, [%handle+4], %r5;
again:
  ld.volatile.u32 %r7, [%handle+4];
  xor.b32 %r8, %r7, %r6;
  setp.ge.s32 %waits, %r8, 0;
  @%waits bra again;
  membar.gl;
others:
  barrier.sync 0;
  ret;
}

.weak .func (.param .b64 result) cudaCGGetIntrinsicHandle(.param .b32 scope)
{
  .reg .pred %grid;
  .reg .b32 %scope;
  .reg .b64 %handle;
  ld.param.u32 %scope, [scope];
  call (%handle), outboard_grid_handle;
  setp.eq.u32 %grid, %scope, 1;
  selp.b64 %handle, %handle, 0, %grid;
  st.param.b64 [result], %handle;
  ret;
}

.weak .func (.param .b32 result) cudaCGSynchronize(.param .b64 handle, .param .b32 flags)
{
  .reg .b32 %error;
  .reg .b64 %handle;
  ld.param.u64 %handle, [handle];
  call (%error), outboard_grid_barrier, (%handle);
  st.param.b32 [result], %error;
  ret;
}

.weak .func (.param .b32 result) cudaCGSynchronizeGrid(.param .b64 handle, .param .b32 flags)
{
  .reg .b32 %error;
  .reg .b64 %handle;
  ld.param.u64 %handle, [handle];
  call (%error), outboard_grid_barrier, (%handle);
  st.param.b32 [result], %error;
  ret;
}

.weak .func (.param .b32 result) cudaCGGetSize(.param .b64 threads, .param .b64 grids,
                                               .param .b64 handle)
{
  .reg .pred %wrong, %wanted;
  .reg .b32 %r<8>;
  .reg .b64 %own, %rd<4>;
  ld.param.u64 %rd1, [threads];
  ld.param.u64 %rd2, [grids];
  ld.param.u64 %rd3, [handle];
  call (%own), outboard_grid_handle;
  setp.ne.u64 %wrong, %own, %rd3;
  selp.u32 %r1, 1, 0, %wrong;
  st.param.b32 [result], %r1;
  @%wrong ret;
  mov.u32 %r1, %ntid.x;
  mov.u32 %r2, %ntid.y;
  mul.lo.u32 %r1, %r1, %r2;
  mov.u32 %r2, %ntid.z;
  mul.lo.u32 %r1, %r1, %r2;
  mov.u32 %r2, %nctaid.x;
  mul.lo.u32 %r1, %r1, %r2;
  mov.u32 %r2, %nctaid.y;
  mul.lo.u32 %r1, %r1, %r2;
  mov.u32 %r2, %nctaid.z;
  mul.lo.u32 %r1, %r1, %r2;
  setp.ne.u64 %wanted, %rd1, 0;
  @%wanted st.u32 [%rd1], %r1;
  setp.ne.u64 %wanted, %rd2, 0;
  mov.u32 %r2, 1;
  @%wanted st.u32 [%rd2], %r2;
  ret;
}

.weak .func (.param .b32 result) cudaCGGetRank(.param .b64 thread, .param .b64 grid,
                                               .param .b64 handle)
{
  .reg .pred %wrong, %wanted;
  .reg .b32 %r<8>, %block, %rank;
  .reg .b64 %own, %rd<4>;
  ld.param.u64 %rd1, [thread];
  ld.param.u64 %rd2, [grid];
  ld.param.u64 %rd3, [handle];
  call (%own), outboard_grid_handle;
  setp.ne.u64 %wrong, %own, %rd3;
  selp.u32 %r1, 1, 0, %wrong;
  st.param.b32 [result], %r1;
  @%wrong ret;
  mov.u32 %block, %ctaid.z;
  mov.u32 %r1, %nctaid.y;
  mov.u32 %r2, %ctaid.y;
  mad.lo.u32 %block, %block, %r1, %r2;
  mov.u32 %r1, %nctaid.x;
  mov.u32 %r2, %ctaid.x;
  mad.lo.u32 %block, %block, %r1, %r2;
  mov.u32 %r1, %ntid.z;
  mov.u32 %r2, %tid.z;
  mad.lo.u32 %rank, %block, %r1, %r2;
  mov.u32 %r1, %ntid.y;
  mov.u32 %r2, %tid.y;
  mad.lo.u32 %rank, %rank, %r1, %r2;
  mov.u32 %r1, %ntid.x;
  mov.u32 %r2, %tid.x;
  mad.lo.u32 %rank, %rank, %r1, %r2;
  setp.ne.u64 %wanted, %rd1, 0;
  @%wanted st.u32 [%rd1], %rank;
  setp.ne.u64 %wanted, %rd2, 0;
  mov.u32 %r2, 0;
  @%wanted st.u32 [%rd2], %r2;
  ret;
}
)";

}  // namespace

bool is_grid_barrier_function(std::string_view name) {
  return std::ranges::find(kNames, name) != std::end(kNames);
}

bool mentions_grid_barrier(std::string_view text) {
  return text.find("cudaCG") != std::string_view::npos;
}

const LinkInput &grid_barrier_functions() {
  static const LinkInput functions{kText, "the barrier of grids"};
  return functions;
}

}  // namespace softdev::driver
