// bench-moved BYTES: has so much memory, says `ready`, and reads a word of it again and again. Each
// line of its standard input it answers with the longest time that one reading took since the line
// before, in milliseconds. At the end it says `right` if the memory is as it was.
#include <poll.h>
#include <unistd.h>

#include "contents.h"

int main(int argc, char **argv) {
  const size_t bytes = argc == 2 ? strtoull(argv[1], NULL, 10) / sizeof(uint64_t) * 8 : 0;
  if (!bytes) FAIL("usage: bench-moved BYTES");
  const struct session session = session_open(bytes);
  contents_fill(session.memory, bytes);
  printf("ready\n");
  fflush(stdout);
  double longest = 0;
  for (;;) {
    const double begun = now_us();
    uint64_t word;
    CHECK(cuMemcpyDtoH_v2(&word, session.memory, sizeof word));
    const double took = (now_us() - begun) / 1e3;
    if (took > longest) longest = took;
    struct pollfd in = {0, POLLIN, 0};
    if (poll(&in, 1, 1) < 1) continue;
    char line[64];
    if (read(0, line, sizeof line) < 1) break;
    printf("%.3f\n", longest);
    fflush(stdout);
    longest = 0;
  }
  contents_check(session.memory, bytes);
  printf("right\n");
  return 0;
}
