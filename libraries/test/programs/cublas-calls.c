// Calls functions of cuBLAS and says what they came to, so that two libraries can be compared. It
// is linked with libcublas.so.13 and libcuda.so.1 by their names, and finds whichever is there.
//   few          some calls, twice each; compared with what the processor computes
//   first        one product, as a program that makes no other
//   steady N     that, and then as few, N rounds of it; each says so as soon as its results are
//   there all PREFIX   every function of the table whose name begins so, in both pointer modes: a
//   line
//                for each with its status and a sum over all memory
//   bad          what is wrong, and what it is answered
//   foreign      what NVIDIA's own crashes of, or has a kernel end in
//   copies       vectors and matrices there and back, and what is set of a handle
//   handles      handles one after the other, and a second one
//   reset        the same after a reset of the device
//   unserved     a function of the interface of old
//   fork         what a child of the process may do with a handle of its parent's
//   threads      two threads with one handle
//   capture      a call in a stream that is captured
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cublas_calls.h"
#include "cuda_driver.h"

int cublasCreate_v2(void **handle);
int cublasDestroy_v2(void *handle);
int cublasInit(void);
int cublasSetPointerMode_v2(void *handle, int mode);
int cublasSetStream_v2(void *handle, CUstream stream);
int cublasSaxpy_v2(void *, int, const float *, const void *, int, void *, int);
int cublasSdot_v2(void *, int, const void *, int, const void *, int, float *);
int cublasDnrm2_v2(void *, int, const void *, int, double *);
int cublasSgemm_v2(void *, int, int, int, int, int, const float *, const void *, int, const void *,
                   int, const float *, void *, int);
int cublasSgemm_v2_64(void *, int, int, int64_t, int64_t, int64_t, const float *, const void *,
                      int64_t, const void *, int64_t, const float *, void *, int64_t);
int cublasDgemm_v2(void *, int, int, int, int, int, const double *, const void *, int, const void *,
                   int, const double *, void *, int);
const char *cublasGetStatusName(int status);
int cublasSetVector(int, int, const void *, int, void *, int);
int cublasGetVector(int, int, const void *, int, void *, int);
int cublasSetVectorAsync(int, int, const void *, int, void *, int, CUstream);
int cublasGetVectorAsync_64(int64_t, int64_t, const void *, int64_t, void *, int64_t, CUstream);
int cublasSetMatrix(int, int, int, const void *, int, void *, int);
int cublasGetMatrix_64(int64_t, int64_t, int64_t, const void *, int64_t, void *, int64_t);
int cublasSetMatrixAsync(int, int, int, const void *, int, void *, int, CUstream);
int cublasGetMatrixAsync(int, int, int, const void *, int, void *, int, CUstream);
int cublasDgeam(void *, int, int, int, int, const double *, const void *, int, const double *,
                const void *, int, void *, int);
int cublasSetEmulationStrategy(void *, int);
int cublasGetEmulationStrategy(void *, int *);
int cublasSetEnvironmentMode(void *, int);
int cublasGetEnvironmentMode(void *, int *);
int cublasSetVector_64(int64_t, int64_t, const void *, int64_t, void *, int64_t);
int cublasGetVector_64(int64_t, int64_t, const void *, int64_t, void *, int64_t);
int cublasSetVectorAsync_64(int64_t, int64_t, const void *, int64_t, void *, int64_t, CUstream);
int cublasGetVectorAsync(int, int, const void *, int, void *, int, CUstream);
int cublasGetMatrix(int, int, int, const void *, int, void *, int);
int cublasSetMatrix_64(int64_t, int64_t, int64_t, const void *, int64_t, void *, int64_t);
int cublasSetMatrixAsync_64(int64_t, int64_t, int64_t, const void *, int64_t, void *, int64_t,
                            CUstream);
int cublasGetMatrixAsync_64(int64_t, int64_t, int64_t, const void *, int64_t, void *, int64_t,
                            CUstream);
int cublasGetStream_v2(void *, CUstream *);
int cublasGetPointerMode_v2(void *, int *);
int cublasSetAtomicsMode(void *, int);
int cublasGetAtomicsMode(void *, int *);
int cublasSetMathMode(void *, int);
int cublasGetMathMode(void *, int *);
int cublasSetSmCountTarget(void *, int);
int cublasGetSmCountTarget(void *, int *);
int cublasSetWorkspace_v2(void *, void *, size_t);
int cublasGetVersion_v2(void *, int *);
int cublasGetProperty(int, int *);
size_t cublasGetCudartVersion(void);
const char *cublasGetStatusString(int status);
int cublasLoggerConfigure(int, int, int, const char *);
int cublasSetLoggerCallback(void *);
int cublasGetLoggerCallback(void **);

