// A program that is hard on libraries: it uses the driver API while descriptors vanish, signals
// interrupt, stacks are small, the user, the root folder or the permitted system calls change. Does
// what its argument says and prints what calls gave.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda_driver.h"

extern char **environ;

static const char *name_of(CUresult result) {
  const char *name;
  return cuGetErrorName(result, &name) == CUDA_SUCCESS ? name : "?";
}

static CUcontext context;
static CUdeviceptr memory;
enum { BYTES = 100000 };

static CUresult begin(void) {
  CUresult result = cuInit(0);
  if (!result) result = cuDevicePrimaryCtxRetain(&context, 0);
  if (!result) result = cuCtxSetCurrent(context);
  return result ? result : cuMemAlloc_v2(&memory, BYTES);
}

// Bytes there and back, `rounds` times.
static CUresult use(int rounds) {
  static unsigned char bytes[BYTES], back[BYTES];
  for (int round = 0; round < rounds; round++) {
    for (int i = 0; i < BYTES; i++) bytes[i] = (unsigned char)(i * 7 + round);
    CUresult result = cuMemcpyHtoD_v2(memory, bytes, BYTES);
    if (!result) result = cuMemsetD8Async(memory, 9, 10, NULL);
    if (!result) result = cuMemcpyDtoH_v2(back, memory, BYTES);
    if (result) return result;
    memset(bytes, 9, 10);
    if (memcmp(bytes, back, BYTES) != 0) return CUDA_ERROR_UNKNOWN;
  }
  return CUDA_SUCCESS;
}

static void say(const char *what, CUresult result) {
  printf("%s %s\n", what, name_of(result));
  fflush(stdout);
}

static void begun(void) {
  CUresult result = begin();
  if (!result) result = use(1);
  if (result) {
    say("session", result);
    exit(1);
  }
}

// ---- what it can do ----------------------------------------------------------------------------

static void closes_descriptors(void) {
  begun();
  for (int fd = 3; fd < 4096; fd++) close(fd);
  // What the program opens next must not be taken for the connection.
  int mine = open("/dev/null", O_RDWR);
  say("synchronise", cuCtxSynchronize());
  say("again", use(1));
  printf("mine %s\n", write(mine, "x", 1) == 1 ? "works" : strerror(errno));
}

static void changes_root(void) {
  begun();
  char folder[] = "/tmp/outboard-root-XXXXXX";
  // Removed at once: it lives as long as this process is in it.
  if (!mkdtemp(folder) || chdir(folder) || rmdir(folder) || chroot(".")) {
    puts("not permitted");
    return;
  }
  say("in an empty root", use(3));
}

static void changes_user(void) {
  begun();
  if (setgid(65534) || setuid(65534)) {
    puts("not permitted");
    return;
  }
  say("as nobody", use(3));
}

static void starts_programs(void) {
  begun();
  pid_t child = vfork();
  if (child == 0) _exit(5);
  int status;
  waitpid(child, &status, 0);
  printf("vfork %d\n", WEXITSTATUS(status));
  say("then", use(1));
  char *arguments[] = {"sh", "-c", "exit 6", NULL};
  if (posix_spawn(&child, "/bin/sh", NULL, NULL, arguments, environ)) return;
  waitpid(child, &status, 0);
  printf("spawn %d\n", WEXITSTATUS(status));
  say("then", use(1));
  child = fork();
  if (child == 0) {
    execv("/bin/sh", arguments);
    _exit(1);
  }
  waitpid(child, &status, 0);
  printf("fork and exec %d\n", WEXITSTATUS(status));
  say("then", use(1));
}

static volatile sig_atomic_t signals;
static void count(int number) {
  (void)number;
  signals++;
}

// Handlers without SA_RESTART: system calls end early.
static void is_interrupted(void) {
  begun();
  struct sigaction action = {.sa_handler = count};
  sigaction(SIGALRM, &action, NULL);
  const struct itimerval often = {{0, 200}, {0, 200}};
  setitimer(ITIMER_REAL, &often, NULL);
  CUresult result = CUDA_SUCCESS;
  for (int round = 0; !result && (round < 50 || signals < 20); round++) result = use(5);
  const struct itimerval never = {{0, 0}, {0, 0}};
  setitimer(ITIMER_REAL, &never, NULL);
  say("interrupted", result);
}

static void *in_thread(void *result) {
  CUresult given = cuCtxSetCurrent(context);
  *(CUresult *)result = given ? given : use(20);
  return NULL;
}

static void has_small_stacks(void) {
  begun();
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 16384);
  for (int i = 0; i < 3; i++) {
    pthread_t thread;
    CUresult result = CUDA_ERROR_UNKNOWN;
    if (pthread_create(&thread, &attributes, in_thread, &result)) puts("no thread");
    pthread_join(thread, NULL);
    say("16 KiB of stack", result);
  }
}

static void *leaves(void *unused) {
  exit(7);
  return unused;
}

static void exits_from_a_thread(void) {
  begun();
  pthread_t thread;
  pthread_create(&thread, NULL, leaves, NULL);
  for (;;)
    if (use(1)) pause();
}

static void loads_and_unloads(void) {
  for (int i = 0; i < 3; i++) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW | (i % 2 ? RTLD_GLOBAL : RTLD_LOCAL));
    CUresult (*init)(unsigned) = library ? (CUresult(*)(unsigned))dlsym(library, "cuInit") : NULL;
    say("loaded", init ? init(0) : CUDA_ERROR_UNKNOWN);
    if (library) dlclose(library);
  }
  begun();
  say("then", use(1));
}

// What Docker's default profile and Lambda's refuse, of what a library could want.
static void is_confined(void) {
  static const int refused[] = {
      SYS_userfaultfd, SYS_perf_event_open,
      SYS_bpf,         SYS_io_uring_setup,
      SYS_ptrace,      SYS_keyctl,
      SYS_add_key,     SYS_process_vm_readv,
      SYS_mount,       SYS_unshare,
      SYS_setns,       SYS_sched_setscheduler,
      SYS_mlockall,    SYS_kcmp,
      SYS_pidfd_getfd, SYS_memfd_create,
      SYS_clone3,      SYS_set_mempolicy,
      SYS_mbind,
  };
  enum { REFUSED = sizeof refused / sizeof *refused };
  struct sock_filter filter[2 * REFUSED + 2];
  int at = 0;
  filter[at++] =
      (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
  for (int i = 0; i < REFUSED; i++) {
    int error = refused[i] == SYS_clone3 ? ENOSYS : EPERM;
    filter[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, refused[i], 0, 1);
    filter[at++] =
        (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (error & 0xffff));
  }
  filter[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  const struct sock_fprog program = {(unsigned short)at, filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
    puts("not permitted");
    return;
  }
  begun();
  say("confined", use(3));
}

int main(int argc, char **argv) {
  static const struct {
    const char *name;
    void (*run)(void);
  } all[] = {
      {"closes-descriptors", closes_descriptors},
      {"changes-root", changes_root},
      {"changes-user", changes_user},
      {"starts-programs", starts_programs},
      {"is-interrupted", is_interrupted},
      {"has-small-stacks", has_small_stacks},
      {"exits-from-a-thread", exits_from_a_thread},
      {"loads-and-unloads", loads_and_unloads},
      {"is-confined", is_confined},
  };
  for (unsigned i = 0; argc == 2 && i < sizeof all / sizeof *all; i++)
    if (strcmp(argv[1], all[i].name) == 0) {
      all[i].run();
      return 0;
    }
  fprintf(stderr, "what shall I do?\n");
  return 2;
}
