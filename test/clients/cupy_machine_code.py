# CuPy as it is by default: it asks NVRTC for machine code. keep-ptx/libnvrtc gives it PTX.
import os

import cupy as cp
import numpy as np
from checks import check, done, same

assert "CUPY_COMPILE_WITH_PTX" not in os.environ


@check
def elementwise():
    a = np.arange(1000, dtype=np.float32)
    same(cp.asnumpy(cp.asarray(a) * 3 + 1), a * 3 + 1)


@check
def raw_module_of_templates():
    module = cp.RawModule(
        code=r"""
        template <class T, int N> __global__ void repeat(const T *in, T *out) {
          for (int i = 0; i < N; i++) out[threadIdx.x * N + i] = in[threadIdx.x];
        }""",
        options=("-std=c++17",),
        name_expressions=("repeat<int, 3>",),
    )
    a = np.arange(32, dtype=np.int32)
    out = cp.zeros(96, cp.int32)
    module.get_function("repeat<int, 3>")((1,), (32,), (cp.asarray(a), out))
    same(cp.asnumpy(out), np.repeat(a, 3))


@check
def errors_of_the_compiler():
    try:
        cp.RawKernel("__global__ void broken( {", "broken").compile()
    except cp.cuda.compiler.CompileException as error:
        assert "error" in str(error)
    else:
        raise AssertionError("a kernel that cannot be compiled was")


done()
