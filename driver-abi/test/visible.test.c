// CUDA_VISIBLE_DEVICES, row by row of visible.tsv. The same table is compared with what programs
// see, natively and remoted, in test/remoted/test/visible-devices.test.ts.
#include "abi_visible.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"

#define GPUS 3

static struct abi_visible_device gpus[GPUS];

static int describe(void **state) {
  (void)state;
  for (int i = 0; i < GPUS; i++) {
    gpus[i].number = i;
    strcpy(gpus[i].name, "GPU-50f7de71-ce00-4c50-955d-0ec0de000000");
    gpus[i].name[5] = gpus[i].name[39] = (char)('0' + i);
  }
  return 0;
}

// With the names of devices in place of {1}, {1:8} and {1^}.
static void expand(const char *from, char *to) {
  for (; *from; from++) {
    if (*from != '{') {
      *to++ = *from;
      continue;
    }
    const char *name = gpus[from[1] - '0'].name;
    const size_t length = from[2] == ':' ? (size_t)atoi(from + 3) : strlen(name);
    for (size_t i = 0; i < length; i++)
      to[i] = from[2] == '^' && i > 3 ? (char)toupper((unsigned char)name[i]) : name[i];
    to += length;
    from = strchr(from, '}');
  }
  *to = 0;
}

static void as_the_table_says(void **state) {
  (void)state;
  FILE *table = fopen(VISIBLE_TABLE, "r");
  assert_non_null(table);
  char line[256], value[512];
  int rows = 0, wrong = 0;
  while (fgets(line, sizeof line, table)) {
    char *const tab = strchr(line, '\t');
    if (*line == '#' || !tab) continue;
    *tab = 0;
    char *const expected = tab + 1;
    expected[strcspn(expected, "\n")] = 0;
    expand(line, value);
    int chosen[GPUS];
    const struct abi_visible_list list = abi_visible_read(value, gpus, GPUS, chosen);
    char seen[GPUS + 2] = "";
    for (int i = 0; i < list.count; i++) seen[i] = (char)('0' + chosen[i]);
    if (!list.count) strcpy(seen, "-");
    if (strcmp(seen, expected) != 0) {
      print_error("\"%s\": %s, and not %s\n", value, seen, expected);
      wrong++;
    }
    rows++;
  }
  fclose(table);
  assert_true(rows >= 90);
  assert_int_equal(wrong, 0);
}

static void why_it_ends(void **state) {
  (void)state;
  static const struct {
    const char *value, *says;  // NULL: nothing
  } rows[] = {
      {"", NULL},
      {"0,1,", NULL},
      {"7", "CUDA_VISIBLE_DEVICES=\"7\": \"7\" names no device; the list ends there"},
      {"0,,1", "\"\" names no device"},
      {"0,-1", "\"-1\" names no device"},
      {"0,x", "\"x\" names no device"},
      {"GPU-5", "\"GPU-5\" fits several devices; the list ends there"},
      {"0,GPU-51", "\"GPU-51\" is of another kind than the first"},
      {"GPU-51,0", "\"0\" is of another kind than the first"},
      {"7,GPU-51", "\"7\" names no device"},  // the first reason there is
      {"0,1,0", "\"0\" names a device twice: no device is visible"},
      {"GPU-51,GPU-51f", "\"GPU-51f\" names a device twice: no device is visible"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    int chosen[GPUS];
    char text[200] = "";
    const struct abi_visible_list list = abi_visible_read(rows[i].value, gpus, GPUS, chosen);
    const bool says = abi_visible_explain(&list, rows[i].value, text, sizeof text);
    if (says != !!rows[i].says || (says && !strstr(text, rows[i].says)))
      fail_msg("\"%s\": \"%s\"", rows[i].value, text);
  }
}

static void instances_have_whole_names(void **state) {
  (void)state;
  const struct abi_visible_device devices[] = {
      {"GPU-aaaaaaaa-0000-0000-0000-000000000000", 0, false},
      {"GPU-bbbbbbbb-0000-0000-0000-000000000000", 1, true},
      {"MIG-aaaaaaaa-1111-0000-0000-000000000000", -1, false},
      {"MIG-aaaaaaaa-2222-0000-0000-000000000000", -1, false},
  };
  static const struct {
    const char *value;
    int count, first;
  } rows[] = {
      {"MIG-aaaaaaaa-2222-0000-0000-000000000000", 1, 3},
      {"MIG-aaaaaaaa-2222-0000-0000-000000000000,MIG-aaaaaaaa-1111-0000-0000-000000000000", 2, 3},
      {"MIG-aaaaaaaa-2222", 0, 0},
      {"MIG-aaaaaaaa-2222-0000-0000-000000000000,GPU-a", 1, 3},
      {"GPU-a,MIG-aaaaaaaa-2222-0000-0000-000000000000", 1, 0},
      {"GPU-aaaaaaaa-1111-0000-0000-000000000000", 0, 0},
      {"0,MIG-aaaaaaaa-2222-0000-0000-000000000000", 1, 0},
      {"0,1", 1, 0},  // 1 is there, and cannot be used
      {"1", 0, 0},
      {"GPU-b", 0, 0},
      {"2", 0, 0},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    int chosen[4] = {0};
    const struct abi_visible_list list = abi_visible_read(rows[i].value, devices, 4, chosen);
    if (list.count != rows[i].count || (list.count && chosen[0] != rows[i].first))
      fail_msg("%s: %d, first %d", rows[i].value, list.count, chosen[0]);
  }
}

static void long_lists_end(void **state) {
  (void)state;
  // Longer than it is read, of numbers that differ.
  static char value[20000];
  size_t length = 0;
  for (int i = 0; i < 2000; i++)
    length += (size_t)snprintf(value + length, sizeof value - length, "%d,", i);
  int chosen[GPUS];
  assert_int_equal(abi_visible_read(value, gpus, GPUS, chosen).count, GPUS);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(as_the_table_says),
      cmocka_unit_test(why_it_ends),
      cmocka_unit_test(instances_have_whole_names),
      cmocka_unit_test(long_lists_end),
  };
  return cmocka_run_group_tests(tests, describe, NULL);
}