static void *handle;

#define MUST(call)                                         \
  do {                                                     \
    int must = (int)(call);                                \
    if (must) {                                            \
      printf("%s: %d (line %d)\n", #call, must, __LINE__); \
      exit(1);                                             \
    }                                                      \
  } while (0)

static CUdeviceptr upload(const void *from, size_t bytes) {
  CUdeviceptr at;
  MUST(cuMemAlloc_v2(&at, bytes));
  MUST(cuMemcpyHtoD_v2(at, from, bytes));
  return at;
}

static void *on_device(CUdeviceptr at) { return (void *)(uintptr_t)at; }

// ---- few ---------------------------------------------------------------------------------------

enum { N = 24 };

static void expect(const char *what, double got, double want) {
  if (fabs(got - want) <= 1e-4 * fmax(1, fabs(want))) return;
  printf("%s: %g, but it is %g\n", what, got, want);
  exit(1);
}

static void few(int rounds) {
  float a[N * N], b[N * N], c[N * N];
  double d[N * N], e[N * N], f[N * N];
  for (int i = 0; i < N * N; i++) {
    d[i] = a[i] = (float)(i % 7) / 4 - 0.5f;
    e[i] = b[i] = (float)(i % 5) / 2 - 0.75f;
  }
  CUdeviceptr at[] = {upload(a, sizeof a), upload(b, sizeof b), upload(a, sizeof a),
                      upload(d, sizeof d), upload(e, sizeof e), upload(d, sizeof d)};
  const float one = 1, zero = 0, two = 2;
  const double ones = 1, zeros = 0;
  for (int round = 0; round < rounds; round++) {
    float dot = 0;
    double norm = 0;
    MUST(cublasSgemm_v2(handle, 0, 0, N, N, N, &one, on_device(at[0]), N, on_device(at[1]), N,
                        &zero, on_device(at[2]), N));
    MUST(cublasDgemm_v2(handle, 0, 0, N, N, N, &ones, on_device(at[3]), N, on_device(at[4]), N,
                        &zeros, on_device(at[5]), N));
    MUST(cublasSaxpy_v2(handle, N, &two, on_device(at[0]), 1, on_device(at[2]), 1));
    if (round % 10) continue;
    MUST(cublasSdot_v2(handle, N, on_device(at[0]), 1, on_device(at[1]), 1, &dot));
    MUST(cublasDnrm2_v2(handle, N, on_device(at[3]), 1, &norm));
    double want = 0, square = 0;
    for (int i = 0; i < N; i++) want += a[i] * b[i], square += d[i] * d[i];
    expect("cublasSdot", dot, want);
    expect("cublasDnrm2", norm, sqrt(square));
  }
  MUST(cuMemcpyDtoH_v2(c, at[2], sizeof c));
  MUST(cuMemcpyDtoH_v2(f, at[5], sizeof f));
  for (int column = 0; column < N; column++) {
    for (int row = 0; row < N; row++) {
      double want = 0;
      for (int k = 0; k < N; k++) want += d[k * N + row] * e[column * N + k];
      expect("cublasDgemm", f[column * N + row], want);
      // The first N have had Saxpy on them.
      expect("cublasSgemm", c[column * N + row], want + (column ? 0 : 2 * d[row]));
    }
  }
  printf("all as the processor has it\n");
}

static void first(void) {
  float c[N * N];
  const float one = 1, zero = 0;
  for (int i = 0; i < N * N; i++) c[i] = i % (N + 1) == 0;
  const CUdeviceptr a = upload(c, sizeof c), b = upload(c, sizeof c), d = upload(c, sizeof c);
  MUST(cublasSgemm_v2(handle, 0, 0, N, N, N, &one, on_device(a), N, on_device(b), N, &zero,
                      on_device(d), N));
  MUST(cuMemcpyDtoH_v2(c, d, sizeof c));
  for (int i = 0; i < N * N; i++) expect("a product of ones", c[i], i % (N + 1) == 0);
  printf("all as the processor has it\n");
}

// ---- all ---------------------------------------------------------------------------------------

enum { SIZE = 6, STEP = 8, STRIDE = 256, BATCH = 2, WORDS = 1024, ARRAYS = 6 };
typedef int (*any)(void *, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                   uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                   uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                   uint64_t);

static _Bool is_complex(const char *name) {
  return strncmp(name, "cublasC", 7) == 0 && strncmp(name, "cublasCopy", 10) != 0;
}

enum number { SINGLE, DOUBLE, HALF, BRAIN };

// The upper bits of one that has no others.
static uint16_t narrow(float value, enum number kind) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return (uint16_t)(kind == BRAIN ? bits >> 16 : (bits - ((127u - 15) << 23)) >> 13);
}

