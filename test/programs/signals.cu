// Signals are the program's own threads' business: one that waits for a signal gets it, whatever
// threads a driver has, and work goes on meanwhile.
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "check.h"

constexpr int kCount = 1 << 16;

__global__ void add(int *values, int more) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < kCount) values[i] += more;
}

void CUDART_CB called(void *calls) { ++*static_cast<volatile int *>(calls); }

int posted;  // what values should be

void post(int *values, int *calls, int more) {
  add<<<kCount / 256, 256>>>(values, more);
  CHECK(cudaGetLastError());
  CHECK(cudaLaunchHostFunc(nullptr, called, calls));
  posted += more;
}

// What ends a process, or stops it, by default: each must be there for who waits for it.
const int waited_for[] = {SIGUSR1, SIGUSR2,   SIGTERM, SIGINT, SIGHUP,  SIGQUIT,
                          SIGALRM, SIGVTALRM, SIGPROF, SIGIO,  SIGPIPE, SIGSTKFLT,
                          SIGTSTP, SIGTTIN,   SIGXCPU, SIGPWR};

volatile sig_atomic_t heard;
volatile pid_t heard_on;

void hear(int) {
  const int before = errno;
  heard = heard + 1;
  heard_on = static_cast<pid_t>(syscall(SYS_gettid));
  errno = before;
}

// The threads that would take a signal that comes now, but for the one that asks.
int takers(int signal) {
  int count = 0;
  DIR *tasks = opendir("/proc/self/task");
  while (const dirent *entry = readdir(tasks)) {
    if (entry->d_name[0] == '.' || atoi(entry->d_name) == syscall(SYS_gettid)) continue;
    char path[300], line[256];
    snprintf(path, sizeof path, "/proc/self/task/%s/status", entry->d_name);
    FILE *status = fopen(path, "r");
    if (!status) continue;  // it has ended
    unsigned long long blocked = ~0ull;
    while (fgets(line, sizeof line, status)) sscanf(line, "SigBlk: %llx", &blocked);
    fclose(status);
    if (!(blocked >> (signal - 1) & 1)) count++;
  }
  closedir(tasks);
  return count;
}

int main() {
  int *values, calls = 0, wrong = 0;
  static int host[kCount];
  CHECK(cudaMalloc(&values, sizeof host));
  // By itself, so that this thread is the one that starts what kernels run on.
  add<<<kCount / 256, 256>>>(values, 0);
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemset(values, 0, sizeof host));
  for (int i = 0; i < 4; i++) post(values, &calls, 1);
  CHECK(cudaMemcpy(host, values, sizeof host, cudaMemcpyDeviceToHost));
  CHECK(cudaDeviceSynchronize());

  // The threads are there now. Only from here on does this one wait for signals.
  sigset_t set;
  sigemptyset(&set);
  for (int signal : waited_for) sigaddset(&set, signal);
  for (int signal = SIGRTMIN; signal <= SIGRTMAX; signal++) sigaddset(&set, signal);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  int waited = 0;
  auto wait_for = [&](int signal) {
    post(values, &calls, signal);
    kill(getpid(), signal);
    int got = 0;
    if (sigwait(&set, &got) || got != signal) {
      printf("waited for signal %d, got %d: WRONG\n", signal, got);
      wrong++;
    }
    waited++;
    if (const int others = takers(signal)) {
      printf("signal %d: %d threads would take it: WRONG\n", signal, others);
      wrong++;
    }
  };
  for (int signal : waited_for) wait_for(signal);
  for (int signal = SIGRTMIN; signal <= SIGRTMAX; signal++) wait_for(signal);
  printf("%d signals were waited for\n", waited);

  // A handler runs on the thread that waits in sigsuspend, and calls that are interrupted go on.
  struct sigaction action = {};
  action.sa_handler = hear;  // without SA_RESTART
  sigaction(SIGUSR1, &action, nullptr);
  sigset_t during;
  pthread_sigmask(SIG_BLOCK, nullptr, &during);
  sigdelset(&during, SIGUSR1);
  for (int i = 1; i <= 100; i++) {
    post(values, &calls, i);
    kill(getpid(), SIGUSR1);
    sigsuspend(&during);
    if (heard != i || heard_on != getpid()) {
      printf("handled %d times, by thread %d: WRONG\n", static_cast<int>(heard),
             static_cast<int>(heard_on - getpid()));
      wrong++;
    }
  }
  printf("%d signals were handled\n", static_cast<int>(heard));

  CHECK(cudaMemcpy(host, values, sizeof host, cudaMemcpyDeviceToHost));
  CHECK(cudaDeviceSynchronize());
  for (int value : host) wrong += value != posted;
  wrong += calls != 4 + waited + 100;
  printf("%s\n", wrong ? "WRONG" : "all work is done");
  return wrong != 0;
}
