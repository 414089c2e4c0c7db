// Calls functions of cuBLASLt and says what they came to, so that two libraries can be compared. It
// is linked with libcublas.so.13, libcublasLt.so.13 and libcuda.so.1 by their names, and finds
// whichever is there.
//   descriptors  every attribute of every descriptor: what it is, how it is set, what is refused
//   products     products of many kinds, twice each, with a sum over what they came to
//   algorithms   what the library tells of its algorithms
//   bad          what is wrong, and what it is answered
//   foreign      what NVIDIA's own crashes of
//   few ROUNDS   one product again and again, compared with what the processor computes
//   steady N     one, and then N rounds of it; each says so as soon as its results are there
//   reset        the same before and after a reset of the device
//   capture      a product in a stream that is captured
//   fork         what a child of the process may do with a handle of its parent's
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda_driver.h"

// As the library's header has them.
typedef struct {
  uint64_t data[8];
} algo_t;
typedef struct {
  algo_t algo;
  size_t workspace;
  int state;
  float waves;
  int reserved[4];
} result_t;
int cublasCreate_v2(void **handle);
int cublasDestroy_v2(void *handle);
int cublasLtCreate(void **handle);
int cublasLtDestroy(void *handle);
size_t cublasLtGetVersion(void);
size_t cublasLtGetCudartVersion(void);
int cublasLtGetProperty(int type, int *value);
const char *cublasLtGetStatusName(int status);
const char *cublasLtGetStatusString(int status);
int cublasLtHeuristicsCacheGetCapacity(size_t *capacity);
int cublasLtHeuristicsCacheSetCapacity(size_t capacity);
int cublasLtMatmulDescCreate(void **desc, int compute, int scale);
int cublasLtMatmulDescInit_internal(void *desc, size_t size, int compute, int scale);
int cublasLtMatmulDescDestroy(void *desc);
int cublasLtMatmulDescSetAttribute(void *desc, int id, const void *value, size_t size);
int cublasLtMatmulDescGetAttribute(void *desc, int id, void *value, size_t size, size_t *written);
int cublasLtMatrixLayoutCreate(void **layout, int type, uint64_t rows, uint64_t columns,
                               int64_t ld);
int cublasLtMatrixLayoutInit_internal(void *layout, size_t size, int type, uint64_t rows,
                                      uint64_t columns, int64_t ld);
int cublasLtMatrixLayoutDestroy(void *layout);
int cublasLtMatrixLayoutSetAttribute(void *layout, int id, const void *value, size_t size);
int cublasLtMatrixLayoutGetAttribute(void *layout, int id, void *value, size_t size,
                                     size_t *written);
int cublasLtMatrixTransformDescCreate(void **desc, int scale);
int cublasLtMatrixTransformDescDestroy(void *desc);
int cublasLtMatrixTransformDescSetAttribute(void *desc, int id, const void *value, size_t size);
int cublasLtMatrixTransformDescGetAttribute(void *desc, int id, void *value, size_t size,
                                            size_t *written);
int cublasLtMatmulPreferenceCreate(void **preference);
int cublasLtMatmulPreferenceDestroy(void *preference);
int cublasLtMatmulPreferenceSetAttribute(void *preference, int id, const void *value, size_t size);
int cublasLtMatmulPreferenceGetAttribute(void *preference, int id, void *value, size_t size,
                                         size_t *written);
int cublasLtMatrixTransformDescInit_internal(void *desc, size_t size, int scale);
int cublasLtMatmulPreferenceInit_internal(void *preference, size_t size);
int cublasLtLoggerSetLevel(int level);
int cublasLtLoggerSetMask(int mask);
int cublasLtLoggerSetCallback(void *callback);
int cublasLtLoggerSetFile(void *file);
int cublasLtLoggerOpenFile(const char *file);
int cublasLtLoggerForceDisable(void);
int cublasLtMatmul(void *handle, void *desc, const void *alpha, const void *a, void *a_layout,
                   const void *b, void *b_layout, const void *beta, const void *c, void *c_layout,
                   void *d, void *d_layout, const algo_t *algo, void *workspace, size_t size,
                   CUstream stream);
int cublasLtMatrixTransform(void *handle, void *desc, const void *alpha, const void *a,
                            void *a_layout, const void *beta, const void *b, void *b_layout,
                            void *c, void *c_layout, CUstream stream);
int cublasLtMatmulAlgoGetHeuristic(void *handle, void *desc, void *a, void *b, void *c, void *d,
                                   void *preference, int wanted, result_t *results, int *count);
int cublasLtMatmulAlgoGetIds(void *handle, int compute, int scale, int a, int b, int c, int d,
                             int wanted, int *ids, int *count);
int cublasLtMatmulAlgoInit(void *handle, int compute, int scale, int a, int b, int c, int d, int id,
                           algo_t *algo);
int cublasLtMatmulAlgoCheck(void *handle, void *desc, void *a, void *b, void *c, void *d,
                            const algo_t *algo, result_t *result);
int cublasLtMatmulAlgoCapGetAttribute(const algo_t *algo, int id, void *value, size_t size,
                                      size_t *written);