static void fill(void *to, size_t bytes, enum number kind, int salt) {
  static const size_t sizes[] = {4, 8, 2, 2};
  for (size_t i = 0; i < bytes / sizes[kind]; i++) {
    const double value = (double)((i * 7 + (size_t)salt * 3) % 11 + 1) / 16 + (i % (STEP + 1) == 0);
    if (kind == DOUBLE)
      ((double *)to)[i] = value;
    else if (kind == SINGLE)
      ((float *)to)[i] = (float)value;
    else
      ((uint16_t *)to)[i] = narrow((float)value, kind);
  }
}

static _Bool of_doubles(const char *name) {
  name += strlen("cublas");
  if (*name == 'I' && name[1] != 'a') name++;
  return *name == 'D' || *name == 'Z' || *name == 'd' || *name == 'z'
             ? strncmp(name, "DotEx", 5) && strncmp(name, "DotcEx", 6)
             : 0;
}

// What the numbers among the parameters are, by what the others say of them.
static void choose(const struct library_call *call, uint64_t *words) {
  memset(words, 0, LIBRARY_PARAMETERS_MAX * sizeof *words);
  for (int i = 0; i < call->count; i++) {
    const struct library_argument *a = &call->arguments[i];
    for (int side = 0; side < 2; side++) {
      const struct library_length lengths[] = {a->rows[side], a->columns[side]};
      for (int j = 0; j < 2; j++) {
        const uint64_t size = lengths[j].plus ? 1 : SIZE;
        if (lengths[j].first >= 0) words[lengths[j].first] = size;
        if (lengths[j].second >= 0) words[lengths[j].second] = size;
      }
    }
  }
  for (int i = 0; i < call->count; i++) {
    const struct library_argument *a = &call->arguments[i];
    if (a->step >= 0) words[a->step] = a->kind == LIBRARY_MATRIX ? STEP : 1;
    if (a->stride >= 0 && words[a->stride] != SIZE) words[a->stride] = STRIDE;
    if (a->batch >= 0) words[a->batch] = BATCH;
    // A cudaDataType; but the first of two is a cublasComputeType_t.
    if (a->typed >= 0) words[a->typed] = a->complex >= 0 ? 68 : is_complex(call->name) ? 4 : 0;
  }
}

// Numbers of the kind that a function works on, in double precision where it has that. Those of
// half precision take single scalars where they say so, and the last of three letters is that of
// results.
static enum number number_of(const struct library_call *call, const struct library_argument *a,
                             int array) {
  const char *letters = call->name + strlen("cublas");
  if (of_doubles(call->name)) return DOUBLE;
  if ((*letters != 'H' && *letters != 'T') || a->element == 4) return SINGLE;
  enum { Y = 4 };  // behind alpha, A, x and beta
  if (letters[1] == 'S' && array == Y && letters[2] == 'S') return SINGLE;
  return *letters == 'H' ? HALF : BRAIN;
}

static _Bool has_pointers(const struct library_call *call, const struct library_argument *a) {
  return a->kind == LIBRARY_VECTOR && a->element == 8 && a->step < 0 &&
         strstr(call->name, "Batched") != NULL;
}

// Leading dimensions of arrays of pointers are nothing that the table knows: what is left at 0.
static void choose_rest(const struct library_call *call, uint64_t *words) {
  if (!strstr(call->name, "Batched") || strstr(call->name, "Strided")) return;
  for (int i = 0; i < call->count; i++) {
    const struct library_argument *a = &call->arguments[i];
    if (!has_pointers(call, a) || i + 1 >= call->count) continue;
    words[a->rows[0].first] = BATCH;
    const int next = i + 1 +
                     (strcmp(call->name, "cublasGemmBatchedEx") == 0 ||
                      strcmp(call->name, "cublasGemmBatchedEx_64") == 0);
    if (call->arguments[next].kind == LIBRARY_VALUE && !words[next]) words[next] = STEP;
  }
}

static uint64_t hash(uint64_t sum, const void *bytes, size_t size) {
  for (size_t i = 0; i < size; i++)
    sum = (sum ^ ((const unsigned char *)bytes)[i]) * 1099511628211u;
  return sum;
}

