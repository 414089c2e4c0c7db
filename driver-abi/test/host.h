// What the tests give driver-abi to stand on: two devices, a current context they can set, and the
// last line that was logged.
#ifndef TEST_HOST_H
#define TEST_HOST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka wants the four above first
#include <cmocka.h>

#include "abi_tables.h"

extern CUcontext test_current;
extern int test_driver_version;  // 13000 unless a test says otherwise
extern char test_logged[256];
extern int test_log_count;
extern enum abi_log_level test_log_level;
extern int test_unsupported;  // the entry that was called last

#endif
