// The driver's version, asked before cuInit as a CUDA runtime does, by a process that then forks,
// and in its child; and afterwards. flags: -lcuda
#include <sys/wait.h>
#include <unistd.h>

#include "../check.h"
#include "../check_driver.h"

static int version() {
  int number = 0;
  DRIVER(cuDriverGetVersion(&number));
  return number;
}

int main() {
  const int before = version();
  printf("before: %d\n", before);
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    printf("in the child: %d\n", version());
    fflush(stdout);
    DRIVER(cuInit(0));
    printf("with its devices: %d\n", version());
    fflush(stdout);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  DRIVER(cuInit(0));
  printf("behind it: %d\n", version());
  return status || version() != before;
}
