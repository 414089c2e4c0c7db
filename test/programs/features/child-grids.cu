// Kernels that launch kernels: in the streams of a block, of a thread and of their own, behind
// events, and in the tail. What CUDA puts in order is checked by what the grids find in memory.
// flags: -rdc=true -lcudadevrt
#include "../check.h"

struct Board {
  int clock;      // counts what has happened
  int order[16];  // when each piece of work of a test ran
  int count;      // of grids
  unsigned long long sum;
  int bytes[64], copied[64];
  int wrong;
};

__device__ void stamp(Board *board, int which) {
  board->order[which] = atomicAdd(&board->clock, 1);
}

__global__ void mark(Board *board, int which) { stamp(board, which); }

// Works long enough for what must wait to be seen if it does not.
__global__ void slow_mark(Board *board, int which) {
  volatile int turns = 0;
  while (turns < 20000) turns = turns + 1;
  stamp(board, which);
}

// ---- one stream after the other

__global__ void default_stream(Board *board) {
  slow_mark<<<1, 1>>>(board, 0);
  mark<<<1, 1>>>(board, 1);
  slow_mark<<<1, 1>>>(board, 2);
  mark<<<1, 1>>>(board, 3);
  mark<<<1, 1, 0, cudaStreamTailLaunch>>>(board, 5);
  slow_mark<<<1, 1, 0, cudaStreamFireAndForget>>>(board, 4);
}

// All threads of a block have one default stream: what thread 0 launches comes before what the
// last one does, as there is a barrier between.
__global__ void block_stream(Board *board) {
  if (threadIdx.x == 0) slow_mark<<<1, 1>>>(board, 0);
  __syncthreads();
  if (threadIdx.x == blockDim.x - 1) mark<<<1, 1>>>(board, 1);
}

__global__ void events(Board *board) {
  cudaStream_t first, second;
  cudaEvent_t done;
  if (cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking) ||
      cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking) ||
      cudaEventCreateWithFlags(&done, cudaEventDisableTiming))
    board->wrong = 1;
  slow_mark<<<1, 1, 0, first>>>(board, 0);
  cudaEventRecord(done, first);
  slow_mark<<<1, 1, 0, second>>>(board, 1);
  cudaStreamWaitEvent(second, done, 0);
  cudaStreamWaitEvent(0, done, 0);
  mark<<<1, 1, 0, second>>>(board, 2);
  mark<<<1, 1>>>(board, 3);
  // Both are only forgotten: the work is done all the same.
  cudaEventDestroy(done);
  cudaStreamDestroy(first);
  cudaStreamDestroy(second);
}

__global__ void check_copies(Board *board) {
  for (int i = 0; i < 64; i++) {
    int want = i < 32 ? 0x01010101 * 7 : i % 8 < 4 ? 0x01010101 * 9 : 1000 + i;
    if (board->copied[i] != want) board->wrong = 100 + i;
  }
}

__global__ void copies(Board *board) {
  for (int i = 0; i < 64; i++) board->bytes[i] = 1000 + i;
  cudaStream_t stream;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  cudaMemsetAsync(board->bytes, 7, 32 * sizeof(int), stream);
  cudaMemset2DAsync(board->bytes + 32, 8 * sizeof(int), 9, 4 * sizeof(int), 4, stream);
  cudaMemcpyAsync(board->copied, board->bytes, 16 * sizeof(int), cudaMemcpyDeviceToDevice, stream);
  cudaMemcpy2DAsync(board->copied + 16, 8 * sizeof(int), board->bytes + 16, 8 * sizeof(int),
                    8 * sizeof(int), 6, cudaMemcpyDefault, stream);
  check_copies<<<1, 1, 0, stream>>>(board);
  if (cudaGetLastError()) board->wrong = 2;
}

// ---- the tail

// A grid in the tail comes behind all that its parent's children have launched, and before the
// next one in that tail; what it puts in its own tail comes first.
__global__ void child_with_tail(Board *board) {
  slow_mark<<<1, 1, 0, cudaStreamFireAndForget>>>(board, 0);
  mark<<<1, 1, 0, cudaStreamTailLaunch>>>(board, 1);
}
// A child may run while its parent does, so the parent stamps before it launches.
__global__ void tail_with_tail(Board *board) {
  stamp(board, 2);
  mark<<<1, 1, 0, cudaStreamTailLaunch>>>(board, 4);
  slow_mark<<<1, 1>>>(board, 3);
}
__global__ void tails(Board *board) {
  tail_with_tail<<<1, 1, 0, cudaStreamTailLaunch>>>(board);
  mark<<<1, 1, 0, cudaStreamTailLaunch>>>(board, 5);
  child_with_tail<<<1, 1>>>(board);
}