int cublasLtMatmulAlgoConfigGetAttribute(const algo_t *algo, int id, void *value, size_t size,
                                         size_t *written);
int cublasLtMatmulAlgoConfigSetAttribute(algo_t *algo, int id, const void *value, size_t size);

enum { R_32F = 0, R_64F = 1, R_16F = 2, R_8I = 3, C_32F = 4, C_64F = 5, R_32I = 10, R_16BF = 14 };
enum { COMPUTE_16F = 64, COMPUTE_32F = 68, COMPUTE_64F = 70, COMPUTE_32I = 72, COMPUTE_TF32 = 77 };

static void *handle;

#define MUST(call)                                         \
  do {                                                     \
    int must = (int)(call);                                \
    if (must) {                                            \
      printf("%s: %d (line %d)\n", #call, must, __LINE__); \
      exit(1);                                             \
    }                                                      \
  } while (0)

static void *on_device(CUdeviceptr at) { return (void *)(uintptr_t)at; }
static uint64_t hash(uint64_t sum, const void *bytes, size_t size) {
  for (size_t i = 0; i < size; i++)
    sum = (sum ^ ((const unsigned char *)bytes)[i]) * 1099511628211u;
  return sum;
}
static void told(const char *what, int status) {
  printf("%s: %s\n", what, cublasLtGetStatusName(status));
}

// ---- descriptors -------------------------------------------------------------------------------

typedef int (*set_t)(void *, int, const void *, size_t);
typedef int (*get_t)(void *, int, void *, size_t, size_t *);

static void one_attribute(const char *kind, void *object, int id, set_t set, get_t get) {
  static const size_t sizes[] = {0, 1, 2, 3, 4, 5, 8, 12, 16};
  uint64_t value[4] = {0};
  size_t bytes = 77;
  int status = get(object, id, NULL, 0, &bytes);
  printf("%s %d: %d, %zu bytes,", kind, id, status, bytes);
  if (!status) {
    MUST(get(object, id, value, bytes, NULL));
    printf(" %llx,", (unsigned long long)value[0]);
  }
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    size_t written = 55;
    uint64_t got[4] = {0}, given[4] = {3, 0, 0, 0};
    const int read = get(object, id, got, sizes[i], &written);
    printf(" %d %zu", read, read ? 0 : written);
    printf(" %d", set(object, id, given, sizes[i]));
    if (!get(object, id, got, sizes[i], NULL)) printf(" %llx", (unsigned long long)got[0]);
  }
  printf("; %d %d %d %d %d\n", get(object, id, NULL, bytes, &bytes), get(object, id, NULL, 0, NULL),
         set(object, id, NULL, bytes), set(NULL, id, value, bytes),
         get(NULL, id, value, bytes, NULL));
}

