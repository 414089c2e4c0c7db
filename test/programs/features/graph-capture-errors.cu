// What the modes of capture forbid, and how a capture that has failed ends.
#include <thread>

#include "../check.h"

static void end(cudaStream_t stream, const char *what) {
  cudaGraph_t graph = nullptr;
  cudaError_t result = cudaStreamEndCapture(stream, &graph);
  printf("%s: %s\n", what, cudaGetErrorName(result));
  if (graph) CHECK(cudaGraphDestroy(graph));
  cudaGetLastError();
}

int main() {
  cudaStream_t stream, side, blocking;
  cudaEvent_t event;
  int *memory;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
  CHECK(cudaStreamCreate(&blocking));
  CHECK(cudaEventCreate(&event));

  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  SHOW(cudaMalloc(&memory, 100));
  end(stream, "after an unsafe call");

  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  std::thread([] {
    int *other;
    SHOW(cudaMalloc(&other, 100));
    CHECK(cudaFree(other));
  }).join();
  end(stream, "after another thread's, locally");

  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  CHECK(cudaThreadExchangeStreamCaptureMode(&mode));
  SHOW(cudaMalloc(&memory, 100));
  CHECK(cudaThreadExchangeStreamCaptureMode(&mode));
  end(stream, "after one in relaxed mode");

  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  SHOW(cudaStreamSynchronize(stream));
  SHOW(cudaMemsetAsync(memory, 0, 100, stream));
  end(stream, "after waiting for it");

  CHECK(cudaStreamBeginCapture(blocking, cudaStreamCaptureModeRelaxed));
  SHOW(cudaMemsetAsync(memory, 0, 100, cudaStreamLegacy));
  end(blocking, "after the legacy stream");

  CHECK(cudaEventRecord(event, side));
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  SHOW(cudaStreamWaitEvent(stream, event));
  end(stream, "after waiting for what is outside");

  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  CHECK(cudaEventRecord(event, stream));
  CHECK(cudaStreamWaitEvent(side, event));
  CHECK(cudaMemsetAsync(memory, 0, 100, side));
  SHOW(cudaEventQuery(event));
  end(stream, "after asking for a captured event");

  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  CHECK(cudaEventRecord(event, stream));
  CHECK(cudaStreamWaitEvent(side, event));
  CHECK(cudaMemsetAsync(memory, 0, 100, side));
  end(stream, "with a stream that did not come back");

  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  SHOW(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  end(stream, "begun twice");
  end(stream, "ended twice");
  SHOW(cudaStreamBeginCapture(cudaStreamLegacy, cudaStreamCaptureModeRelaxed));
  cudaGetLastError();
  CHECK(cudaMemset(memory, 0, 100));
  CHECK(cudaFree(memory));
  CHECK(cudaDeviceSynchronize());
  return 0;
}
