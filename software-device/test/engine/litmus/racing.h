// Kernels whose threads race: each plays a role, and all begin together.
#pragma once

#include <string>

#include "../behaviour/check.h"

namespace racing {

// Where this is more than 1, races are run for that part of their turns: with sanitizers each turn
// takes many times as long, and what they look for needs few.
#ifdef SOFTDEV_TEST_SAMPLE
constexpr uint32_t kEvery = SOFTDEV_TEST_SAMPLE;
#else
constexpr uint32_t kEvery = 1;
#endif

inline std::string number(uint64_t value) { return std::to_string(value); }

// A worker keeps the blocks that it begins, and two on one worker take turns: no race. So there are
// many blocks, the first on each worker takes the role of its number, and the others end at once.
// What nobody has taken the last ones do, where there are fewer processors.
constexpr unsigned kBlocks = 2000;

// Leaves the role in %r1 and begins when all roles are taken. 17 words at [%d0] are 0 before. The
// last role may be taken between the loads of two lanes, which then leave the loop apart; they come
// together again, as a warp that is to store or load a line at once.
inline std::string take_role(unsigned roles) {
  return "mov.u32 %r61, 99; setp.ne.u32 %p15, %r0, 0; @%p15 bra TAKEN;\n"
         "mov.u32 %r62, %smid; mul.wide.u32 %d61, %r62, 4; add.s64 %d61, %d0, %d61;\n"
         "atom.global.cas.b32 %r63, [%d61], 0, 1; setp.eq.u32 %p15, %r63, 0; @%p15 bra MINE;\n"
         "mov.u32 %r63, %nctaid.x; sub.u32 %r63, %r63, " +
         number(roles) +
         "; setp.lt.u32 %p15, %r1, %r63; @%p15 bra TAKEN; mov.u32 %r62, 0; mov.u64 %d61, %d0;\n"
         "NEXT: atom.global.cas.b32 %r63, [%d61], 0, 1; setp.eq.u32 %p15, %r63, 0; @%p15 bra "
         "MINE;\n"
         "add.u32 %r62, %r62, 1; add.s64 %d61, %d61, 4; setp.lt.u32 %p15, %r62, " +
         number(roles) +
         "; @%p15 bra NEXT; bra TAKEN;\n"
         "MINE: mov.u32 %r61, %r62; red.global.add.u32 [%d0+64], 1;\n"
         "TAKEN: shfl.sync.idx.b32 %r1, %r61, 0, 31, -1; setp.eq.u32 %p15, %r1, 99; @%p15 exit;\n"
         "START: ld.relaxed.gpu.global.u32 %r61, [%d0+64]; setp.lt.u32 %p15, %r61, " +
         number(roles) + "; @%p15 bra START;\nbar.warp.sync -1;\n";
}

}  // namespace racing