static void descriptors(void) {
  void *desc, *layout, *transform, *preference;
  MUST(cublasLtMatmulDescCreate(&desc, COMPUTE_32F, R_32F));
  MUST(cublasLtMatrixLayoutCreate(&layout, R_16F, 40, 50, 60));
  MUST(cublasLtMatrixTransformDescCreate(&transform, R_32F));
  MUST(cublasLtMatmulPreferenceCreate(&preference));
  for (int id = -1; id < 80; id++) {
    one_attribute("product", desc, id, cublasLtMatmulDescSetAttribute,
                  cublasLtMatmulDescGetAttribute);
    one_attribute("layout", layout, id, cublasLtMatrixLayoutSetAttribute,
                  cublasLtMatrixLayoutGetAttribute);
    one_attribute("transform", transform, id, cublasLtMatrixTransformDescSetAttribute,
                  cublasLtMatrixTransformDescGetAttribute);
    one_attribute("preference", preference, id, cublasLtMatmulPreferenceSetAttribute,
                  cublasLtMatmulPreferenceGetAttribute);
  }
  printf("nowhere: %d %d %d %d\n", cublasLtMatmulDescCreate(NULL, 0, 0),
         cublasLtMatrixLayoutCreate(NULL, 0, 1, 1, 1), cublasLtMatrixTransformDescCreate(NULL, 0),
         cublasLtMatmulPreferenceCreate(NULL));
  printf("ended: %d %d %d %d\n", cublasLtMatmulDescDestroy(desc),
         cublasLtMatrixLayoutDestroy(layout), cublasLtMatrixTransformDescDestroy(transform),
         cublasLtMatmulPreferenceDestroy(preference));
  printf("none ended: %d %d %d %d\n", cublasLtMatmulDescDestroy(NULL),
         cublasLtMatrixLayoutDestroy(NULL), cublasLtMatrixTransformDescDestroy(NULL),
         cublasLtMatmulPreferenceDestroy(NULL));
  // In memory of the program's, which it may copy.
  uint64_t own[8], copy[8], rows = 0;
  printf("too small: %d\n", cublasLtMatrixLayoutInit_internal(own, 56, R_32F, 7, 8, 9));
  MUST(cublasLtMatrixLayoutInit_internal(own, sizeof own, R_32F, 7, 8, 9));
  memcpy(copy, own, sizeof copy);
  memset(own, 0, sizeof own);
  MUST(cublasLtMatrixLayoutGetAttribute(copy, 2, &rows, sizeof rows, NULL));
  printf("a copy: %llu rows\n", (unsigned long long)rows);
  printf("too small: %d %d\n", cublasLtMatrixTransformDescInit_internal(own, 8, R_32F),
         cublasLtMatmulPreferenceInit_internal(own, 8));
  MUST(cublasLtMatrixTransformDescInit_internal(own, sizeof own, R_32F));
  int scale = 77;
  MUST(cublasLtMatrixTransformDescGetAttribute(own, 0, &scale, sizeof scale, NULL));
  MUST(cublasLtMatmulPreferenceInit_internal(own, sizeof own));
  MUST(cublasLtMatmulPreferenceGetAttribute(own, 1, &rows, sizeof rows, NULL));
  printf("in memory of its own: scale %d, workspace %llu\n", scale, (unsigned long long)rows);
  uint64_t product[32];
  int compute = 77;
  printf("too small: %d\n", cublasLtMatmulDescInit_internal(product, 8, COMPUTE_32F, R_32F));
  MUST(cublasLtMatmulDescInit_internal(product, sizeof product, COMPUTE_32F, R_32F));
  MUST(cublasLtMatmulDescGetAttribute(product, 0, &compute, sizeof compute, NULL));
  printf("a product in memory of its own: %d\n", compute);
  printf("log: %d", cublasLtLoggerSetLevel(0));
  printf(" %d", cublasLtLoggerSetMask(0));
  printf(" %d", cublasLtLoggerSetCallback(NULL));
  printf(" %d", cublasLtLoggerSetFile(NULL));
  printf(" %d", cublasLtLoggerOpenFile("/dev/null"));
  printf(" %d\n", cublasLtLoggerForceDisable());
  // As many as a program likes.
  enum { MANY = 1000000 };
  static void *many[MANY];
  for (int i = 0; i < MANY; i++) MUST(cublasLtMatrixLayoutCreate(&many[i], R_32F, i + 1, 1, i + 1));
  MUST(cublasLtMatrixLayoutGetAttribute(many[MANY - 1], 2, &rows, sizeof rows, NULL));
  printf("the last of many: %llu rows\n", (unsigned long long)rows);
  for (int i = 0; i < MANY; i++) MUST(cublasLtMatrixLayoutDestroy(many[i]));
  size_t capacity;
  for (size_t wanted = 0; wanted < 100; wanted += 33) {
    MUST(cublasLtHeuristicsCacheSetCapacity(wanted));
    MUST(cublasLtHeuristicsCacheGetCapacity(&capacity));
    printf("%zu kept: %zu\n", wanted, capacity);
  }
  printf("version %zu, of the runtime %zu\n", cublasLtGetVersion(), cublasLtGetCudartVersion());
  for (int type = -2; type < 5; type++) {
    int value = -5;
    const int status = cublasLtGetProperty(type, &value);
    printf("property %d: %d %d\n", type, status, value);
  }
  for (int status = -1; status < 20; status++)
    printf("%d: %s, %s\n", status, cublasLtGetStatusName(status), cublasLtGetStatusString(status));
}

// ---- products ----------------------------------------------------------------------------------

enum { PLACE = 1 << 16, PLACES = 8, WORKSPACE = 1 << 22 };
static CUdeviceptr memory, workspace;

// Numbers of each type that a product may have, small and exact.
static void fill(void *to, int type, int salt) {
  for (int i = 0; i < PLACE / 8; i++) {
    const int whole = (i * 7 + salt * 5) % 9 - 4;
    switch (type) {
      case R_64F:
      case C_64F:
        ((double *)to)[i] = whole;
        break;
      case R_16F: {
        // Halves of whole numbers up to 4.
        static const uint16_t of[] = {0, 0x3c00, 0x4000, 0x4200, 0x4400};
        ((uint16_t *)to)[i] = (uint16_t)(of[abs(whole)] | (whole < 0 ? 0x8000 : 0));
        break;
      }
      case R_16BF: {
        const float value = (float)whole;
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        ((uint16_t *)to)[i] = (uint16_t)(bits >> 16);
        break;
      }
      case R_8I:
        ((int8_t *)to)[i] = (int8_t)whole;
        break;
      case R_32I:
        ((int *)to)[i] = whole;
        break;
      default:
        ((float *)to)[i] = (float)whole;
    }
  }
}

static void set_desc(void *desc, int id, int64_t value, size_t size) {
  MUST(cublasLtMatmulDescSetAttribute(desc, id, &value, size));
}
static void set_layout(void *layout, int id, int64_t value, size_t size) {
  MUST(cublasLtMatrixLayoutSetAttribute(layout, id, &value, size));
}

struct product {
  const char *name;
  int compute, scale, type, out;
  int transposed;  // that many of A and B
  int m, n, k, batch, epilogue;
  int mode;       // enum cublasLtPointerMode_t
  int rows;       // row order
  int heuristic;  // with an algorithm that was asked for
};

static void scalar(void *to, int type, double value) {
  memset(to, 0, 16);
  if (type == R_64F || type == C_64F)
    *(double *)to = value;
  else if (type == R_32I)
    *(int *)to = (int)value;
  else if (type == R_16F)
    *(uint16_t *)to = value == 1 ? 0x3c00 : 0x4000;
  else
    *(float *)to = (float)value;
}

