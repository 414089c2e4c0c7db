// Surfaces of a volume and of layers, 1D and 2D, with elements of up to sixteen bytes.
#include <vector>

#include "../check.h"

namespace {

constexpr int kX = 10, kY = 6, kZ = 4;

__host__ __device__ int4 element(int x, int y, int z) { return make_int4(x, y, z, x * y + z); }

__global__ void fill_volume(cudaSurfaceObject_t surface) {
  int x = threadIdx.x, y = threadIdx.y, z = blockIdx.x;
  surf3Dwrite(element(x, y, z), surface, x * sizeof(int4), y, z);
}
__global__ void fill_layers(cudaSurfaceObject_t surface) {
  int x = threadIdx.x, y = threadIdx.y, z = blockIdx.x;
  surf2DLayeredwrite(element(x, y, z), surface, x * sizeof(int4), y, z);
}
__global__ void add_volume(cudaSurfaceObject_t surface) {
  int x = threadIdx.x, y = threadIdx.y, z = blockIdx.x;
  int4 value = surf3Dread<int4>(surface, x * sizeof(int4), y, z);
  value.w += 1000;
  surf3Dwrite(value, surface, x * sizeof(int4), y, z);
}
__global__ void add_layers(cudaSurfaceObject_t surface) {
  int x = threadIdx.x, y = threadIdx.y, z = blockIdx.x;
  int4 value = surf2DLayeredread<int4>(surface, x * sizeof(int4), y, z);
  value.w += 1000;
  surf2DLayeredwrite(value, surface, x * sizeof(int4), y, z);
}
__global__ void fill_rows(cudaSurfaceObject_t surface) {
  int x = threadIdx.x, layer = blockIdx.x;
  surf1DLayeredwrite(static_cast<short>(layer * 100 + x), surface, x * sizeof(short), layer);
  short back = surf1DLayeredread<short>(surface, x * sizeof(short), layer);
  surf1DLayeredwrite(static_cast<short>(-back), surface, x * sizeof(short), layer);
}

cudaSurfaceObject_t surface_of(cudaArray_t array) {
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = array;
  cudaSurfaceObject_t surface;
  CHECK(cudaCreateSurfaceObject(&surface, &resource));
  return surface;
}

template <class Element>
std::vector<Element> contents(cudaArray_t array, int x, int y, int z) {
  std::vector<Element> out(x * y * z);
  cudaMemcpy3DParms copy = {};
  copy.srcArray = array;
  copy.dstPtr = make_cudaPitchedPtr(out.data(), x * sizeof(Element), x, y);
  copy.extent = make_cudaExtent(x, y, z);
  copy.kind = cudaMemcpyDeviceToHost;
  CHECK(cudaMemcpy3D(&copy));
  return out;
}

}  // namespace

int main() {
  cudaChannelFormatDesc format = cudaCreateChannelDesc<int4>();
  for (bool layered : {false, true}) {
    cudaArray_t array;
    CHECK(cudaMalloc3DArray(&array, &format, make_cudaExtent(kX, kY, kZ),
                            cudaArraySurfaceLoadStore | (layered ? cudaArrayLayered : 0)));
    cudaSurfaceObject_t surface = surface_of(array);
    if (layered) {
      fill_layers<<<kZ, dim3(kX, kY)>>>(surface);
      add_layers<<<kZ, dim3(kX, kY)>>>(surface);
    } else {
      fill_volume<<<kZ, dim3(kX, kY)>>>(surface);
      add_volume<<<kZ, dim3(kX, kY)>>>(surface);
    }
    std::vector<int4> out = contents<int4>(array, kX, kY, kZ);
    for (int i = 0; i < kX * kY * kZ; i++) {
      int4 want = element(i % kX, i / kX % kY, i / kX / kY);
      if (out[i].x == want.x && out[i].y == want.y && out[i].z == want.z &&
          out[i].w == want.w + 1000)
        continue;
      fprintf(stderr, "element %d: %d %d %d %d\n", i, out[i].x, out[i].y, out[i].z, out[i].w);
      return 1;
    }
    printf("%s: right\n", layered ? "layers" : "volume");
    CHECK(cudaDestroySurfaceObject(surface));
    CHECK(cudaFreeArray(array));
  }
  format = cudaCreateChannelDesc<short>();
  cudaArray_t array;
  CHECK(cudaMalloc3DArray(&array, &format, make_cudaExtent(kX, 0, kZ),
                          cudaArraySurfaceLoadStore | cudaArrayLayered));
  fill_rows<<<kZ, kX>>>(surface_of(array));
  std::vector<short> rows = contents<short>(array, kX, 1, kZ);
  for (int i = 0; i < kX * kZ; i++)
    if (rows[i] != -(i / kX * 100 + i % kX)) {
      fprintf(stderr, "row element %d: %d\n", i, rows[i]);
      return 1;
    }
  printf("rows in layers: right\n");
  return 0;
}
