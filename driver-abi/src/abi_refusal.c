#include "abi_refusal.h"

#include <string.h>

// The first beginning that fits is taken.
static const struct {
  const char *beginning;
  CUresult result;
} found[] = {
    // PyTorch wants all of these when it starts.
    {"cuMulticast", CUDA_ERROR_NOT_SUPPORTED},
    {"cuGreenCtx", CUDA_ERROR_NOT_SUPPORTED},
    {"cuCtxFromGreenCtx", CUDA_ERROR_NOT_SUPPORTED},
    {"cuDevResource", CUDA_ERROR_NOT_SUPPORTED},
    {"cuDevSmResource", CUDA_ERROR_NOT_SUPPORTED},
    {"cuDeviceGetDevResource", CUDA_ERROR_NOT_SUPPORTED},
    {"cuCtxGetDevResource", CUDA_ERROR_NOT_SUPPORTED},
    {"cuStreamGetDevResource", CUDA_ERROR_NOT_SUPPORTED},
    // Every driver has the calls that go together with graphics, and NVIDIA Warp wants them when it
    // starts. No thread has a context of OpenGL's that is of this device; so nothing can have been
    // registered, and no handle is one.
    {"cuGL", CUDA_ERROR_INVALID_GRAPHICS_CONTEXT},
    {"cuGraphicsGL", CUDA_ERROR_INVALID_GRAPHICS_CONTEXT},
    {"cuGraphicsEGL", CUDA_ERROR_NOT_SUPPORTED},
    {"cuGraphicsVDPAU", CUDA_ERROR_NOT_SUPPORTED},
    {"cuGraphicsResourceGetMappedEglFrame", CUDA_ERROR_NOT_SUPPORTED},
    {"cuGraphics", CUDA_ERROR_INVALID_HANDLE},
    {"cuEGL", CUDA_ERROR_NOT_SUPPORTED},
    {"cuEventCreateFromEGLSync", CUDA_ERROR_NOT_SUPPORTED},
    {"cuVDPAU", CUDA_ERROR_NOT_SUPPORTED},
};
enum { FOUND = sizeof found / sizeof *found };

static unsigned fitting(const char *name) {
  unsigned i = 0;
  while (i < FOUND && strncmp(name, found[i].beginning, strlen(found[i].beginning)) != 0) i++;
  return i;
}

int abi_refusal_is_found(const char *name) { return fitting(name) < FOUND; }

CUresult abi_refusal(const char *name) {
  unsigned i = fitting(name);
  return i < FOUND ? found[i].result : CUDA_ERROR_NOT_SUPPORTED;
}