static void one_product(const struct product *p) {
  static unsigned char image[PLACES * PLACE];
  void *desc, *a, *b, *c, *preference;
  const int ta = p->transposed & 1, tb = p->transposed >> 1 & 1;
  const int a_rows = ta ? p->k : p->m, a_columns = ta ? p->m : p->k;
  const int b_rows = tb ? p->n : p->k, b_columns = tb ? p->k : p->n;
  const int c_ld = p->rows ? p->n : p->m;
  MUST(cublasLtMatmulDescCreate(&desc, p->compute, p->scale));
  if (ta) set_desc(desc, 3, 1, 4);
  if (tb) set_desc(desc, 4, 1, 4);
  if (p->mode) set_desc(desc, 2, p->mode, 4);
  if (p->epilogue) set_desc(desc, 7, p->epilogue, 4);
  if (p->epilogue & 4) set_desc(desc, 8, (int64_t)(memory + 4 * PLACE), 8);
  if (p->epilogue & 128) {
    set_desc(desc, 11, (int64_t)(memory + 5 * PLACE), 8);
    set_desc(desc, 12, (p->m + 127) / 128 * 128, 8);
  }
  MUST(cublasLtMatrixLayoutCreate(&a, p->type, (uint64_t)a_rows, (uint64_t)a_columns,
                                  p->rows ? a_columns : a_rows));
  MUST(cublasLtMatrixLayoutCreate(&b, p->type, (uint64_t)b_rows, (uint64_t)b_columns,
                                  p->rows ? b_columns : b_rows));
  MUST(cublasLtMatrixLayoutCreate(&c, p->out, (uint64_t)p->m, (uint64_t)p->n, c_ld));
  void *const layouts[] = {a, b, c};
  const int64_t strides[] = {(int64_t)p->m * p->k, (int64_t)p->k * p->n, (int64_t)p->m * p->n};
  for (int i = 0; i < 3; i++) {
    if (p->rows) set_layout(layouts[i], 1, 1, 4);
    if (p->batch <= 1) continue;
    set_layout(layouts[i], 5, p->batch, 4);
    set_layout(layouts[i], 6, strides[i], 8);
  }
  for (int i = 0; i < PLACES; i++) fill(image + i * PLACE, i < 2 ? p->type : p->out, i);
  char alpha[16], beta[16];
  scalar(alpha, p->scale, 2);
  scalar(beta, p->scale, 1);
  for (int i = 0; i < 256; i++) scalar(image + 6 * PLACE + i * 4, R_32F, 2);
  MUST(cuMemcpyHtoD_v2(memory, image, sizeof image));
  const void *given[2] = {alpha, beta};
  if (p->mode && p->mode != 4) given[1] = on_device(memory + 6 * PLACE + 2048);
  if (p->mode) given[0] = on_device(memory + 6 * PLACE);

  result_t results[4];
  memset(results, 0, sizeof results);
  int count = -1, status = 0;
  if (p->heuristic) {
    const uint64_t bytes = WORKSPACE;
    MUST(cublasLtMatmulPreferenceCreate(&preference));
    MUST(cublasLtMatmulPreferenceSetAttribute(preference, 1, &bytes, sizeof bytes));
    for (int round = 0; round < 2; round++)
      status =
          cublasLtMatmulAlgoGetHeuristic(handle, desc, a, b, c, c, preference, 4, results, &count);
    MUST(cublasLtMatmulPreferenceDestroy(preference));
    printf("%s: %s, %d algorithms %016llx\n", p->name, cublasLtGetStatusName(status), count,
           (unsigned long long)hash(14695981039346656037u, results,
                                    status ? 0 : (size_t)count * sizeof *results));
    if (!status && count) {
      result_t checked;
      memset(&checked, 0, sizeof checked);
      status = cublasLtMatmulAlgoCheck(handle, desc, a, b, c, c, &results[0].algo, &checked);
      printf("  checked: %d, %zu bytes, %d %g\n", status, checked.workspace, checked.state,
             (double)checked.waves);
    }
  }
  uint64_t sum = 14695981039346656037u;
  for (int round = 0; round < 3; round++) {
    status =
        cublasLtMatmul(handle, desc, given[0], on_device(memory), a, on_device(memory + PLACE), b,
                       given[1], on_device(memory + 2 * PLACE), c, on_device(memory + 3 * PLACE), c,
                       count > 0 ? &results[0].algo : NULL, on_device(workspace), WORKSPACE, NULL);
    MUST(cuMemcpyDtoH_v2(image, memory, sizeof image));
    sum = hash(sum, image, sizeof image);
  }
  printf("%s: %s %016llx\n", p->name, cublasLtGetStatusName(status), (unsigned long long)sum);
  MUST(cublasLtMatmulDescDestroy(desc));
  for (int i = 0; i < 3; i++) MUST(cublasLtMatrixLayoutDestroy(layouts[i]));
}

