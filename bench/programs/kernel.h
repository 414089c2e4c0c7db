// The kernel that is launched: three parameters (a pointer, an int, a float), and nothing to do.
#ifndef BENCH_KERNEL_H
#define BENCH_KERNEL_H

static const char kernel_name[] = "three";
static const char kernel_ptx[] =
    ".version 6.4\n"
    ".target sm_50\n"
    ".address_size 64\n"
    ".visible .entry three(.param .u64 a, .param .u32 b, .param .f32 c)\n"
    "{\n"
    "  ret;\n"
    "}\n";

#endif
