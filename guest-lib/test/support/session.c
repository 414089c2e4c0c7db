#include "session.h"

#include <string.h>
#include <sys/socket.h>

#include "check.h"
#include "driver/hooks.h"
#include "memory/limit.h"
#include "memory/memory.h"
#include "session/context.h"
#include "session/device.h"
#include "wire/connection.h"
#include "wire/enter.h"
#include "wire/sender.h"

static void describe(struct device *device) {
  strcpy(device->name, "Test device");
  memset(device->uuid.bytes, 0x11, sizeof device->uuid.bytes);
  device->total_memory = 1ull << 34;
  device->attribute_count = 143;
  device->limit_count = CU_LIMIT_MAX;
  device->attributes[CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK] = 1024;
  for (int i = 0; i < 3; i++) {
    device->attributes[CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X + i] = 1024;
    device->attributes[CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X + i] = 65535;
  }
  device->attributes[CU_DEVICE_ATTRIBUTE_WARP_SIZE] = 32;
  static const CUdevice_attribute extents[] = {
      CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_WIDTH,
      CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_WIDTH,
      CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_HEIGHT,
      CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH,
      CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT,
      CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH,
      CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH,
      CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_WIDTH,
      CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_HEIGHT,
      CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_PITCH,
  };
  for (unsigned i = 0; i < sizeof extents / sizeof *extents; i++)
    device->attributes[extents[i]] = 1 << 20;
  device->attributes[CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN] = 49152;
  strcpy(device->pci_bus_id, "0000:01:00.0");
}

void session_enter(void) {
  CUcontext context;
  CHECK(cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
  CHECK(cuCtxSetCurrent(context) == CUDA_SUCCESS);
}

struct server *session_start(uint64_t limit, struct server_hook hook) {
  return session_start_pinned(limit, 0, hook);
}

struct server *session_start_pinned(uint64_t limit, uint64_t pinned, struct server_hook hook) {
  static struct device devices[2];
  hooks_set();
  CHECK(sessions_make(1));
  int pair[2];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
  // Small enough that tests fill them.
  int size = 64 << 10;
  for (int i = 0; i < 2; i++)
    CHECK(!setsockopt(pair[i], SOL_SOCKET, SO_SNDBUF, &size, sizeof size));
  CHECK(connection_adopt(session_here(), pair[0]) == 0);
  for (int i = 0; i < 2; i++) {
    describe(&devices[i]);
    devices[i].server_ordinal = (uint32_t)i;
    devices[i].session = sessions;
  }
  device_start(devices, 2, NULL, 13000);
  memory_join(session_here(), limit, pinned, 0);
  memory_start(WIRE_WINDOW_BASE, WIRE_WINDOW_SIZE, WIRE_GRANULE);
  CHECK(context_start(device_count()));
  CHECK(sender_start(session_here()) == 0);
  guest_attaching();
  guest_attached(1);
  struct server *server = server_start(pair[1], hook);
  session_enter();
  return server;
}