static void one_transform(const char *name, int from, int to, int order, int mode, _Bool second) {
  static unsigned char image[4 * PLACE];
  enum { ROWS = 40, COLUMNS = 24 };
  void *desc, *a, *c;
  const float alpha = 2, beta = second ? 3 : 0;
  MUST(cublasLtMatrixTransformDescCreate(&desc, R_32F));
  MUST(cublasLtMatrixTransformDescSetAttribute(desc, 1, &mode, sizeof mode));
  MUST(cublasLtMatrixLayoutCreate(&a, from, ROWS, COLUMNS, ROWS));
  MUST(cublasLtMatrixLayoutCreate(&c, to, ROWS, COLUMNS, order == 1 ? COLUMNS : 32 * ROWS));
  set_layout(c, 1, order, 4);
  for (int i = 0; i < 4; i++) fill(image + i * PLACE, i < 2 ? from : R_32F, i);
  MUST(cuMemcpyHtoD_v2(memory, image, sizeof image));
  const void *const given[] = {mode ? on_device(memory + 3 * PLACE) : &alpha,
                               mode ? on_device(memory + 3 * PLACE + 4) : &beta};
  uint64_t sum = 14695981039346656037u;
  int status = 0;
  for (int round = 0; round < 2; round++) {
    status = cublasLtMatrixTransform(handle, desc, given[0], on_device(memory), a, given[1],
                                     second ? on_device(memory + PLACE) : NULL, second ? a : NULL,
                                     on_device(memory + 2 * PLACE), c, NULL);
    MUST(cuMemcpyDtoH_v2(image, memory, sizeof image));
    sum = hash(sum, image, sizeof image);
  }
  printf("%s: %s %016llx\n", name, cublasLtGetStatusName(status), (unsigned long long)sum);
  MUST(cublasLtMatrixTransformDescDestroy(desc));
  MUST(cublasLtMatrixLayoutDestroy(a));
  MUST(cublasLtMatrixLayoutDestroy(c));
}

static void products(void) {
  static const struct product all[] = {
      {"singles", COMPUTE_32F, R_32F, R_32F, R_32F, 0, 16, 24, 32, 1, 0, 0, 0, 1},
      {"singles, any algorithm", COMPUTE_32F, R_32F, R_32F, R_32F, 0, 16, 24, 32, 1, 0, 0, 0, 0},
      {"singles transposed", COMPUTE_32F, R_32F, R_32F, R_32F, 1, 33, 17, 29, 1, 0, 0, 0, 1},
      {"singles of both", COMPUTE_32F, R_32F, R_32F, R_32F, 3, 8, 40, 16, 1, 0, 0, 0, 1},
      {"rows", COMPUTE_32F, R_32F, R_32F, R_32F, 0, 16, 24, 32, 1, 0, 0, 1, 1},
      {"a batch", COMPUTE_32F, R_32F, R_32F, R_32F, 0, 16, 24, 32, 3, 0, 0, 0, 1},
      {"scalars of the device", COMPUTE_32F, R_32F, R_32F, R_32F, 0, 16, 24, 32, 1, 0, 1, 0, 1},
      {"a vector of scalars", COMPUTE_32F, R_32F, R_32F, R_32F, 0, 16, 24, 32, 1, 0, 4, 0, 1},
      {"bias", COMPUTE_32F, R_32F, R_32F, R_32F, 0, 16, 24, 32, 1, 4, 0, 0, 1},
      {"relu and bias", COMPUTE_32F, R_32F, R_32F, R_32F, 1, 64, 32, 64, 1, 6, 0, 0, 1},
      {"relu with a mask", COMPUTE_32F, R_32F, R_32F, R_32F, 0, 128, 16, 32, 1, 2 | 128, 0, 0, 1},
      {"gelu and bias", COMPUTE_32F, R_32F, R_16F, R_16F, 1, 64, 32, 64, 1, 36, 0, 0, 1},
      {"doubles", COMPUTE_64F, R_64F, R_64F, R_64F, 0, 16, 24, 32, 1, 0, 0, 0, 1},
      {"complex", COMPUTE_32F, C_32F, C_32F, C_32F, 0, 16, 24, 32, 1, 0, 0, 0, 1},
      {"halves", COMPUTE_32F, R_32F, R_16F, R_16F, 1, 64, 64, 64, 1, 0, 0, 0, 1},
      {"halves into singles", COMPUTE_32F, R_32F, R_16F, R_32F, 1, 64, 64, 64, 1, 0, 0, 0, 1},
      {"halves all through", COMPUTE_16F, R_16F, R_16F, R_16F, 0, 64, 64, 64, 1, 0, 0, 0, 1},
      {"brain floats", COMPUTE_32F, R_32F, R_16BF, R_16BF, 1, 64, 64, 64, 1, 4, 0, 0, 1},
      {"whole numbers", COMPUTE_32I, R_32I, R_8I, R_32I, 1, 64, 64, 64, 1, 0, 0, 0, 1},
      {"what there is not", COMPUTE_64F, R_64F, R_16F, R_8I, 0, 16, 24, 32, 1, 0, 0, 0, 1},
  };
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) one_product(&all[i]);
  one_transform("into rows", R_32F, R_32F, 1, 0, 1);
  one_transform("with scalars of the device", R_32F, R_32F, 1, 1, 1);
  one_transform("of one matrix", R_32F, R_32F, 1, 0, 0);
  one_transform("into 32 columns", R_8I, R_8I, 2, 0, 0);
  one_transform("into what there is not", R_64F, R_8I, 3, 0, 1);
}

