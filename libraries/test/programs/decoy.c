// A cuBLAS, or cuBLASLt, that has the names that which-cublas calls.
#define EXPORT __attribute__((visibility("default")))

EXPORT const char *cublasGetStatusName(int status) {
  (void)status;
  return "a decoy";
}
EXPORT unsigned long cublasLtGetVersion(void) { return 0; }
