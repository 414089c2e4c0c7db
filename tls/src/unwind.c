// What compiled Rust names and never calls: it is compiled to end where something is wrong (panic =
// "abort"). The real ones would bring libgcc_s.so, or, of Rust's standard library, a constructor.
#include <stdlib.h>

void rust_eh_personality(void);
void rust_eh_personality(void) { abort(); }

void _Unwind_Resume(void *exception);
void _Unwind_Resume(void *exception) {
  (void)exception;
  abort();
}