// ---- algorithms --------------------------------------------------------------------------------

static void algorithms(void) {
  enum { MOST = 40 };
  int ids[MOST], count = -1;
  for (int wanted = 1; wanted <= MOST; wanted += 13) {
    const int status = cublasLtMatmulAlgoGetIds(handle, COMPUTE_32F, R_32F, R_32F, R_32F, R_32F,
                                                R_32F, wanted, ids, &count);
    printf("%d wanted: %d, %d there, %016llx\n", wanted, status, count,
           (unsigned long long)hash(14695981039346656037u, ids, (size_t)count * sizeof *ids));
  }
  for (int i = 0; i < count && i < 6; i++) {
    algo_t algo;
    memset(&algo, 0, sizeof algo);
    int status = cublasLtMatmulAlgoInit(handle, COMPUTE_32F, R_32F, R_32F, R_32F, R_32F, R_32F,
                                        ids[i], &algo);
    printf("algorithm %d: %d %016llx\n", ids[i], status,
           (unsigned long long)hash(14695981039346656037u, &algo, sizeof algo));
    for (int id = 0; !status && id < 24; id++) {
      static uint64_t value[512];
      memset(value, 0, sizeof value);
      size_t bytes = 0, got = 0;
      status = cublasLtMatmulAlgoCapGetAttribute(&algo, id, NULL, 0, &bytes);
      printf("  can %d: %d %zu", id, status, status ? 0 : bytes);
      if (!status) {
        const int read = cublasLtMatmulAlgoCapGetAttribute(&algo, id, value, bytes, &got);
        printf(" %d %zu %016llx", read, got,
               (unsigned long long)hash(14695981039346656037u, value, sizeof value));
      }
      printf(" %d\n", cublasLtMatmulAlgoCapGetAttribute(&algo, id, value, 3, &got));
      status = 0;
    }
    for (int id = 0; id < 10; id++) {
      uint64_t value = 0;
      size_t bytes = 0;
      status = cublasLtMatmulAlgoConfigGetAttribute(&algo, id, NULL, 0, &bytes);
      printf("  is %d: %d %zu", id, status, status ? 0 : bytes);
      if (!status) {
        const int read = cublasLtMatmulAlgoConfigGetAttribute(&algo, id, &value, bytes, NULL);
        printf(" %d %llx", read, (unsigned long long)value);
        value = 1;
        printf(" %d", cublasLtMatmulAlgoConfigSetAttribute(&algo, id, &value, bytes));
        printf(" %d", cublasLtMatmulAlgoConfigSetAttribute(&algo, id, &value, 3));
      }
      printf(" %016llx\n", (unsigned long long)hash(14695981039346656037u, &algo, sizeof algo));
    }
  }
  told("an algorithm that there is not",
       cublasLtMatmulAlgoInit(handle, COMPUTE_32F, R_32F, R_32F, R_32F, R_32F, R_32F, 9999,
                              &(algo_t){0}));
}

// ---- bad ---------------------------------------------------------------------------------------

static void bad(void) {
  void *desc, *layout, *preference, *small;
  const float one = 1;
  result_t result;
  int count = 7;
  MUST(cublasLtMatmulDescCreate(&desc, COMPUTE_32F, R_32F));
  MUST(cublasLtMatrixLayoutCreate(&layout, R_32F, 16, 16, 16));
  MUST(cublasLtMatrixLayoutCreate(&small, R_32F, 4, 4, 2));
  MUST(cublasLtMatmulPreferenceCreate(&preference));
  void *const at = on_device(memory);
#define PRODUCT(handle, desc, alpha, a, a_layout, c_layout, size)                                \
  cublasLtMatmul(handle, desc, alpha, a, a_layout, at, layout, &one, at, c_layout, at, c_layout, \
                 NULL, on_device(workspace), size, NULL)
  told("no handle", PRODUCT(NULL, desc, &one, at, layout, layout, 0));
  told("no layout", PRODUCT(handle, desc, &one, at, NULL, layout, 0));
  told("no layout of C", PRODUCT(handle, desc, &one, at, layout, NULL, 0));
  told("no matrix", PRODUCT(handle, desc, &one, NULL, layout, layout, 0));
  told("sizes that do not go together", PRODUCT(handle, desc, &one, at, small, layout, 0));
  told("nowhere for the handle", cublasLtCreate(NULL));
#define HEURISTIC(handle, desc, a, preference, wanted, results, count)                        \
  cublasLtMatmulAlgoGetHeuristic(handle, desc, a, layout, layout, layout, preference, wanted, \
                                 results, count)
  told("a question without a handle",
       HEURISTIC(NULL, desc, layout, preference, 1, &result, &count));
  told("a question without a layout",
       HEURISTIC(handle, desc, NULL, preference, 1, &result, &count));
  told("a question without a preference",
       HEURISTIC(handle, desc, layout, NULL, 1, &result, &count));
  told("a question for none", HEURISTIC(handle, desc, layout, preference, 0, &result, &count));
  told("a question for fewer", HEURISTIC(handle, desc, layout, preference, -1, &result, &count));
  told("sizes of a question that do not go together",
       HEURISTIC(handle, desc, small, preference, 1, &result, &count));
  told("no algorithm to check",
       cublasLtMatmulAlgoCheck(handle, desc, layout, layout, layout, layout, NULL, &result));
  told("and then it works", PRODUCT(handle, desc, &one, at, layout, layout, 0));
  MUST(cuCtxSynchronize());
}

