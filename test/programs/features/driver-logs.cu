// What the driver writes of calls that failed: read from memory, from a file, and by a callback.
// flags: -lcuda
#include <unistd.h>
#include <cstdlib>
#include <cstring>
#include <string>

#include "../check.h"
#include "../check_driver.h"

// The header of these two is in another package than nvcc.
extern "C" CUresult cuProfilerStart();
extern "C" CUresult cuProfilerStop();

namespace {

int heard = 0;
void listen(void *data, CUlogLevel level, char *message, size_t length) {
  heard++;
  printf("heard: level %d, length right: %d, data %d\n", level, strlen(message) == length,
         data == &heard);
}

}  // namespace

int main() {
  CHECK(cudaFree(nullptr));
  CUlogIterator begin = 0, later = 0;
  SHOW_DRIVER(cuLogsCurrent(&begin, 0));
  SHOW_DRIVER(cuLogsCurrent(&begin, 1));
  SHOW_DRIVER(cuLogsCurrent(nullptr, 0));
  CUlogsCallbackHandle callback = nullptr;
  SHOW_DRIVER(cuLogsRegisterCallback(listen, &heard, &callback));
  SHOW_DRIVER(cuLogsRegisterCallback(nullptr, &heard, &callback));
  CUmodule module;
  SHOW_DRIVER(cuModuleLoadData(&module, ".version 6.0\n.target sm_52\nnonsense"));
  CUdeviceptr memory;
  SHOW_DRIVER(cuMemAlloc(&memory, 0));
  SHOW_DRIVER(cuLogsCurrent(&later, 0));

  char text[4096];
  size_t size = sizeof text;
  SHOW_DRIVER(cuLogsDumpToMemory(nullptr, text, &size, 0));
  SHOW_DRIVER(cuLogsDumpToMemory(nullptr, nullptr, &size, 0));
  SHOW_DRIVER(cuLogsDumpToMemory(nullptr, text, nullptr, 0));
  size = sizeof text;
  SHOW_DRIVER(cuLogsDumpToMemory(&begin, text, &size, 9));
  const std::string file = "/tmp/driver-logs." + std::to_string(getpid());
  SHOW_DRIVER(cuLogsDumpToFile(nullptr, file.c_str(), 0));
  SHOW_DRIVER(cuLogsDumpToFile(nullptr, nullptr, 0));
  unlink(file.c_str());
  SHOW_DRIVER(cuLogsDumpToFile(nullptr, "/no/such/folder/log", 0));
  SHOW_DRIVER(cuLogsUnregisterCallback(callback));
  SHOW_DRIVER(cuMemAlloc(&memory, 0));
  printf("heard %d\n", heard);
  SHOW_DRIVER(cuProfilerStart());
  SHOW_DRIVER(cuProfilerStop());
  return 0;
}
