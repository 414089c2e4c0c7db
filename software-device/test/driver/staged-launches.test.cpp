// Launches as before CUDA 4, events of whole contexts, usage counts, and the log that programs
// read.
#include <unistd.h>

#include <string>

#include "support.h"

namespace {

void shape_and_parameters_one_by_one(void **) {
  CUmodule module = load_kernels();
  CUfunction add_one = kernel(module, "add_one"), store = kernel(module, "store");
  CUdeviceptr data;
  OK(cuMemAlloc_v2(&data, 64 * 4));
  OK(cuMemsetD32_v2(data, 5, 64));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuLaunch(add_one));  // no shape yet
  OK(cuFuncSetBlockShape(add_one, 16, 1, 1));
  OK(cuFuncSetSharedSize(add_one, 0));
  OK(cuParamSetv(add_one, 0, &data, sizeof data));
  OK(cuParamSeti(add_one, 8, 40));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuLaunchGrid(add_one, 4, 1));  // no size of parameters yet
  OK(cuParamSetSize(add_one, 12));
  OK(cuLaunchGrid(add_one, 4, 1));
  OK(cuCtxSynchronize());
  uint32_t words[64];
  OK(cuMemcpyDtoH_v2(words, data, sizeof words));
  for (int i = 0; i < 64; i++) assert_int_equal(words[i], i < 40 ? 6 : 5);

  CUstream stream;
  OK(cuStreamCreate(&stream, 0));
  OK(cuLaunchGridAsync(add_one, 1, 1, stream));
  OK(cuStreamSynchronize(stream));
  OK(cuMemcpyDtoH_v2(words, data, sizeof words));
  assert_true(words[0] == 7 && words[16] == 6);

  OK(cuFuncSetBlockShape(store, 1, 1, 1));
  OK(cuParamSetv(store, 0, &data, sizeof data));
  OK(cuParamSetf(store, 8, 1.5f));
  OK(cuParamSetSize(store, 12));
  OK(cuLaunch(store));
  float value;
  OK(cuMemcpyDtoH_v2(&value, data, 4));
  assert_true(value == 1.5f);

  EXPECT(CUDA_ERROR_INVALID_VALUE, cuFuncSetBlockShape(store, 0, 1, 1));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuParamSeti(store, -1, 0));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuParamSeti(store, 1 << 20, 0));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuParamSetv(store, 0, nullptr, 4));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuParamSetv(store, 4, &data, UINT32_MAX));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuParamSetSize(store, UINT32_MAX));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuLaunchGrid(store, 0, 1));
  EXPECT(CUDA_ERROR_INVALID_HANDLE, cuLaunch(reinterpret_cast<CUfunction>(data)));
  OK(cuMemFree_v2(data));
}

void events_of_a_whole_context(void **state) {
  auto context = static_cast<CUcontext>(*state);
  CUstream first, second;
  OK(cuStreamCreate(&first, CU_STREAM_NON_BLOCKING));
  OK(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
  CUevent event;
  OK(cuEventCreate(&event, 0));
  Gate gate, other;
  gate.hold(first);
  other.hold(second);
  OK(cuCtxRecordEvent(context, event));
  gate.open();
  OK(cuStreamSynchronize(first));
  EXPECT(CUDA_ERROR_NOT_READY, cuEventQuery(event));  // the second stream is part of it
  // All of the context waits for it now.
  OK(cuCtxWaitEvent(nullptr, event));
  EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(first));
  other.open();
  OK(cuEventSynchronize(event));
  OK(cuStreamSynchronize(first));

  CUcontext elsewhere;
  OK(cuCtxCreate_v2(&elsewhere, 0, 0));
  EXPECT(CUDA_ERROR_INVALID_HANDLE, cuCtxRecordEvent(elsewhere, event));
  OK(cuCtxWaitEvent(elsewhere, event));
  OK(cuCtxDestroy_v2(elsewhere));
  EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuCtxRecordEvent(elsewhere, event));
  EXPECT(CUDA_ERROR_INVALID_HANDLE, cuCtxRecordEvent(context, nullptr));
}

void contexts_with_a_usage_count(void **) {
  CUcontext context, attached;
  OK(cuCtxCreate_v2(&context, 0, 0));
  OK(cuCtxAttach(&attached, 0));
  assert_ptr_equal(context, attached);
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuCtxAttach(&attached, 1));
  OK(cuCtxDetach(context));
  unsigned flags;
  OK(cuCtxGetFlags(&flags));
  OK(cuCtxDetach(context));
  EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuCtxDetach(context));
  CUexecAffinityParam affinity;
  EXPECT(CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY,
         cuCtxGetExecAffinity(&affinity, CU_EXEC_AFFINITY_TYPE_SM_COUNT));
}

void programs_read_the_log(void **) {
  CUlogIterator begin;
  OK(cuLogsCurrent(&begin, 0));
  static std::string heard;
  CUlogsCallbackHandle handle;
  OK(cuLogsRegisterCallback(
      [](void *data, CUlogLevel level, char *text, size_t length) {
        if (data == &heard && level == CU_LOG_LEVEL_ERROR) heard.assign(text, length);
      },
      &heard, &handle));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(4096));
  assert_true(heard.find("cuMemFree_v2") != std::string::npos);
  char text[4096];
  size_t size = sizeof text;
  CUlogIterator at = begin;
  OK(cuLogsDumpToMemory(&at, text, &size, 0));
  assert_true(size == strlen(text) && strstr(text, "0x1000 is not the start of an allocation"));
  size = sizeof text;
  OK(cuLogsDumpToMemory(&at, text, &size, 0));
  assert_int_equal(size, 0);  // nothing since
  OK(cuLogsUnregisterCallback(handle));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuLogsUnregisterCallback(handle));
  heard.clear();
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(4096));
  assert_true(heard.empty());
  size = 3;
  at = begin;
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuLogsDumpToMemory(&at, text, &size, 0));
  char path[] = "/tmp/softdev-log-XXXXXX";
  close(mkstemp(path));
  OK(cuLogsDumpToFile(nullptr, path, 0));
  FILE *file = fopen(path, "r");
  assert_non_null(fgets(text, sizeof text, file));
  fclose(file);
  remove(path);
}

void notifications_can_be_asked_for(void **) {
  CUasyncCallbackHandle handle;
  auto never = [](CUasyncNotificationInfo *, void *, CUasyncCallbackHandle) { abort(); };
  OK(cuDeviceRegisterAsyncNotification(0, never, nullptr, &handle));
  EXPECT(CUDA_ERROR_INVALID_DEVICE, cuDeviceRegisterAsyncNotification(7, never, nullptr, &handle));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuDeviceRegisterAsyncNotification(0, nullptr, nullptr, &handle));
  OK(cuDeviceUnregisterAsyncNotification(0, handle));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuDeviceUnregisterAsyncNotification(0, handle));
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      TEST(shape_and_parameters_one_by_one), TEST(events_of_a_whole_context),
      TEST(contexts_with_a_usage_count),     TEST(programs_read_the_log),
      TEST(notifications_can_be_asked_for),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
