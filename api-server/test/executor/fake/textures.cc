// Textures and surfaces, which nothing reads: numbers and names.
#include "device.h"
#include "fake_driver.h"

using namespace fake;

struct CUtexref_st {
  std::string name;
};

namespace {

uint64_t next_object = 1000;
std::map<uint64_t, bool> &objects = *new std::map<uint64_t, bool>;  // to whether it is a surface
CUtexref_st texture{"texture"}, surface{"surface"};

CUresult destroy(uint64_t object, bool is_surface) {
  auto found = objects.find(object);
  if (found == objects.end() || found->second != is_surface) return CUDA_ERROR_INVALID_VALUE;
  objects.erase(found);
  return CUDA_SUCCESS;
}

}  // namespace

EXPORT CUresult cuTexObjectCreate(CUtexObject *object, const CUDA_RESOURCE_DESC *,
                                  const CUDA_TEXTURE_DESC *, const CUDA_RESOURCE_VIEW_DESC *) {
  ENTER;
  objects[ *object = next_object++] = false;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuTexObjectDestroy(CUtexObject object) {
  ENTER;
  return destroy(object, false);
}
EXPORT CUresult cuSurfObjectCreate(CUsurfObject *object, const CUDA_RESOURCE_DESC *) {
  ENTER;
  objects[ *object = next_object++] = true;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuSurfObjectDestroy(CUsurfObject object) {
  ENTER;
  return destroy(object, true);
}

EXPORT CUresult cuLibraryGetModule(CUmodule *module, CUlibrary library) {
  ENTER;
  *module = reinterpret_cast<CUmodule>(library);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuModuleGetTexRef(CUtexref *reference, CUmodule, const char *name) {
  ENTER;
  *reference = &texture;
  return texture.name == name ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
EXPORT CUresult cuModuleGetSurfRef(CUsurfref *reference, CUmodule, const char *name) {
  ENTER;
  *reference = reinterpret_cast<CUsurfref>(&surface);
  return surface.name == name ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

#define ACCEPTED(name, ...)           \
  EXPORT CUresult name(__VA_ARGS__) { \
    ENTER;                            \
    return CUDA_SUCCESS;              \
  }
ACCEPTED(cuTexRefSetArray, CUtexref, CUarray, unsigned)
ACCEPTED(cuTexRefSetMipmappedArray, CUtexref, CUmipmappedArray, unsigned)
ACCEPTED(cuTexRefSetAddress_v2, size_t *, CUtexref, CUdeviceptr, size_t)
ACCEPTED(cuTexRefSetAddress2D_v3, CUtexref, const CUDA_ARRAY_DESCRIPTOR *, CUdeviceptr, size_t)
ACCEPTED(cuTexRefSetFormat, CUtexref, CUarray_format, int)
ACCEPTED(cuTexRefSetAddressMode, CUtexref, int, CUaddress_mode)
ACCEPTED(cuTexRefSetFilterMode, CUtexref, CUfilter_mode)
ACCEPTED(cuTexRefSetMipmapFilterMode, CUtexref, CUfilter_mode)
ACCEPTED(cuTexRefSetMipmapLevelBias, CUtexref, float)
ACCEPTED(cuTexRefSetMipmapLevelClamp, CUtexref, float, float)
ACCEPTED(cuTexRefSetMaxAnisotropy, CUtexref, unsigned)
ACCEPTED(cuTexRefSetBorderColor, CUtexref, float *)
ACCEPTED(cuTexRefSetFlags, CUtexref, unsigned)
ACCEPTED(cuSurfRefSetArray, CUsurfref, CUarray, unsigned)
