// Names of CUresult values, for logs and for cuGetErrorName.
#ifndef ABI_RESULT_H
#define ABI_RESULT_H

#ifdef __cplusplus
extern "C" {
#endif

struct abi_result {
  int value;
  const char *name;
};

extern const struct abi_result abi_results[];
extern const unsigned abi_result_count;

// "CUDA_ERROR_INVALID_VALUE", or NULL for a value no CUresult has.
const char *abi_result_name(int value);

// A sentence for cuGetErrorString, in our own words; NULL for an unknown value.
const char *abi_result_sentence(int value);

#ifdef __cplusplus
}
#endif
#endif
