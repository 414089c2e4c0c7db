#include "unserved.h"

#include <stdatomic.h>

#include "setup/log.h"
#include "status.h"

enum { SYMBOLS_MOST = 1024 };

int library_unserved(int symbol) {
  static _Atomic unsigned char named[SYMBOLS_MOST];
  static _Atomic unsigned opened;
  if (!atomic_exchange(&opened, 1)) log_open();
  if (symbol < SYMBOLS_MOST && !atomic_exchange(&named[symbol], 1))
    log_warn(
        "%s is not served: the program gets CUBLAS_STATUS_NOT_SUPPORTED (said once). "
        "--libraries=guest serves all",
        library_symbols[symbol]);
  return STATUS_NOT_SUPPORTED;
}
