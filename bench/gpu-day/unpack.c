// gpu-day-unpack FROM TO: unpacks a program that zstd has packed, before there is anything else to
// do so with (bench/gpu-day/gpu-day.sh). TO is whole or is not there, whatever ends this. It ends
// with 1 and a sentence where it fails. It is linked with all that it needs.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

static char partial[4096];

static int failed(const char *file, const char *why) {
  fprintf(stderr, "%s: %s\n", file, why);
  if (partial[0] != '\0') unlink(partial);
  return 1;
}

static const char *unpack(FILE *from, FILE *to) {
  static char packed[1 << 17], plain[1 << 17];
  ZSTD_DCtx *context = ZSTD_createDCtx();
  if (context == NULL) return strerror(ENOMEM);
  const char *trouble = NULL;
  // What it wants next: nothing at the end of a frame.
  size_t wants = 1;
  for (size_t read; trouble == NULL && (read = fread(packed, 1, sizeof packed, from)) > 0;) {
    ZSTD_inBuffer in = {packed, read, 0};
    size_t wrote = sizeof plain;
    // A full output may have left something behind, although all input is taken.
    while (trouble == NULL && (in.pos < in.size || (wants != 0 && wrote == sizeof plain))) {
      ZSTD_outBuffer out = {plain, sizeof plain, 0};
      wants = ZSTD_decompressStream(context, &out, &in);
      wrote = out.pos;
      if (ZSTD_isError(wants))
        trouble = ZSTD_getErrorName(wants);
      else if (fwrite(plain, 1, wrote, to) != wrote)
        trouble = strerror(errno);
    }
  }
  if (trouble == NULL && ferror(from)) trouble = strerror(errno);
  if (trouble == NULL && wants != 0) trouble = "it ends too early";
  ZSTD_freeDCtx(context);
  return trouble;
}

int main(int argc, char **argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: gpu-day-unpack FROM TO\n");
    return 2;
  }
  const char *name = argv[1], *place = argv[2];
  FILE *from = fopen(name, "rb");
  if (from == NULL) return failed(name, strerror(errno));
  int length = snprintf(partial, sizeof partial, "%s.%d", place, (int)getpid());
  if (length < 0 || (size_t)length >= sizeof partial) {
    partial[0] = '\0';
    return failed(place, strerror(ENAMETOOLONG));
  }
  FILE *to = fopen(partial, "wb");
  if (to == NULL) return failed(partial, strerror(errno));
  const char *trouble = unpack(from, to);
  if (trouble != NULL) return failed(ferror(to) ? partial : name, trouble);
  if (fchmod(fileno(to), 0755) != 0 || fclose(to) != 0 || rename(partial, place) != 0)
    return failed(place, strerror(errno));
  fclose(from);
  return 0;
}
