# A Lambda function with a GPU, which needs nothing but the layer: multiplies numbers there, by the driver API.
#   {"values": [1, 2, 3], "factor": 2}  ->  {"values": [2.0, 4.0, 6.0], "device": "...", "calls": 1}
# At the end of each call the context is reset, so that the session is released while the function is frozen;
# {"keep": true} leaves it as it is, and shows what that means.
import array
import ctypes
import os
import sys

PTX = b"""
.version 7.0
.target sm_52
.address_size 64
.visible .entry scale(.param .u64 values, .param .f32 factor, .param .u32 count) {
  .reg .pred %p;
  .reg .b32 %r<5>;
  .reg .b64 %rd<4>;
  .reg .f32 %f<4>;
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  mad.lo.u32 %r4, %r1, %r2, %r3;
  ld.param.u32 %r1, [count];
  setp.ge.u32 %p, %r4, %r1;
  @%p ret;
  ld.param.u64 %rd1, [values];
  mul.wide.u32 %rd2, %r4, 4;
  add.u64 %rd3, %rd1, %rd2;
  ld.global.f32 %f1, [%rd3];
  ld.param.f32 %f2, [factor];
  mul.f32 %f3, %f1, %f2;
  st.global.f32 [%rd3], %f3;
  ret;
}
"""
THREADS = 256
DEVICE_UNAVAILABLE = 46  # of CUresult

cuda = ctypes.CDLL("libcuda.so.1")  # the layer's
calls = 0


class CudaError(RuntimeError):
    result = 0


def check(name, *arguments):
    result = getattr(cuda, name)(*arguments)
    if result:
        text = ctypes.c_char_p()
        cuda.cuGetErrorName(result, ctypes.byref(text))
        error = CudaError(f"{name}: {(text.value or b'?').decode()}")
        error.result = result
        raise error


def scale(values, factor):
    context, module, function = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    memory = ctypes.c_uint64()
    data = array.array("f", values)
    if not data:
        return []  # CUDA allocates no 0 bytes
    at, size = data.buffer_info()[0], len(data) * data.itemsize
    check("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
    check("cuCtxSetCurrent", context)
    check("cuModuleLoadData", ctypes.byref(module), PTX)
    check("cuModuleGetFunction", ctypes.byref(function), module, b"scale")
    check("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(size))
    check("cuMemcpyHtoD_v2", memory, ctypes.c_void_p(at), ctypes.c_size_t(size))
    fields = [memory, ctypes.c_float(factor), ctypes.c_uint32(len(data))]
    pointers = (ctypes.c_void_p * 3)(*[ctypes.addressof(field) for field in fields])
    blocks = (len(data) + THREADS - 1) // THREADS
    check("cuLaunchKernel", function, blocks, 1, 1, THREADS, 1, 1, 0, None, pointers, None)
    check("cuMemcpyDtoH_v2", ctypes.c_void_p(at), memory, ctypes.c_size_t(size))
    return list(data)


def device():
    name = ctypes.create_string_buffer(256)
    check("cuDeviceGetName", name, 256, 0)
    return name.value.decode()


def handler(event, context):
    global calls
    calls += 1
    check("cuInit", 0)
    try:
        values = scale(event.get("values", [1, 2, 3]), event.get("factor", 2))
        return {"values": values, "device": device(), "calls": calls}
    except CudaError as error:
        if error.result != DEVICE_UNAVAILABLE:
            raise
        # The session is lost, as when the server has ended, or did not wait for so long. This process has no GPU any
        # more: Lambda starts another one for the next invocation.
        print(f"{error}: the process ends", file=sys.stderr, flush=True)
        os._exit(1)
    finally:
        if not event.get("keep"):
            # What the function has on the GPU ends here. The next call makes it anew.
            cuda.cuDevicePrimaryCtxRelease_v2(0)