// What another library would crash of: what is not this program's is refused by ours alone.
static void foreign(void) {
  void *desc, *layout, *preference, *transform;
  const float one = 1;
  uint64_t none[32] = {0};
  algo_t algo = {{1, 2, 3, 4, 5, 6, 7, 8}};
  result_t result;
  int count = 7;
  MUST(cublasLtMatmulDescCreate(&desc, COMPUTE_32F, R_32F));
  MUST(cublasLtMatrixLayoutCreate(&layout, R_32F, 16, 16, 16));
  MUST(cublasLtMatmulPreferenceCreate(&preference));
  MUST(cublasLtMatrixTransformDescCreate(&transform, R_32F));
  void *const at = on_device(memory);
  told("no descriptor", PRODUCT(handle, NULL, &one, at, layout, layout, 0));
  told("no alpha", PRODUCT(handle, desc, NULL, at, layout, layout, 0));
  told("a question without a descriptor",
       HEURISTIC(handle, NULL, layout, preference, 1, &result, &count));
  told("an answer to nowhere", HEURISTIC(handle, desc, layout, preference, 1, NULL, &count));
  told("a count to nowhere", HEURISTIC(handle, desc, layout, preference, 1, &result, NULL));
  told("no transform",
       cublasLtMatrixTransform(handle, NULL, &one, at, layout, &one, at, layout, at, layout, NULL));
  told("an algorithm of nobody's", cublasLtMatmul(handle, desc, &one, at, layout, at, layout, &one,
                                                  at, layout, at, layout, &algo, NULL, 0, NULL));
  told("a descriptor of nobody's", cublasLtMatmul(handle, none, &one, at, layout, at, layout, &one,
                                                  at, layout, at, layout, NULL, NULL, 0, NULL));
  told("a layout for a descriptor",
       cublasLtMatmul(handle, layout, &one, at, layout, at, layout, &one, at, layout, at, layout,
                      NULL, NULL, 0, NULL));
  told("a handle of nobody's", cublasLtMatmul(none, desc, &one, at, layout, at, layout, &one, at,
                                              layout, at, layout, NULL, NULL, 0, NULL));
  told("memory of nobody's", cublasLtMatmul(handle, desc, &one, (void *)0x1000, layout, at, layout,
                                            &one, at, layout, at, layout, NULL, NULL, 0, NULL));
  told("a workspace of nobody's",
       cublasLtMatmul(handle, desc, &one, at, layout, at, layout, &one, at, layout, at, layout,
                      NULL, on_device(workspace), (size_t)1 << 40, NULL));
  told("memory of nobody's to transform",
       cublasLtMatrixTransform(handle, transform, &one, at, layout, &one, (void *)0x2000, layout,
                               at, layout, NULL));
  const uint32_t tile = 1 << 25;
  MUST(HEURISTIC(handle, desc, layout, preference, 1, &result, &count));
  MUST(cublasLtMatmulAlgoConfigSetAttribute(&result.algo, 1, &tile, sizeof tile));
  told("a tile that there is not", cublasLtMatmulAlgoCheck(handle, desc, layout, layout, layout,
                                                           layout, &result.algo, &result));
  const int mode = 9;
  MUST(cublasLtMatmulDescSetAttribute(desc, 2, &mode, sizeof mode));
  told("a pointer mode that there is not", PRODUCT(handle, desc, &one, at, layout, layout, 0));
  const int64_t far = (int64_t)1 << 62;
  MUST(cublasLtMatrixLayoutSetAttribute(layout, 4, &far, sizeof far));
  told("a matrix without an end", cublasLtMatmul(handle, desc, &one, at, layout, at, layout, &one,
                                                 at, layout, at, layout, NULL, NULL, 0, NULL));
  MUST(cuCtxSynchronize());
}

// ---- few, capture, fork ------------------------------------------------------------------------

enum { N = 24 };

