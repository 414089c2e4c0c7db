// What a device tells of itself, by every name that a program may know it by.
// flags: -lcuda -Xcompiler=-Wno-deprecated-declarations
#include <cstring>

#include "../check.h"
#include "../check_driver.h"

namespace {

void noticed(CUasyncNotificationInfo *, void *, CUasyncCallbackHandle) {}

}  // namespace

int main() {
  SHOW_DRIVER(cuInit(0));
  SHOW_DRIVER(cuInit(1));
  int count = -1, major = -1, minor = -1, found = -1;
  SHOW_DRIVER(cuDeviceGetCount(&count));
  printf("%d devices\n", count);
  CUdevice device = 7;
  SHOW_DRIVER(cuDeviceGet(&device, count));
  SHOW_DRIVER(cuDeviceGet(&device, -1));
  SHOW_DRIVER(cuDeviceGet(&device, 0));
  SHOW_DRIVER(cuDeviceComputeCapability(&major, &minor, device));
  printf("%d.%d\n", major, minor);
  CUdevprop properties = {};
  SHOW_DRIVER(cuDeviceGetProperties(&properties, device));
  printf("%d threads, %d x %d x %d, grid %d x %d x %d, shared %d, constant %d, warp %d\n",
         properties.maxThreadsPerBlock, properties.maxThreadsDim[0], properties.maxThreadsDim[1],
         properties.maxThreadsDim[2], properties.maxGridSize[0], properties.maxGridSize[1],
         properties.maxGridSize[2], properties.sharedMemPerBlock, properties.totalConstantMemory,
         properties.SIMDWidth);
  printf("pitch %d, registers %d, clock %d, alignment %d\n", properties.memPitch,
         properties.regsPerBlock, properties.clockRate, properties.textureAlign);

  char bus[32] = "?", name[64] = "?";
  SHOW_DRIVER(cuDeviceGetPCIBusId(bus, sizeof bus, device));
  SHOW_DRIVER(cuDeviceGetByPCIBusId(&found, bus));
  printf("that is device %d\n", found);
  SHOW_DRIVER(cuDeviceGetPCIBusId(bus, 5, device));
  SHOW_DRIVER(cuDeviceGetPCIBusId(nullptr, 32, device));
  SHOW_DRIVER(cuDeviceGetByPCIBusId(&found, "ffff:ff:ff.7"));
  SHOW_DRIVER(cuDeviceGetByPCIBusId(&found, "no bus"));
  SHOW_DRIVER(cuDeviceGetName(name, sizeof name, device));
  printf("%s\n", name);
  SHOW_DRIVER(cuDeviceGetName(name, 4, device));
  printf("%s\n", name);
  CUuuid first = {}, second = {};
  SHOW_DRIVER(cuDeviceGetUuid(&first, device));
  SHOW_DRIVER(cuDeviceGetUuid_v2(&second, device));
  printf("one UUID: %d\n", !memcmp(&first, &second, sizeof first));
  char luid[8];
  unsigned nodes = 0;
  SHOW_DRIVER(cuDeviceGetLuid(luid, &nodes, device));
  size_t memory = 0;
  SHOW_DRIVER(cuDeviceTotalMem(&memory, device));
  SHOW_DRIVER(cuDeviceTotalMem(&memory, 1000));
  int value = -1;
  SHOW_DRIVER(cuDeviceGetAttribute(&value, static_cast<CUdevice_attribute>(100000), device));
  SHOW_DRIVER(cuDeviceGetAttribute(nullptr, CU_DEVICE_ATTRIBUTE_WARP_SIZE, device));
  // What depends on whether the device is in this machine is left out: atomics and managed memory
  // of both sides at once, host pointers as they are; and its place on the bus: servers have
  // several.
  const auto of_the_machine = [](int i) {
    return i == CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED ||
           i == CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS ||
           i == CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM ||
           i == CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST ||
           i == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID || i == CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID ||
           i == CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID ||
           i == CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD_GROUP_ID;
  };
  for (int i = 1; i < 145; i++)
    if (!of_the_machine(i) &&
        cuDeviceGetAttribute(&value, static_cast<CUdevice_attribute>(i), device) == CUDA_SUCCESS)
      printf("%d=%d ", i, value);
  printf("\n");

  printf("-- with others\n");
  int can = -1;
  SHOW_DRIVER(cuDeviceCanAccessPeer(&can, device, device));
  printf("itself: %d\n", can);
  SHOW_DRIVER(cuDeviceCanAccessPeer(&can, device, 1000));
  SHOW_DRIVER(cuDeviceCanAccessPeer(nullptr, device, device));
  SHOW_DRIVER(
      cuDeviceGetP2PAttribute(&value, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, device, device));
  SHOW_DRIVER(
      cuDeviceGetP2PAttribute(&value, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, device, 1000));
  SHOW_DRIVER(
      cuDeviceGetP2PAttribute(&value, static_cast<CUdevice_P2PAttribute>(99), device, device));

  printf("-- atomics\n");
  const CUatomicOperation operations[] = {CU_ATOMIC_OPERATION_INTEGER_ADD, CU_ATOMIC_OPERATION_CAS,
                                          CU_ATOMIC_OPERATION_FLOAT_ADD};
  unsigned capabilities[3] = {99, 99, 99};
  SHOW_DRIVER(cuDeviceGetHostAtomicCapabilities(capabilities, operations, 3, device));
  SHOW_DRIVER(cuDeviceGetHostAtomicCapabilities(nullptr, operations, 3, device));
  SHOW_DRIVER(cuDeviceGetHostAtomicCapabilities(capabilities, operations, 3, 1000));
  SHOW_DRIVER(cuDeviceGetP2PAtomicCapabilities(capabilities, operations, 3, device, 1000));

  printf("-- notifications\n");
  CUasyncCallbackHandle handle = nullptr;
  SHOW_DRIVER(cuDeviceRegisterAsyncNotification(device, noticed, nullptr, &handle));
  SHOW_DRIVER(cuDeviceRegisterAsyncNotification(1000, noticed, nullptr, &handle));
  SHOW_DRIVER(cuDeviceRegisterAsyncNotification(device, nullptr, nullptr, &handle));
  SHOW_DRIVER(cuDeviceUnregisterAsyncNotification(device, handle));
  SHOW_DRIVER(cuDeviceUnregisterAsyncNotification(device, handle));

  printf("-- names of errors\n");
  for (int code : {0, 1, 2, 100, 201, 209, 218, 400, 700, 717, 719, 801, 900, 912, 999, 12345}) {
    const char *short_name = nullptr, *sentence = nullptr;
    const CUresult named = cuGetErrorName(static_cast<CUresult>(code), &short_name);
    const CUresult said = cuGetErrorString(static_cast<CUresult>(code), &sentence);
    printf("%d: %d %s, %d %s\n", code, named, short_name ? short_name : "-", said,
           sentence ? sentence : "-");
  }
  int version = 0;
  SHOW_DRIVER(cuDriverGetVersion(nullptr));
  SHOW_DRIVER(cuDriverGetVersion(&version));
  return 0;
}