static void call_one(const struct library_call *call, int mode, CUdeviceptr memory) {
  static uint64_t image[(ARRAYS + 1) * WORDS], results[ARRAYS][16];
  uint64_t words[LIBRARY_PARAMETERS_MAX];
  choose(call, words);
  choose_rest(call, words);
  // m, n and k of calls whose table has only arrays of pointers: their first numbers.
  if (strstr(call->name, "Batched") && !strstr(call->name, "Strided")) {
    for (int i = 0, sizes = 0; i < call->count && sizes < 3; i++) {
      const struct library_argument *a = &call->arguments[i];
      if (a->kind != LIBRARY_VALUE) break;
      const _Bool enumerated =
          (strstr(call->name, "gemmB") || strstr(call->name, "GemmB") ||
           strstr(call->name, "gemm3mB"))
              ? i < 2
          : strstr(call->name, "trsm") ? i < 4
          : strstr(call->name, "gemvB") || strstr(call->name, "getrs") || strstr(call->name, "gels")
              ? i < 1
              : 0;
      if (!enumerated && !words[i]) words[i] = SIZE, sizes++;
    }
  }
  fill(image, sizeof image, of_doubles(call->name) ? DOUBLE : SINGLE, 1);
  int used = 0;
  for (int i = 0; i < call->count; i++) {
    const struct library_argument *a = &call->arguments[i];
    if (a->kind == LIBRARY_VALUE) continue;
    uint64_t *mine = &image[used * WORDS];
    const CUdeviceptr at = memory + (CUdeviceptr)used * WORDS * 8;
    fill(mine, WORDS * 8, number_of(call, a, used), used);
    if (has_pointers(call, a)) {
      for (int b = 0; b < BATCH; b++) mine[b] = at + 256 + (CUdeviceptr)b * STRIDE * 8;
    } else if (a->kind == LIBRARY_VECTOR && a->element == 4 && strstr(call->name, "Batched") &&
               !strstr(call->name, "Strided")) {
      // Pivots: each row is its own.
      for (int p = 0; p < SIZE * BATCH; p++) ((int *)mine)[p] = p % SIZE + 1;
    }
    words[i] = at;
    if (library_in_host(a, (uint32_t)mode)) {
      memcpy(results[used], mine, sizeof results[used]);
      words[i] = (uintptr_t)results[used];
    }
    used++;
  }
  MUST(cuMemcpyHtoD_v2(memory, image, (size_t)ARRAYS * WORDS * 8));
  MUST(cublasSetPointerMode_v2(handle, mode));
  const any function = (any)dlsym(RTLD_DEFAULT, call->name);
  if (!function) {
    printf("%s: there is none\n", call->name);
    return;
  }
  const uint64_t *w = words;
  uint64_t sum = 14695981039346656037u;
  int status = 0;
  // The second time it is one that has succeeded before.
  for (int round = 0; round < 2; round++) {
    status = function(handle, w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8], w[9], w[10],
                      w[11], w[12], w[13], w[14], w[15], w[16], w[17], w[18], w[19], w[20], w[21],
                      w[22], w[23]);
    MUST(cuMemcpyDtoH_v2(image, memory, (size_t)ARRAYS * WORDS * 8));
    // Addresses are of the process.
    int array = 0;
    for (int i = 0; i < call->count; i++) {
      const struct library_argument *a = &call->arguments[i];
      if (a->kind == LIBRARY_VALUE) continue;
      const uint64_t *mine = &image[array * WORDS];
      const size_t skip = has_pointers(call, a) ? BATCH : 0;
      sum = hash(sum, mine + skip, (WORDS - skip) * 8);
      if (library_in_host(a, (uint32_t)mode))
        sum = hash(sum, results[array], sizeof results[array]);
      array++;
    }
  }
  printf("%s %s: %s %016llx\n", call->name, mode ? "device" : "host", cublasGetStatusName(status),
         (unsigned long long)sum);
}

static int compare(const void *a, const void *b) {
  const struct library_call *const *x = a, *const *y = b;
  return strcmp((*x)->name, (*y)->name);
}

static void all(const char *prefix) {
  const struct library_call *calls[CUBLAS_CALL_COUNT];
  int count = 0;
  for (int i = 0; i < CUBLAS_CALL_COUNT; i++) {
    const char *name = cublas_calls[i].name;
    const _Bool of_handle = !strncmp(name, "cublasSet", 9) || !strcmp(name, "cublasCreate_v2") ||
                            !strcmp(name, "cublasDestroy_v2");
    if (!of_handle && !strncmp(name, prefix, strlen(prefix))) calls[count++] = &cublas_calls[i];
  }
  qsort(calls, (size_t)count, sizeof *calls, compare);
  CUdeviceptr memory;
  MUST(cuMemAlloc_v2(&memory, (size_t)(ARRAYS + 1) * WORDS * 8));
  for (int i = 0; i < count; i++)
    for (int mode = 0; mode < 2; mode++) call_one(calls[i], mode, memory);
  printf("%d functions\n", count);
}

// ---- bad ---------------------------------------------------------------------------------------

static void told(const char *what, int status) {
  printf("%s: %s\n", what, cublasGetStatusName(status));
}

