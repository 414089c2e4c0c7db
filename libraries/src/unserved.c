#include "unserved.h"

#include <stdatomic.h>

#include "base/notice.h"
#include "door.h"
#include "setup/log.h"
#include "status.h"

enum { SYMBOLS_MOST = 1024 };

// The server is told once, when there is a session.
static void tell(void) {
  static _Atomic _Bool told;
  if (!door() || door_is_child() || atomic_exchange(&told, 1)) return;
  if (!door()->remote_unserved()) atomic_store(&told, 0);
}

int library_unserved(int symbol) {
  static _Atomic unsigned char named[SYMBOLS_MOST];
  static _Atomic _Bool said;
  tell();
  if (symbol >= SYMBOLS_MOST || atomic_exchange(&named[symbol], 1)) return STATUS_NOT_SUPPORTED;
  const char *const text =
      "%s is not served: the program gets CUBLAS_STATUS_NOT_SUPPORTED (said once). "
      "--libraries=guest serves all";
  // The person in front of it is told of the first one alone.
  if (atomic_exchange(&said, 1))
    log_warn(text, library_symbols[symbol]);
  else
    notice(LOG_WARN, text, library_symbols[symbol]);
  return STATUS_NOT_SUPPORTED;
}
