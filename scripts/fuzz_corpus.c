// Runs the fuzz target over the files of a folder, for compilers without libFuzzer.
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int run(const char *path) {
  FILE *file = fopen(path, "rb");
  if (!file) return perror(path), 0;
  fseek(file, 0, SEEK_END);
  long size = ftell(file);
  rewind(file);
  uint8_t *data = malloc(size > 0 ? (size_t)size : 1);
  int whole = data && size >= 0 && fread(data, 1, (size_t)size, file) == (size_t)size;
  if (whole) LLVMFuzzerTestOneInput(data, (size_t)size);
  free(data);
  fclose(file);
  return whole;
}

int main(int count, char **arguments) {
  DIR *folder = count == 2 ? opendir(arguments[1]) : NULL;
  if (!folder) return fprintf(stderr, "usage: %s FOLDER\n", arguments[0]), 2;
  int files = 0;
  for (struct dirent *entry; (entry = readdir(folder));) {
    if (entry->d_name[0] == '.') continue;
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", arguments[1], entry->d_name);
    if (!run(path)) return 1;
    files++;
  }
  closedir(folder);
  printf("%d inputs\n", files);
  return files ? 0 : 1;
}