static void bad(void) {
  const float one = 1;
  float result = 0;
  void *other;
  CUdeviceptr x;
  MUST(cuMemAlloc_v2(&x, 4096));
  told("no handle", cublasSaxpy_v2(NULL, 8, &one, on_device(x), 1, on_device(x), 1));
  told("a pointer mode that is none", cublasSetPointerMode_v2(handle, 7));
  told("nowhere for the handle", cublasCreate_v2(NULL));
  told("a negative size", cublasSgemm_v2(handle, 0, 0, -1, 4, 4, &one, on_device(x), 4,
                                         on_device(x), 4, &one, on_device(x), 4));
  told("a leading dimension too small", cublasSgemm_v2(handle, 0, 0, 8, 4, 4, &one, on_device(x), 4,
                                                       on_device(x), 4, &one, on_device(x), 8));
  MUST(cublasCreate_v2(&other));
  MUST(cublasDestroy_v2(other));
  MUST(cublasSdot_v2(handle, 8, on_device(x), 1, on_device(x), 1, &result));
  printf("and then it works\n");
}

// What is not this program's is refused: at once as long as calls are waited for, and then as work
// is that fails on its way.
static void refused(const char *what, int status) {
  told(what, status);
  printf("  of its work: %d\n", (int)cuCtxSynchronize());
}

static void wrong_calls(CUdeviceptr x) {
  const float one = 1;
  const int64_t far = (int64_t)1 << 40;
  void *const at = on_device(x), *const nowhere = (void *)0x1000;
  refused("more numbers than there are", cublasSaxpy_v2(handle, 1 << 30, &one, at, 1, at, 1));
  refused("steps beyond the end", cublasSaxpy_v2(handle, 8, &one, at, 1 << 30, at, 1));
  refused("sizes without an end",
          cublasSgemm_v2_64(handle, 0, 0, far, far, far, &one, at, far, at, far, &one, at, far));
  refused("memory of nobody's", cublasSaxpy_v2(handle, 8, &one, nowhere, 1, at, 1));
  refused("memory of the host's", cublasSaxpy_v2(handle, 8, &one, &one, 1, at, 1));
  refused("a matrix of nobody's",
          cublasSgemm_v2(handle, 0, 0, 4, 4, 4, &one, at, 4, nowhere, 4, &one, at, 4));
  MUST(cublasSetPointerMode_v2(handle, 1));
  refused("a scalar of the host's", cublasSaxpy_v2(handle, 8, &one, at, 1, at, 1));
  MUST(cublasSetPointerMode_v2(handle, 0));
}

static void foreign(void) {
  const float one = 1;
  float result = 0;
  uint64_t none[32] = {0};
  void *lt_handle = NULL, *layout = NULL;
  CUdeviceptr x;
  MUST(cuMemAlloc_v2(&x, 4096));
  MUST(cuMemsetD8_v2(x, 0, 4096));
  void *const at = on_device(x), *const lt = dlopen("libcublasLt.so.13", RTLD_NOW);
  int (*const lt_create)(void **) = (int (*)(void **))dlsym(lt, "cublasLtCreate");
  int (*const layout_create)(void **, int, uint64_t, uint64_t, int64_t) =
      (int (*)(void **, int, uint64_t, uint64_t, int64_t))dlsym(lt, "cublasLtMatrixLayoutCreate");
  MUST(lt_create(&lt_handle));
  MUST(layout_create(&layout, 0, 4, 4, 4));
  told("a handle of nobody's", cublasSaxpy_v2(none, 8, &one, at, 1, at, 1));
  told("a handle of cuBLASLt's", cublasSaxpy_v2(lt_handle, 8, &one, at, 1, at, 1));
  told("a descriptor of cuBLASLt's", cublasSaxpy_v2(layout, 8, &one, at, 1, at, 1));
  told("one of those to end", cublasDestroy_v2(layout));
  told("no scalar", cublasSaxpy_v2(handle, 8, NULL, at, 1, at, 1));
  told("nowhere for a result", cublasSdot_v2(handle, 8, at, 1, at, 1, NULL));
  wrong_calls(x);
  // From here on nothing of the kind is waited for.
  refused("what is right", cublasSaxpy_v2(handle, 8, &one, at, 1, at, 1));
  wrong_calls(x);
  MUST(cublasSetWorkspace_v2(handle, at, (size_t)1 << 40));
  refused("a workspace of nobody's", cublasSaxpy_v2(handle, 8, &one, at, 1, at, 1));
  told("one that is not aligned", cublasSetWorkspace_v2(handle, on_device(x + 8), 64));
  MUST(cublasSetWorkspace_v2(handle, at, 256));
  MUST(cublasSdot_v2(handle, 8, at, 1, at, 1, &result));
  printf("and then it works: %g\n", (double)result);
}

