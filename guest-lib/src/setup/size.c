#include "setup/size.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char units[] = {'K', 'M', 'G', 'T'};

static _Bool is_digit(char c) { return c >= '0' && c <= '9'; }
static char upper(char c) { return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c; }

// Up to three digits behind the point, as thousandths; NULL: there are none, or more.
static const char *read_fraction(const char *at, unsigned *thousandths) {
  int digits = 0;
  for (; is_digit(*at) && digits < 3; at++, digits++)
    *thousandths = *thousandths * 10 + (unsigned)(*at - '0');
  if (digits == 0) return NULL;
  for (; digits < 3; digits++) *thousandths *= 10;
  return at;
}

_Bool size_read(const char *text, uint64_t *bytes) {
  if (!is_digit(text[0])) return 0;
  char *end;
  errno = 0;
  unsigned long long number = strtoull(text, &end, 10);
  if (errno) return 0;
  const char *at = end;
  unsigned thousandths = 0;
  _Bool fraction = *at == '.';
  if (fraction && !(at = read_fraction(at + 1, &thousandths))) return 0;
  if (*at == ' ' && at[1]) at++;
  const char *unit = memchr(units, upper(*at), sizeof units);
  int shift = unit ? 10 * (int)(unit - units + 1) : 0;
  if (unit) at++;
  if (unit && upper(at[0]) == 'I' && upper(at[1]) == 'B') at++;
  if (upper(*at) == 'B') at++;
  if (*at || (fraction && !unit) || number > (UINT64_MAX >> shift)) return 0;
  *bytes = ((uint64_t)number << shift) + (((uint64_t)thousandths << shift) / 1000);
  return *bytes != 0;
}

const char *size_write(uint64_t bytes, char text[SIZE_TEXT]) {
  if (bytes < 1024) {
    snprintf(text, SIZE_TEXT, "%u bytes", (unsigned)bytes);
    return text;
  }
  unsigned unit = 0;
  double value = (double)bytes / 1024;
  for (; value >= 1024 && unit + 1 < sizeof units; unit++) value /= 1024;
  int decimals = value == (double)(uint64_t)value ? 0 : 1;
  snprintf(text, SIZE_TEXT, "%.*f %ciB", decimals, value, units[unit]);
  return text;
}