// A loop: each turn is the tail of the one before.
__global__ void turn(Board *board, int left) {
  board->count++;
  if (left > 1) turn<<<1, 1, 0, cudaStreamTailLaunch>>>(board, left - 1);
}

// ---- many

__global__ void add(Board *board, int block, int thread) {
  atomicAdd(&board->sum, (unsigned long long)(block * 100 + thread) * blockDim.x * gridDim.x +
                             threadIdx.x + blockIdx.x);
}
__global__ void many(Board *board) {
  add<<<2, 8>>>(board, blockIdx.x, threadIdx.x);
  if (cudaGetLastError()) atomicAdd(&board->wrong, 1);
}

// Each grid launches two, one deeper.
__global__ void tree(Board *board, int depth) {
  atomicAdd(&board->count, 1);
  if (depth == 0) return;
  tree<<<1, 1, 0, cudaStreamFireAndForget>>>(board, depth - 1);
  tree<<<1, 1>>>(board, depth - 1);
}

__device__ void (*which)(Board *, int) = mark;
__global__ void by_pointer(Board *board) { which<<<1, 1>>>(board, 0); }

// Parameters of all sizes.
struct Large {
  char text[1000];
  double value;
};
__global__ void take(Board *board, char c, short s, Large large, int i) {
  bool right = c == 'c' && s == -3 && large.text[999] == 'z' && large.value == 0.5 && i == 77;
  if (!right) board->wrong = 3;
  stamp(board, 0);
}
__global__ void give(Board *board) {
  Large large = {};
  large.text[999] = 'z';
  large.value = 0.5;
  take<<<1, 1>>>(board, 'c', -3, large, 77);
}

int main() {
  Board *board;
  CHECK(cudaMalloc(&board, sizeof *board));
  Board host;
  int bad = 0;
  auto finish = [&](const char *name) {
    CHECK(cudaMemcpy(&host, board, sizeof host, cudaMemcpyDeviceToHost));
    CHECK(cudaMemset(board, 0, sizeof *board));
    if (host.wrong) printf("%s: %d is wrong\n", name, host.wrong);
    bad |= host.wrong;
  };
  auto expect = [&](const char *name, bool right) {
    printf("%s: %s\n", name, right ? "right" : "WRONG");
    bad |= !right;
  };
  auto &order = host.order;
  CHECK(cudaMemset(board, 0, sizeof *board));

  default_stream<<<1, 1>>>(board);
  mark<<<1, 1>>>(board, 6);  // a host's kernel comes behind all of it
  finish("default stream");
  expect("default stream", order[0] < order[1] && order[1] < order[2] && order[2] < order[3]);
  expect("tail", order[5] == 5 && order[6] == 6 && host.clock == 7);

  block_stream<<<1, 96>>>(board);
  finish("block's stream");
  expect("block's stream", order[0] == 0 && order[1] == 1);

  events<<<1, 1>>>(board);
  finish("events");
  expect("events", order[0] < order[2] && order[1] < order[2] && order[0] < order[3]);

  copies<<<1, 1>>>(board);
  finish("copies");
  expect("copies", !host.wrong);

  tails<<<1, 1>>>(board);
  finish("tails");
  bool sorted = host.clock == 6;
  for (int i = 0; i < 6; i++) sorted &= order[i] == i;
  expect("tails", sorted);

  turn<<<1, 1>>>(board, 3000);
  finish("loop");
  expect("loop of tails", host.count == 3000);

  many<<<40, 33>>>(board);
  finish("many");
  unsigned long long sum = 0;
  for (int block = 0; block < 40; block++)
    for (int thread = 0; thread < 33; thread++) sum += (block * 100 + thread) * 16 * 16 + 64;
  expect("many", host.sum == sum);

  tree<<<1, 1>>>(board, 9);
  finish("tree");
  expect("tree", host.count == 1023);

  by_pointer<<<1, 1>>>(board);
  finish("pointer");
  expect("pointer", host.clock == 1);

  give<<<1, 1>>>(board);
  finish("parameters");
  expect("parameters", host.clock == 1);

  // As a node of a graph, twice.
  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  tree<<<1, 1, 0, stream>>>(board, 5);
  mark<<<1, 1, 0, stream>>>(board, 0);
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  CHECK(cudaGraphLaunch(exec, stream));
  CHECK(cudaGraphLaunch(exec, stream));
  CHECK(cudaStreamSynchronize(stream));
  finish("graph");
  expect("graph", host.count == 2 * 63 && host.clock == 2);
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));
  CHECK(cudaStreamDestroy(stream));
  CHECK(cudaFree(board));
  return bad != 0;
}