// ---- copies ------------------------------------------------------------------------------------

// What is set of a handle is what it says.
static void settings(void) {
  CUstream stream, got_stream = NULL;
  MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  printf("stream: %d", cublasSetStream_v2(handle, stream));
  printf(" %d", cublasGetStream_v2(handle, &got_stream));
  printf(" %d %d\n", got_stream == stream, cublasGetStream_v2(handle, NULL));
  for (int value = -1; value < 3; value++) {
    int mode = 77, atomics = 77;
    printf("modes %d: %d", value, cublasSetPointerMode_v2(handle, value));
    printf(" %d %d", cublasGetPointerMode_v2(handle, &mode), mode);
    printf("; %d", cublasSetAtomicsMode(handle, value));
    printf(" %d %d\n", cublasGetAtomicsMode(handle, &atomics), atomics);
  }
  for (int value = -1; value < 20; value++) {
    int math = 77;
    printf("math %d: %d", value, cublasSetMathMode(handle, value));
    printf(" %d %d\n", cublasGetMathMode(handle, &math), math);
  }
  for (int value = -1; value < 2; value++) {
    int count = 77;
    printf("multiprocessors %d: %d", value, cublasSetSmCountTarget(handle, value));
    printf(" %d %d\n", cublasGetSmCountTarget(handle, &count), count);
  }
  CUdeviceptr workspace;
  MUST(cuMemAlloc_v2(&workspace, 1 << 20));
  printf("a workspace: %d\n", cublasSetWorkspace_v2(handle, on_device(workspace), 1 << 20));
  int version = 0, property;
  printf("version: %d", cublasGetVersion_v2(handle, &version));
  printf(" %d, of the runtime %zu\n", version, cublasGetCudartVersion());
  for (int type = -1; type < 5; type++) {
    property = -5;
    printf("property %d: %d", type, cublasGetProperty(type, &property));
    printf(" %d\n", property);
  }
  for (int status = -1; status < 20; status++)
    printf("%d: %s, %s\n", status, cublasGetStatusName(status), cublasGetStatusString(status));
  void *callback = &version;
  printf("log: %d", cublasLoggerConfigure(0, 0, 0, NULL));
  printf(" %d", cublasSetLoggerCallback(NULL));
  printf(" %d", cublasGetLoggerCallback(&callback));
  printf(" %d\n", callback == NULL);
  MUST(cublasSetPointerMode_v2(handle, 0));
  MUST(cublasSetAtomicsMode(handle, 0));
  MUST(cublasSetMathMode(handle, 0));
  MUST(cublasSetSmCountTarget(handle, 0));
  MUST(cublasSetStream_v2(handle, NULL));
  MUST(cuStreamDestroy_v2(stream));
  MUST(cuMemFree_v2(workspace));
}

