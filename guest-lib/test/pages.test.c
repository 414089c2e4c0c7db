// Managed memory: what travels when the device takes over, and what a touch brings.
#include "pages/pages.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/stats.h"
#include "check.h"
#include "guest_calls.h"
#include "session.h"

#define KIB 1024
#define MIB (1ull << 20)
#define PAGE 4096

static const struct server_hook no_hook;
static struct server *server;
static unsigned char *memory;  // of SIZE bytes, managed
#define SIZE (4 * MIB)

static uint64_t round_trips(void) { return atomic_load(&guest_stats->round_trips); }
static uint8_t *on_device(size_t offset) {
  return server_memory(server) + ((uintptr_t)memory - WIRE_WINDOW_BASE) + offset;
}

static void start(void) {
  server = session_start(64 * MIB, no_hook);
  CUdeviceptr address;
  assert_int_equal(cuMemAllocManaged(&address, SIZE, CU_MEM_ATTACH_GLOBAL), CUDA_SUCCESS);
  memory = (unsigned char *)(uintptr_t)address;
}

// As a launch does.
static void device_takes_over(void) {
  assert_true(pages_hand_over(session_here()));
  pages_handed_over();
  assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
}

static void only_changes_travel_in_one_message(void **state) {
  (void)state;
  start();
  for (int i = 0; i < 3; i++) memory[i * MIB + 5] = (unsigned char)(i + 1);
  device_takes_over();
  assert_int_equal(server_count(server, WIRE_PagesUpload), 1);
  for (int i = 0; i < 3; i++) assert_int_equal(*on_device(i * MIB + 5), i + 1);
  // Nobody touched anything since.
  device_takes_over();
  assert_int_equal(server_count(server, WIRE_PagesUpload), 1);
  assert_int_equal(server_count(server, WIRE_PagesFetch), 0);
}

// Descriptors of the file that memory shared with the device lies in.
static int count_files_of_ours(void) {
  char link[64], target[64];
  int count = 0;
  for (int fd = 0; fd < 256; fd++) {
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, target, sizeof target - 1);
    target[length > 0 ? length : 0] = 0;
    count += strstr(target, "memfd:outboard ") != NULL;
  }
  return count;
}

// It would keep the parent's memory, for as long as it lives.
static void a_child_has_no_file_of_it(void **state) {
  (void)state;
  start();
  assert_int_equal(count_files_of_ours(), 1);
  int status;
  const pid_t child = fork();
  if (child == 0) _exit(count_files_of_ours());
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  assert_int_equal(count_files_of_ours(), 1);
  // The parent goes on with it.
  memory[5] = 1;
  device_takes_over();
  assert_int_equal(*on_device(5), 1);
}

// Of files, which memory that host and device share is otherwise.
static void a_limit_of_files_is_none_of_memory(void **state) {
  (void)state;
  server = session_start(64 * MIB, no_hook);
  struct rlimit limit;
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
  limit.rlim_cur = PAGE;
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
  CUdeviceptr address;
  assert_int_equal(cuMemAllocManaged(&address, SIZE, CU_MEM_ATTACH_GLOBAL), CUDA_SUCCESS);
  memory = (unsigned char *)(uintptr_t)address;
  for (int i = 0; i < 3; i++) memory[i * MIB + 5] = (unsigned char)(i + 1);
  device_takes_over();
  for (int i = 0; i < 3; i++) assert_int_equal(*on_device(i * MIB + 5), i + 1);
  *on_device(MIB + 5) = 77;
  assert_int_equal(memory[MIB + 5], 77);
  assert_int_equal(cuMemFree_v2(address), CUDA_SUCCESS);
  sigset_t pending;
  assert_int_equal(sigpending(&pending), 0);
  assert_int_equal(sigismember(&pending, SIGXFSZ), 0);
}

static void a_touch_brings_the_neighbours(void **state) {
  (void)state;
  start();
  device_takes_over();
  *on_device(70 * KIB) = 7;
  *on_device(80 * KIB) = 8;
  uint64_t before = round_trips();
  assert_int_equal(memory[70 * KIB], 7);
  assert_int_equal(memory[80 * KIB], 8);
  assert_int_equal(round_trips(), before + 1);
  // What was only read does not travel back.
  device_takes_over();
  assert_int_equal(server_count(server, WIRE_PagesUpload), 0);
  *on_device(70 * KIB) = 9;
  assert_int_equal(memory[70 * KIB], 9);
}

static void a_change_of_what_the_device_has(void **state) {
  (void)state;
  start();
  device_takes_over();
  memset(on_device(0), 3, SIZE);
  memory[PAGE + 1] = 4;  // the rest of the page is the device's
  assert_int_equal(memory[PAGE], 3);
  memset(on_device(2 * MIB), 6, PAGE);
  device_takes_over();
  assert_int_equal(*on_device(PAGE + 1), 4);
  assert_int_equal(*on_device(PAGE), 3);
  assert_int_equal(*on_device(2 * MIB), 6);
}

static void touches_that_follow_one_another_bring_more(void **state) {
  (void)state;
  start();
  device_takes_over();
  for (size_t i = 0; i < SIZE; i++) *on_device(i) = (uint8_t)(i >> 12);
  for (size_t i = 0; i < SIZE; i += PAGE) assert_int_equal(memory[i], (uint8_t)(i >> 12));
  assert_in_range(server_count(server, WIRE_PagesFetch), 1, 8);
}

