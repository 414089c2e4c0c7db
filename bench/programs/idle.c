// bench-idle: attaches, works, says so, and does nothing more until its standard input ends.
#include <string.h>
#include <unistd.h>

#include "session.h"

#define BYTES (1u << 20)
#define LAUNCHES 20000

int main(void) {
  struct session session = session_open(BYTES);
  static char bytes[BYTES];
  for (int i = 0; i < LAUNCHES; i++) session_launch(&session);
  CHECK(cuMemcpyHtoD_v2(session.memory, bytes, sizeof bytes));
  CHECK(cuMemcpyDtoH_v2(bytes, session.memory, sizeof bytes));
  CHECK(cuCtxSynchronize());
  printf("idle\n");
  fflush(stdout);
  return read(0, bytes, 1) < 0;
}
