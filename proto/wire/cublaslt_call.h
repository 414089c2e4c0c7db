// A call of cuBLASLt, as it travels in LibraryCall and LibraryAsk: what its descriptors are, and
// how they are written. Both sides go by these tables.
//
// cuBLASLt keeps all that it is told in descriptors, which start nothing: those of a program are
// its own (libraries/), and go along with each call by their content. Its arguments are words of 8
// bytes:
//   Matmul       struct lt_matmul; LT_ALGO_WORDS of the algorithm where there is one; the matmul
//                descriptor; the layouts of A, B, C and, where it is another than that of C, D
//   Transform    struct lt_transform; the transform descriptor; the layouts of A, B and C
//   Heuristic    how many are wanted; the matmul descriptor; the layouts of A, B, C and D; the
//                preference
//   AlgoCheck    the algorithm; the matmul descriptor; the layouts of A, B, C and D
//   AlgoIds      types of computing, scaling, A, B, C and D; how many are wanted
//   AlgoInit     the same types; the number of the algorithm
//   AlgoCap      the algorithm, the attribute, bytes of the buffer
//   AlgoConfigGet   the same
//   AlgoConfigSet   the algorithm, the attribute, bytes of the value, the value
// Answers: of Heuristic how many there are and each as struct lt_result, of AlgoCheck one of those,
// of AlgoIds how many there are and each as an int; of AlgoInit and AlgoConfigSet the algorithm; of
// AlgoCap and AlgoConfigGet how many bytes there are, and those that were wanted.
//
// A descriptor is a word with a bit for each attribute, by its place in the table, that is not what
// it is unless told, and a word for each of those.
#ifndef WIRE_CUBLASLT_CALL_H
#define WIRE_CUBLASLT_CALL_H

#include <stdbool.h>
#include <stdint.h>

// Append only: these numbers travel.
enum lt_function {
  LT_MATMUL,
  LT_TRANSFORM,
  LT_HEURISTIC,
  LT_ALGO_CHECK,
  LT_ALGO_IDS,
  LT_ALGO_INIT,
  LT_ALGO_CAP,
  LT_ALGO_CONFIG_GET,
  LT_ALGO_CONFIG_SET,
  LT_FUNCTION_COUNT
};

enum {
  LT_ALGO_WORDS = 8,
  // As many as an answer holds; a program that asks for more gets these.
  LT_RESULTS_MOST = 64,
  LT_IDS_MOST = 1024,
  LT_ATTRIBUTE_BYTES_MOST = 4096,
  LT_ANSWER_MOST = 8 + LT_RESULTS_MOST * 96
};

// What the library calls cublasLtMatmulHeuristicResult_t.
struct lt_result {
  uint64_t algo[LT_ALGO_WORDS];
  uint64_t workspace;  // bytes
  int32_t state;
  float waves;
  int32_t reserved[4];
};

enum { LT_HAS_ALGO = 1, LT_D_IS_LIKE_C = 2 };

// Alpha and beta: two words of a number, or an address of the device in the first one, as the
// pointer mode says.
struct lt_matmul {
  uint64_t flags;
  uint64_t a, b, c, d;
  uint64_t workspace, workspace_size;
  uint64_t alpha[2], beta[2];
};

struct lt_transform {
  uint64_t a, b, c;
  uint64_t alpha[2], beta[2];
};

// ---- descriptors -------------------------------------------------------------------------------

enum lt_kind { LT_DESC, LT_LAYOUT, LT_TRANSFORM_DESC, LT_PREFERENCE, LT_KIND_COUNT };

struct lt_attribute {
  uint8_t id;  // the library's number
  uint8_t bytes;
  uint8_t
      place;  // in the object, in bytes: where the guest keeps it, and what both sides call it by
  uint8_t names_memory;
  int64_t otherwise;  // what it is unless told
};

// Places of those that either side looks at.
enum lt_place {
  LT_AT_COMPUTE_TYPE = 4,
  LT_AT_SCALE_TYPE = 8,
  LT_AT_POINTER_MODE = 12,
  LT_AT_TRANSA = 16,
  LT_AT_TRANSB = 20,
  LT_AT_EPILOGUE = 32,
  LT_AT_AUX_TYPE = 44,
  LT_AT_BIAS_TYPE = 48,
  LT_AT_A_SCALE_MODE = 52,
  LT_AT_AUX_SCALE_MODE = 68,
  LT_AT_D_OUT_SCALE_MODE = 72,
  LT_AT_BIAS = 88,
  LT_AT_BIAS_STRIDE = 96,
  LT_AT_AUX = 104,
  LT_AT_AUX_LD = 112,
  LT_AT_AUX_STRIDE = 120,
  LT_AT_ALPHA_STRIDE = 128,
  LT_AT_A_SCALE = 136,
  LT_AT_D_AMAX = 168,
  LT_AT_AUX_SCALE = 176,
  LT_AT_AUX_AMAX = 184,
  LT_AT_D_OUT_SCALE = 192,

  LT_AT_TYPE = 4,
  LT_AT_ORDER = 8,
  LT_AT_BATCH = 12,
  LT_AT_BATCH_MODE = 16,
  LT_AT_ROWS = 24,
  LT_AT_COLUMNS = 32,
  LT_AT_LD = 40,
  LT_AT_STRIDE = 48,
  LT_AT_PLANE = 56,

  LT_AT_TRANSFORM_SCALE_TYPE = 4,
  LT_AT_TRANSFORM_POINTER_MODE = 8,

  LT_AT_MOST_WORKSPACE = 8,
  LT_AT_A_ALIGNMENT = 20
};