static void copies(void) {
  enum { PLACES = 256 };
  int there[PLACES], back[PLACES];
  CUdeviceptr at;
  CUstream stream;
  for (int i = 0; i < PLACES; i++) there[i] = i * i;
  MUST(cuMemAlloc_v2(&at, sizeof there));
  MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
#define SAY(name, call)                                                          \
  do {                                                                           \
    memset(back, 0, sizeof back);                                                \
    const int status = call;                                                     \
    MUST(cuStreamSynchronize(stream));                                           \
    int image[PLACES];                                                           \
    MUST(cuMemcpyDtoH_v2(image, at, sizeof image));                              \
    printf("%s: %d %016llx %016llx\n", name, status,                             \
           (unsigned long long)hash(14695981039346656037u, image, sizeof image), \
           (unsigned long long)hash(14695981039346656037u, back, sizeof back));  \
    MUST(cuMemsetD8_v2(at, 7, sizeof image));                                    \
    MUST(cuMemcpyHtoD_v2(at, there, sizeof there));                              \
  } while (0)
  MUST(cuMemsetD8_v2(at, 7, sizeof there));
  SAY("a vector there", cublasSetVector(50, 4, there, 1, on_device(at), 1));
  SAY("a vector back", cublasGetVector(50, 4, on_device(at), 1, back, 1));
  SAY("a vector with steps there", cublasSetVector(50, 4, there, 2, on_device(at), 3));
  SAY("a vector with steps back", cublasGetVector(50, 4, on_device(at), 3, back, 2));
  SAY("a vector of doubles there", cublasSetVectorAsync(20, 8, there, 1, on_device(at), 2, stream));
  SAY("a vector of doubles back",
      cublasGetVectorAsync_64(20, 8, on_device(at), 2, back, 1, stream));
  SAY("a matrix there", cublasSetMatrix(5, 6, 4, there, 7, on_device(at), 9));
  SAY("a matrix back", cublasGetMatrix_64(5, 6, 4, on_device(at), 9, back, 7));
  SAY("a matrix there on a stream",
      cublasSetMatrixAsync(5, 6, 4, there, 5, on_device(at), 5, stream));
  SAY("a matrix back on a stream",
      cublasGetMatrixAsync(5, 6, 4, on_device(at), 8, back, 6, stream));
  SAY("a long vector there", cublasSetVector_64(50, 4, there, 1, on_device(at), 2));
  SAY("a long vector back", cublasGetVector_64(50, 4, on_device(at), 2, back, 1));
  SAY("a long vector there on a stream",
      cublasSetVectorAsync_64(20, 8, there, 1, on_device(at), 2, stream));
  SAY("a vector back on a stream", cublasGetVectorAsync(20, 8, on_device(at), 2, back, 1, stream));
  SAY("a matrix back at once", cublasGetMatrix(5, 6, 4, on_device(at), 9, back, 7));
  SAY("a large matrix there", cublasSetMatrix_64(5, 6, 4, there, 7, on_device(at), 9));
  SAY("a large matrix there on a stream",
      cublasSetMatrixAsync_64(5, 6, 4, there, 5, on_device(at), 5, stream));
  SAY("a large matrix back on a stream",
      cublasGetMatrixAsync_64(5, 6, 4, on_device(at), 8, back, 6, stream));
  SAY("nothing", cublasSetVector(0, 4, there, 1, on_device(at), 1));
  SAY("less than nothing", cublasSetVector(-1, 4, there, 1, on_device(at), 1));
  SAY("no step", cublasSetVector(5, 4, there, 0, on_device(at), 1));
  SAY("no step back", cublasGetVector(5, 4, on_device(at), 1, back, -1));
  SAY("no elements", cublasSetVector(5, 0, there, 1, on_device(at), 1));
  SAY("a matrix of no rows", cublasSetMatrix(0, 6, 4, there, 7, on_device(at), 9));
  SAY("a matrix of no columns", cublasSetMatrix(5, -6, 4, there, 7, on_device(at), 9));
  SAY("a leading dimension of none", cublasSetMatrix(5, 6, 4, there, 0, on_device(at), 9));
  SAY("a matrix of no elements", cublasSetMatrix(5, 6, -4, there, 7, on_device(at), 9));
  for (int value = -1; value < 4; value++) {
    int got = 77;
    printf("emulation %d: %d", value, cublasGetEmulationStrategy(handle, &got));
    printf(" %d", got);
    printf(" %d", cublasSetEmulationStrategy(handle, value));
    printf("; environment: %d", cublasGetEnvironmentMode(handle, &got));
    printf(" %d", got);
    printf(" %d\n", cublasSetEnvironmentMode(handle, value));
  }
  // A matrix that is not there has no factor either.
  const double two = 2;
  SAY("one matrix of two", cublasDgeam(handle, 0, 0, 4, 4, &two, on_device(at), 4, NULL, NULL, 4,
                                       on_device(at + 512), 4));
  SAY("the other of two", cublasDgeam(handle, 0, 0, 4, 4, NULL, NULL, 4, &two, on_device(at), 4,
                                      on_device(at + 512), 4));
  printf("nowhere: %d %d\n", cublasGetEmulationStrategy(handle, NULL),
         cublasGetEnvironmentMode(handle, NULL));
  printf("of no handle: %d %d\n", cublasSetEmulationStrategy(NULL, 0),
         cublasSetEnvironmentMode(NULL, 0));
  settings();
  few(20);
}

// One at a time, again and again; then a second one beside it.
static void handles(void) {
  for (int i = 0; i < 5; i++) {
    MUST(cublasDestroy_v2(handle));
    MUST(cublasCreate_v2(&handle));
  }
  void *second;
  const int status = cublasCreate_v2(&second);
  printf("a second handle: %d\n", status);
  if (!status) MUST(cublasDestroy_v2(second));
}

// What a slot has memory for is there again when the session has given up all that it had.
static void after_reset(CUdevice device, CUcontext context) {
  MUST(cuDevicePrimaryCtxReset_v2(device));
  MUST(cuCtxSetCurrent(context));
  printf("a handle after a reset: %d\n", cublasCreate_v2(&handle));
  handles();
}

// ---- processes, threads, captures --------------------------------------------------------------

static float dot_of_ones(CUdeviceptr ones, int n) {
  float result = 0;
  MUST(cublasSdot_v2(handle, n, on_device(ones), 1, on_device(ones), 1, &result));
  return result;
}

static CUdeviceptr ones(int n) {
  CUdeviceptr at;
  MUST(cuMemAlloc_v2(&at, (size_t)n * 4));
  MUST(cuMemsetD32_v2(at, 0x3f800000, (size_t)n));
  return at;
}

