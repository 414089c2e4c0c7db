// A call of a library, as it travels in LibraryCall and LibraryAsk: what its parameters are, and
// how large what they point to is. Both sides go by the same tables
// (proto/generated/cublas_calls.h).
//
// Its arguments are a word of 8 bytes for each parameter but the handle: a number, sign-extended,
// or an address of the device; 0 for what is in the host's memory, LIBRARY_NONE where that is none.
// Behind them lie what scalars in the host's memory are, in the order of the parameters, each
// padded to 8 bytes; and behind an answer what results there are to be, each padded to 16.
#ifndef WIRE_LIBRARY_CALL_H
#define WIRE_LIBRARY_CALL_H

#include <stdbool.h>
#include <stdint.h>

// Which library: `library` of LibraryCall and LibraryAsk. What calls of the second one are is in
// cublaslt_call.h.
enum { LIBRARY_CUBLAS, LIBRARY_CUBLASLT };

enum library_kind {
  LIBRARY_VALUE,
  LIBRARY_SCALAR,       // read in pointer mode
  LIBRARY_RESULT,       // written in pointer mode
  LIBRARY_INOUT,        // both
  LIBRARY_HOST_RESULT,  // written into the host's memory in either mode
  LIBRARY_VECTOR,       // rows[0], `step` apart
  LIBRARY_MATRIX,       // columns of rows, `step` apart
  LIBRARY_PACKED        // a triangle of rows[0] columns
};

// In place of a scalar in the host's memory which there need not be, and is not.
enum { LIBRARY_NONE = 1 };

enum library_mode { LIBRARY_MODE_HOST, LIBRARY_MODE_DEVICE };

// The sum of a number and up to two parameters, by their places; -1: none.
struct library_length {
  int8_t first, second, plus;
};

// Places are those of parameters without the handle; -1: none.
struct library_argument {
  uint8_t kind;
  uint8_t element;  // bytes; 0: as the type in the parameter at `typed` says
  uint8_t count;    // of scalars and results
  int8_t typed;
  int8_t complex;  // where that names a complex type, elements have twice the bytes
  // The second ones where the parameter at `by` is not 0.
  struct library_length rows[2], columns[2];
  int8_t by;
  int8_t step;
  int8_t stride, batch;  // so many of them, so many elements apart
  int8_t optional;       // of a scalar: there need not be one
};

struct library_call {
  const char *name;
  const struct library_argument *arguments;
  uint8_t count;
  uint32_t ints;  // a bit for each parameter of which the function sees 32 bits
};

enum {
  LIBRARY_PARAMETERS_MAX = 24,
  LIBRARY_SCALAR_MAX = 80,  // bytes: five complex numbers of double precision
  // What a call may have beside its words, and an answer beside its status.
  LIBRARY_SCALARS_MAX = 4 * LIBRARY_SCALAR_MAX
};

// Whether a cudaDataType is one of complex numbers.
static inline bool library_is_complex(uint64_t type) {
  return (type >= 4 && type <= 7) || (type >= 9 && type <= 27 && type % 2 == 1);
}

// Bytes of an element of a cudaDataType, or of a real one of a cublasComputeType_t; 0 for a type
// that is not known, or has no whole bytes.
static inline uint32_t library_type_bytes(uint64_t type) {
  static const uint8_t data[] = {4, 8, 2, 1, 8, 16, 4, 2, 1, 2, 4,  8, 4,  8, 2,
                                 4, 0, 0, 0, 0, 2,  4, 2, 4, 8, 16, 8, 16, 1, 1};
  if (type < sizeof data) return data[type];
  switch (type) {
    case 64:  // 16F
    case 65:
      return 2;
    case 68:  // 32F
    case 69:
    case 72:  // 32I
    case 73:
    case 74:
    case 75:
    case 77:
    case 78:
      return 4;
    case 70:  // 64F
    case 71:
      return 8;
    default:
      return 0;
  }
}

// Bytes of an element of what a parameter points to, in a call with these arguments; 0 for a type
// that is not known.
static inline uint32_t library_element(const struct library_argument *argument,
                                       const uint64_t *words) {
  if (argument->element) return argument->element;
  const uint32_t bytes = library_type_bytes(words[argument->typed]);
  return argument->complex >= 0 && library_is_complex(words[argument->complex]) ? 2 * bytes : bytes;
}

static inline bool library_in_host(const struct library_argument *argument, uint32_t mode) {
  if (argument->kind == LIBRARY_HOST_RESULT) return 1;
  return mode == LIBRARY_MODE_HOST && argument->kind >= LIBRARY_SCALAR &&
         argument->kind <= LIBRARY_INOUT;
}
// Whether what the parameter points to travels with the call, and with the answer.
static inline bool library_sends(const struct library_argument *argument, uint32_t mode) {
  return library_in_host(argument, mode) &&
         (argument->kind == LIBRARY_SCALAR || argument->kind == LIBRARY_INOUT);
}
static inline bool library_receives(const struct library_argument *argument, uint32_t mode) {
  return library_in_host(argument, mode) && argument->kind != LIBRARY_SCALAR;
}

#endif
