// What other libraries of ours in the process are told of the session, and when there is none.
#include "driver/companion.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "session.h"
#include "wire/enter.h"

#define MIB (1ull << 20)

static const struct server_hook no_hook;

static const struct companion_table *table(void) {
  const void *found = NULL;
  const CUuuid id = COMPANION_TABLE;
  assert_int_equal(cuGetExportTable(&found, &id), CUDA_SUCCESS);
  const struct companion_table *table = found;
  assert_true(table->size >= sizeof *table);
  return table;
}

static void its_memory(void **state) {
  (void)state;
  struct companion_session session;
  assert_false(table()->session(&session));
  session_start(64 * MIB, no_hook);
  const struct server_name server = {.host = "gpu-a", .port = "4460"};
  companion_start(session_here(), 17, 0, &server);
  assert_true(table()->session(&session));
  assert_int_equal(session.session, 17);
  assert_int_equal(session.memory_total, 64 * MIB);
  assert_int_equal(session.memory_free, 64 * MIB);
  CUdeviceptr address;
  assert_int_equal(cuMemAlloc_v2(&address, 10 * MIB), CUDA_SUCCESS);
  size_t free, total;
  assert_int_equal(cuMemGetInfo_v2(&free, &total), CUDA_SUCCESS);
  assert_true(free <= 54 * MIB);
  assert_true(table()->session(&session));
  assert_int_equal(session.memory_free, free);
  struct companion_device devices[2];
  assert_int_equal(table()->devices(devices, 2), 1);
  assert_memory_equal(&devices[0].session, &session, sizeof session);
  assert_string_equal(devices[0].server.host, "gpu-a");
  assert_int_equal(table()->devices(NULL, 0), 1);
}

static void of_other_names(void **state) {
  (void)state;
  const void *found = &found;
  CUuuid id = COMPANION_TABLE;
  assert_int_equal(cuGetExportTable(NULL, &id), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuGetExportTable(&found, NULL), CUDA_ERROR_INVALID_VALUE);
  id.bytes[15]++;
  assert_int_equal(cuGetExportTable(&found, &id), CUDA_ERROR_NOT_FOUND);
  assert_null(found);
}

// A child has no session, nor has a process whose connection is lost.
static void when_it_is_gone(void **state) {
  (void)state;
  struct companion_session session;
  session_start(64 * MIB, no_hook);
  pid_t child = fork();
  if (child == 0) _exit(table()->session(&session) ? 1 : 0);
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  assert_true(table()->session(&session));
  guest_set_lost(CUDA_ERROR_DEVICE_UNAVAILABLE);
  assert_false(table()->session(&session));
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(its_memory),
      cmocka_unit_test(of_other_names),
      cmocka_unit_test(when_it_is_gone),
  };
  RUN_ONE_TEST(tests, argc, argv);
}
