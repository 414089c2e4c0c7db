// What compiled Rust names and never calls: it is compiled to end where something is wrong (panic =
// "abort"). The real ones would bring libgcc_s.so, or, of Rust's standard library, a constructor.
#include <stdlib.h>

void rust_eh_personality(void);
void rust_eh_personality(void) { abort(); }

// _Unwind_Resume, by the name that scripts/setup/tls.mjs gives it.
void outboard_tls_unwind_resume(void *exception);
void outboard_tls_unwind_resume(void *exception) {
  (void)exception;
  abort();
}