// A device is the parent's alone: the child gets errors, and the parent notices nothing.
static void in_child(void) {
  const CUdeviceptr x = ones(8);
  float result = 0;
  printf("before: %g\n", dot_of_ones(x, 8));
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    void *other = NULL;
    const int failed = cublasSdot_v2(handle, 8, on_device(x), 1, on_device(x), 1, &result) != 0 &&
                       cublasCreate_v2(&other) != 0 && cublasDestroy_v2(handle) != 0;
    _exit(failed ? 7 : 8);
  }
  int status = 0;
  MUST(waitpid(child, &status, 0) != child);
  printf("the child: %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
  printf("after: %g\n", dot_of_ones(x, 8));
}

enum { ROUNDS = 200 };
static CUcontext shared;

static void *calls(void *argument) {
  const CUdeviceptr x = *(CUdeviceptr *)argument;
  const float one = 1;
  MUST(cuCtxSetCurrent(shared));
  for (int i = 0; i < ROUNDS; i++) {
    MUST(cublasSaxpy_v2(handle, 8, &one, on_device(x), 1, on_device(x + 32), 1));
    if (i % 10 == 0 && dot_of_ones(x, 8) != 8) printf("a wrong product\n");
  }
  return NULL;
}

static void two_threads(void) {
  CUdeviceptr x[2] = {ones(16), ones(16)};
  pthread_t threads[2];
  float sums[8];
  MUST(cuCtxGetCurrent(&shared));
  for (int i = 0; i < 2; i++) MUST(pthread_create(&threads[i], NULL, calls, &x[i]));
  for (int i = 0; i < 2; i++) MUST(pthread_join(threads[i], NULL));
  for (int i = 0; i < 2; i++) {
    MUST(cuMemcpyDtoH_v2(sums, x[i] + 32, sizeof sums));
    for (int j = 0; j < 8; j++)
      if (sums[j] != 1 + ROUNDS) printf("a sum of %g\n", (double)sums[j]);
  }
  printf("two threads: done\n");
}

static void captured(void) {
  const CUdeviceptr x = ones(16);
  const float one = 1;
  CUstream stream;
  CUgraph graph = NULL;
  MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  // The same call has succeeded before.
  MUST(cublasSaxpy_v2(handle, 8, &one, on_device(x), 1, on_device(x + 32), 1));
  MUST(cublasSetStream_v2(handle, stream));
  MUST(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  for (int i = 0; i < 3; i++)
    printf("captured: %s\n", cublasGetStatusName(cublasSaxpy_v2(handle, 8, &one, on_device(x), 1,
                                                                on_device(x + 32), 1)));
  printf("the capture: %d\n", (int)cuStreamEndCapture(stream, &graph));
  printf("and then: %s\n", cublasGetStatusName(cublasSaxpy_v2(handle, 8, &one, on_device(x), 1,
                                                              on_device(x + 32), 1)));
  float sum = 0;
  MUST(cuStreamSynchronize(stream));
  MUST(cuMemcpyDtoH_v2(&sum, x + 32, sizeof sum));
  printf("a sum of %g\n", (double)sum);
}

int main(int count, char **arguments) {
  if (count < 2) return 2;
  CUdevice device;
  CUcontext context;
  MUST(cuInit(0));
  MUST(cuDeviceGet(&device, 0));
  MUST(cuDevicePrimaryCtxRetain(&context, device));
  MUST(cuCtxSetCurrent(context));
  MUST(cublasCreate_v2(&handle));
  if (!strcmp(arguments[1], "few")) few(20);
  if (!strcmp(arguments[1], "first")) first();
  if (!strcmp(arguments[1], "steady")) {
    MUST(setvbuf(stdout, NULL, _IOLBF, 0));
    first();
    few(count > 2 ? atoi(arguments[2]) : 20);
  }
  if (!strcmp(arguments[1], "all")) all(count > 2 ? arguments[2] : "cublas");
  if (!strcmp(arguments[1], "bad")) bad();
  if (!strcmp(arguments[1], "foreign")) foreign();
  if (!strcmp(arguments[1], "handles")) handles();
  if (!strcmp(arguments[1], "unserved")) printf("cublasInit: %d\n", cublasInit());
  if (!strcmp(arguments[1], "reset")) after_reset(device, context);
  if (!strcmp(arguments[1], "copies")) copies();
  if (!strcmp(arguments[1], "fork")) in_child();
  if (!strcmp(arguments[1], "threads")) two_threads();
  if (!strcmp(arguments[1], "capture")) captured();
  MUST(cublasDestroy_v2(handle));
  return 0;
}