static void few(int rounds) {
  float a[N * N], b[N * N], d[N * N];
  void *desc, *layout, *preference;
  const float one = 1, zero = 0;
  for (int i = 0; i < N * N; i++) {
    a[i] = (float)(i % 7) / 4 - 0.5f;
    b[i] = (float)(i % 5) / 2 - 0.75f;
  }
  MUST(cuMemcpyHtoD_v2(memory, a, sizeof a));
  MUST(cuMemcpyHtoD_v2(memory + PLACE, b, sizeof b));
  for (int round = 0; round < rounds; round++) {
    // As a framework does: all of it for each product.
    result_t result;
    int count;
    const uint64_t bytes = WORKSPACE;
    MUST(cublasLtMatmulDescCreate(&desc, COMPUTE_32F, R_32F));
    MUST(cublasLtMatrixLayoutCreate(&layout, R_32F, N, N, N));
    MUST(cublasLtMatmulPreferenceCreate(&preference));
    MUST(cublasLtMatmulPreferenceSetAttribute(preference, 1, &bytes, sizeof bytes));
    MUST(cublasLtMatmulAlgoGetHeuristic(handle, desc, layout, layout, layout, layout, preference, 1,
                                        &result, &count));
    MUST(cublasLtMatmul(handle, desc, &one, on_device(memory), layout, on_device(memory + PLACE),
                        layout, &zero, on_device(memory + 2 * PLACE), layout,
                        on_device(memory + 2 * PLACE), layout, &result.algo, on_device(workspace),
                        WORKSPACE, NULL));
    MUST(cublasLtMatmulPreferenceDestroy(preference));
    MUST(cublasLtMatrixLayoutDestroy(layout));
    MUST(cublasLtMatmulDescDestroy(desc));
  }
  MUST(cuMemcpyDtoH_v2(d, memory + 2 * PLACE, sizeof d));
  for (int column = 0; column < N; column++) {
    for (int row = 0; row < N; row++) {
      double want = 0;
      for (int k = 0; k < N; k++) want += (double)a[k * N + row] * b[column * N + k];
      if (fabs(d[column * N + row] - want) <= 1e-4) continue;
      printf("%g, but it is %g\n", (double)d[column * N + row], want);
      exit(1);
    }
  }
  printf("all as the processor has it\n");
}

static int simple_product(CUstream stream) {
  static void *desc, *layout;
  const float one = 1, zero = 0;
  if (!desc) {
    MUST(cublasLtMatmulDescCreate(&desc, COMPUTE_32F, R_32F));
    MUST(cublasLtMatrixLayoutCreate(&layout, R_32F, N, N, N));
  }
  return cublasLtMatmul(handle, desc, &one, on_device(memory), layout, on_device(memory + PLACE),
                        layout, &zero, on_device(memory + 2 * PLACE), layout,
                        on_device(memory + 2 * PLACE), layout, NULL, NULL, 0, stream);
}

static void captured(void) {
  CUstream stream;
  CUgraph graph = NULL;
  MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  // The same has succeeded before.
  told("before", simple_product(stream));
  MUST(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  for (int i = 0; i < 3; i++) told("captured", simple_product(stream));
  printf("the capture: %d\n", (int)cuStreamEndCapture(stream, &graph));
  told("and then", simple_product(stream));
  MUST(cuStreamSynchronize(stream));
}

static void in_child(void) {
  told("before", simple_product(NULL));
  MUST(cuCtxSynchronize());
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    void *other = NULL;
    _exit(simple_product(NULL) != 0 && cublasLtCreate(&other) != 0 ? 7 : 8);
  }
  int status = 0;
  MUST(waitpid(child, &status, 0) != child);
  printf("the child: %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
  told("after", simple_product(NULL));
}

static void begin(void) {
  CUcontext context;
  MUST(cuDevicePrimaryCtxRetain(&context, 0));
  MUST(cuCtxSetCurrent(context));
  MUST(cuMemAlloc_v2(&memory, PLACES * PLACE));
  MUST(cuMemAlloc_v2(&workspace, WORKSPACE));
  MUST(cuMemsetD8_v2(memory, 0, PLACES * PLACE));
}

static void reset(void) {
  few(3);
  MUST(cublasLtDestroy(handle));
  MUST(cuDevicePrimaryCtxReset_v2(0));
  begin();
  MUST(cublasLtCreate(&handle));
  few(3);
}

int main(int count, char **arguments) {
  if (count < 2) return 2;
  if (!strcmp(arguments[1], "descriptors")) {
    descriptors();
    return 0;
  }
  void *cublas = NULL;
  MUST(cuInit(0));
  begin();
  // One of cuBLAS does as well.
  const _Bool borrowed = count > 2 && !strcmp(arguments[2], "cublas");
  if (borrowed) MUST(cublasCreate_v2(&cublas));
  if (borrowed)
    handle = cublas;
  else
    MUST(cublasLtCreate(&handle));
  if (!strcmp(arguments[1], "products")) products();
  if (!strcmp(arguments[1], "algorithms")) algorithms();
  if (!strcmp(arguments[1], "bad")) bad();
  if (!strcmp(arguments[1], "foreign")) foreign();
  if (!strcmp(arguments[1], "few")) few(count > 2 && !borrowed ? atoi(arguments[2]) : 20);
  if (!strcmp(arguments[1], "steady")) {
    MUST(setvbuf(stdout, NULL, _IOLBF, 0));
    few(1);
    few(count > 2 ? atoi(arguments[2]) : 20);
  }
  if (!strcmp(arguments[1], "reset")) reset();
  if (!strcmp(arguments[1], "capture")) captured();
  if (!strcmp(arguments[1], "fork")) in_child();
  if (borrowed)
    MUST(cublasDestroy_v2(cublas));
  else
    MUST(cublasLtDestroy(handle));
  return 0;
}