static void fresh_memory_is_open_to_the_system(void **state) {
  (void)state;
  start();
  int zero = open("/dev/zero", O_RDONLY);
  assert_int_equal(read(zero, memory + MIB, 100 * KIB), 100 * KIB);
  close(zero);
  memory[MIB] = 1;
  device_takes_over();
  assert_int_equal(*on_device(MIB), 1);
}

static void *touch(void *at) { return (void *)(uintptr_t) * (volatile unsigned char *)at; }

static void threads_touch_at_once(void **state) {
  (void)state;
  start();
  for (int round = 0; round < 20; round++) {
    device_takes_over();
    memset(on_device(0), round + 1, SIZE);
    pthread_t threads[8];
    for (int i = 0; i < 8; i++)
      pthread_create(&threads[i], NULL, touch, memory + (i % 3) * MIB + i * 100);
    for (int i = 0; i < 8; i++) {
      void *seen;
      pthread_join(threads[i], &seen);
      assert_int_equal((uintptr_t)seen, round + 1);
    }
  }
}

static volatile int handled;
static void handler(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)info, (void)context;
  handled++;
  struct sigaction standard = {.sa_handler = SIG_DFL};
  sigaction(SIGSEGV, &standard, NULL);
  _exit(42);
}

static void other_faults_are_the_programs(void **state) {
  (void)state;
  struct sigaction own = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
  sigaction(SIGSEGV, &own, NULL);
  start();
  device_takes_over();
  assert_int_equal(memory[0], 0);
  assert_int_equal(handled, 0);
  pid_t child = fork();
  if (!child) touch((void *)(uintptr_t)(SIZE + getpid()));
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 42);
  // A child has none of the memory.
  child = fork();
  if (!child) _exit(memory[PAGE]);
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 42);
}

static void a_handler_set_later_does_not_hide_ours(void **state) {
  (void)state;
  start();
  struct sigaction own = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
  sigaction(SIGSEGV, &own, NULL);
  device_takes_over();
  assert_int_equal(memory[0], 0);
  assert_int_equal(handled, 0);
}

static void small_allocations_share_and_end(void **state) {
  (void)state;
  start();
  CUdeviceptr small[100];
  for (int i = 0; i < 100; i++) {
    assert_int_equal(cuMemAllocManaged(&small[i], 100, CU_MEM_ATTACH_GLOBAL), CUDA_SUCCESS);
    *(int *)(uintptr_t)small[i] = i;
  }
  device_takes_over();
  assert_int_equal(server_count(server, WIRE_MemoryMap), 2);
  assert_int_equal(*(int *)(uintptr_t)small[77], 77);
  for (int i = 0; i < 100; i++) assert_int_equal(cuMemFree_v2(small[i]), CUDA_SUCCESS);
  assert_int_equal(cuMemFree_v2((CUdeviceptr)(uintptr_t)memory), CUDA_SUCCESS);
  assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
  CUdeviceptr again;
  assert_int_equal(cuMemAllocManaged(&again, SIZE, CU_MEM_ATTACH_GLOBAL), CUDA_SUCCESS);
  memset((void *)(uintptr_t)again, 1, SIZE);
  device_takes_over();
}

static void advice_is_kept(void **state) {
  (void)state;
  start();
  CUdeviceptr at = (CUdeviceptr)(uintptr_t)memory;
  int value = 9, by[2];
  CUmemLocation device = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
  assert_int_equal(cuMemAdvise_v2(at, PAGE, CU_MEM_ADVISE_SET_READ_MOSTLY, device), CUDA_SUCCESS);
  assert_int_equal(cuMemRangeGetAttribute(&value, 4, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, at, PAGE),
                   CUDA_SUCCESS);
  assert_int_equal(value, 1);
  assert_int_equal(
      cuMemRangeGetAttribute(&value, 4, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, at, PAGE + 1),
      CUDA_SUCCESS);
  assert_int_equal(value, 0);
  assert_int_equal(cuMemAdvise(at, SIZE, CU_MEM_ADVISE_SET_ACCESSED_BY, -1), CUDA_SUCCESS);
  assert_int_equal(cuMemRangeGetAttribute(by, 8, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, at + 100, 100),
                   CUDA_SUCCESS);
  assert_true(by[0] == -1 && by[1] == -2);
  assert_int_equal(cuMemAdvise(at, SIZE + 1, CU_MEM_ADVISE_SET_READ_MOSTLY, 0),
                   CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuMemAdvise(at, SIZE, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, 7),
                   CUDA_ERROR_INVALID_DEVICE);
  assert_int_equal(cuMemAllocManaged(&at, 0, CU_MEM_ATTACH_GLOBAL), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuMemAllocManaged(&at, 8, CU_MEM_ATTACH_SINGLE), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(round_trips(), 0);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(only_changes_travel_in_one_message),
      cmocka_unit_test(a_limit_of_files_is_none_of_memory),
      cmocka_unit_test(a_child_has_no_file_of_it),
      cmocka_unit_test(a_touch_brings_the_neighbours),
      cmocka_unit_test(a_change_of_what_the_device_has),
      cmocka_unit_test(touches_that_follow_one_another_bring_more),
      cmocka_unit_test(fresh_memory_is_open_to_the_system),
      cmocka_unit_test(threads_touch_at_once),
      cmocka_unit_test(other_faults_are_the_programs),
      cmocka_unit_test(a_handler_set_later_does_not_hide_ours),
      cmocka_unit_test(small_allocations_share_and_end),
      cmocka_unit_test(advice_is_kept),
  };
  RUN_ONE_TEST(tests, argc, argv);
}
