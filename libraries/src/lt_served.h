// Functions of cuBLASLt that are served. Which these are is listed in proto/api-cublas-lt.yaml: for
// every other symbol generated/cublaslt_entries.c has one that is not served.
#ifndef LIBRARIES_LT_SERVED_H
#define LIBRARIES_LT_SERVED_H

#define SERVED __attribute__((visibility("default")))

#endif