// Append only: the places in these tables travel.
static const struct lt_attribute lt_desc_attributes[] = {
    {0, 4, LT_AT_COMPUTE_TYPE, 0, 0},
    {1, 4, LT_AT_SCALE_TYPE, 0, 0},
    {2, 4, LT_AT_POINTER_MODE, 0, 0},
    {3, 4, LT_AT_TRANSA, 0, 0},
    {4, 4, LT_AT_TRANSB, 0, 0},
    {5, 4, 24, 0, 0},
    {6, 4, 28, 0, 2},
    {7, 4, LT_AT_EPILOGUE, 0, 1},
    {8, 8, LT_AT_BIAS, 1, 0},
    {10, 8, LT_AT_BIAS_STRIDE, 0, 0},
    {11, 8, LT_AT_AUX, 1, 0},
    {12, 8, LT_AT_AUX_LD, 0, 0},
    {13, 8, LT_AT_AUX_STRIDE, 0, 0},
    {14, 8, LT_AT_ALPHA_STRIDE, 0, 0},
    {15, 4, 36, 0, 0},
    {16, 4, 40, 0, 0},
    {17, 8, LT_AT_A_SCALE, 1, 0},
    {18, 8, LT_AT_A_SCALE + 8, 1, 0},
    {19, 8, LT_AT_A_SCALE + 16, 1, 0},
    {20, 8, LT_AT_A_SCALE + 24, 1, 0},
    {21, 8, LT_AT_D_AMAX, 1, 0},
    {22, 4, LT_AT_AUX_TYPE, 0, -1},
    {23, 8, LT_AT_AUX_SCALE, 1, 0},
    {24, 8, LT_AT_AUX_AMAX, 1, 0},
    {25, 1, 80, 0, 0},
    {26, 4, LT_AT_BIAS_TYPE, 0, -1},
    {31, 4, LT_AT_A_SCALE_MODE, 0, 0},
    {32, 4, LT_AT_A_SCALE_MODE + 4, 0, 0},
    {33, 4, LT_AT_A_SCALE_MODE + 8, 0, 0},
    {34, 4, LT_AT_A_SCALE_MODE + 12, 0, 0},
    {35, 4, LT_AT_AUX_SCALE_MODE, 0, 0},
    {36, 8, LT_AT_D_OUT_SCALE, 1, 0},
    {37, 4, LT_AT_D_OUT_SCALE_MODE, 0, 0},
    {38, 4, 76, 0, 0},
};
static const struct lt_attribute lt_layout_attributes[] = {
    {0, 4, LT_AT_TYPE, 0, 0},    {1, 4, LT_AT_ORDER, 0, 0}, {2, 8, LT_AT_ROWS, 0, 0},
    {3, 8, LT_AT_COLUMNS, 0, 0}, {4, 8, LT_AT_LD, 0, 0},    {5, 4, LT_AT_BATCH, 0, 1},
    {6, 8, LT_AT_STRIDE, 0, 0},  {7, 8, LT_AT_PLANE, 0, 0}, {8, 4, LT_AT_BATCH_MODE, 0, 0},
};
static const struct lt_attribute lt_transform_attributes[] = {
    {0, 4, LT_AT_TRANSFORM_SCALE_TYPE, 0, 0},
    {1, 4, LT_AT_TRANSFORM_POINTER_MODE, 0, 0},
    {2, 4, 12, 0, 0},
    {3, 4, 16, 0, 0},
};
static const struct lt_attribute lt_preference_attributes[] = {
    {0, 4, 4, 0, 0},
    {1, 8, LT_AT_MOST_WORKSPACE, 0, 0},
    {3, 4, 16, 0, 7},
    {5, 4, LT_AT_A_ALIGNMENT, 0, 256},
    {6, 4, LT_AT_A_ALIGNMENT + 4, 0, 256},
    {7, 4, LT_AT_A_ALIGNMENT + 8, 0, 256},
    {8, 4, LT_AT_A_ALIGNMENT + 12, 0, 256},
    {9, 4, 36, 0, 0},
    {12, 8, 40, 0, -1},
};

struct lt_table {
  const struct lt_attribute *attributes;
  uint32_t count;
  uint32_t bytes;  // of an object, as the library's header has it
};
#define LT_TABLE(all, size) \
  { all, sizeof all / sizeof *all, size }
static const struct lt_table lt_tables[LT_KIND_COUNT] = {
    LT_TABLE(lt_desc_attributes, 256),
    LT_TABLE(lt_layout_attributes, 64),
    LT_TABLE(lt_transform_attributes, 64),
    LT_TABLE(lt_preference_attributes, 64),
};
#undef LT_TABLE

enum {
  LT_OBJECT_MOST = 256,
  LT_DESC_WORDS_MOST = 1 + sizeof lt_desc_attributes / sizeof *lt_desc_attributes,
  LT_LAYOUT_WORDS_MOST = 1 + sizeof lt_layout_attributes / sizeof *lt_layout_attributes,
  LT_TRANSFORM_WORDS_MOST = 1 + sizeof lt_transform_attributes / sizeof *lt_transform_attributes,
  LT_PREFERENCE_WORDS_MOST = 1 + sizeof lt_preference_attributes / sizeof *lt_preference_attributes,
  LT_WORDS_MOST =
      sizeof(struct lt_matmul) / 8 + LT_ALGO_WORDS + LT_DESC_WORDS_MOST + 4 * LT_LAYOUT_WORDS_MOST
};

// Whether alpha, or beta, is a number in the host's memory in that pointer mode.
static inline bool lt_alpha_here(int64_t mode) { return mode == 0; }
static inline bool lt_beta_here(int64_t mode) { return mode == 0 || mode == 4; }

#endif
