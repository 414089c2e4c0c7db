// A graph printed as DOT text.
#include <cstring>
#include <string>

#include "../check.h"

__global__ void nothing_at_all() {}

int main() {
  cudaGraph_t graph;
  cudaStream_t stream;
  int *data;
  CHECK(cudaMalloc(&data, 400));
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  CHECK(cudaMemsetAsync(data, 0, 400, stream));
  nothing_at_all<<<2, 32, 0, stream>>>();
  CHECK(cudaStreamEndCapture(stream, &graph));
  char path[] = "/tmp/graph-dot-XXXXXX";
  if (mkstemp(path) < 0) return 1;
  CHECK(cudaGraphDebugDotPrint(graph, path, cudaGraphDebugDotFlagsVerbose));
  std::string text;
  if (FILE *file = fopen(path, "r")) {
    char line[1000];
    while (fgets(line, sizeof line, file)) text += line;
    fclose(file);
  }
  remove(path);
  bool whole = text.rfind("digraph", 0) == 0 && text.find("->") != std::string::npos &&
               text.find("nothing_at_all") != std::string::npos;
  printf("a digraph with an edge and the kernel's name: %d\n", whole);
  CHECK(cudaGraphDestroy(graph));
  if (!whole) fprintf(stderr, "%s\n", text.c_str());
  return whole ? 0 : 1;
}
