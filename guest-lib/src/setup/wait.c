#include "setup/wait.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "abi_descriptor.h"
#include "setup/clock.h"

// How often other signals are let through where no descriptor is left to hear of them.
#define DEAF_MS 100

static const int ending[] = {SIGINT, SIGTERM};
#define ENDING_COUNT (sizeof ending / sizeof *ending)

static _Thread_local int depth;
static _Thread_local sigset_t held;  // by the program itself

void wait_begin(void) {
  if (depth++) return;
  sigset_t ours;
  sigemptyset(&ours);
  for (unsigned i = 0; i < ENDING_COUNT; i++) {
    // Without a handler it ends the process, at once also where a name is looked up.
    struct sigaction action;
    if (sigaction(ending[i], NULL, &action) == 0 && action.sa_handler != SIG_DFL)
      sigaddset(&ours, ending[i]);
  }
  pthread_sigmask(SIG_BLOCK, &ours, &held);
}

void wait_end(void) {
  if (!--depth) pthread_sigmask(SIG_SETMASK, &held, NULL);
}

// ppoll does not say which signal's handler has run, so only those that end the wait may run in it.
// The others are held back, and a signalfd, which is never read, says that one has come: they are
// delivered as ppoll returns.
int wait_for(int fd, short events, int64_t deadline) {
  wait_begin();
  sigset_t during, others;
  sigfillset(&during);
  for (unsigned i = 0; i < ENDING_COUNT; i++)
    if (!sigismember(&held, ending[i])) sigdelset(&during, ending[i]);
  sigemptyset(&others);
  for (int signal = 1; signal < NSIG; signal++)
    if (sigismember(&during, signal) == 1 && sigismember(&held, signal) == 0)
      sigaddset(&others, signal);
  struct pollfd polled[2] = {
      {.fd = fd, .events = events},
      {.fd = descriptor_above(signalfd(-1, &others, SFD_CLOEXEC)), .events = POLLIN}};
  int error = -1;
  while (error < 0) {
    int64_t left = deadline < 0 ? INT64_MAX : deadline - clock_ms();
    if (left < 0) left = 0;
    if (polled[1].fd < 0 && left > DEAF_MS) left = DEAF_MS;
    struct timespec limit = {.tv_sec = left / 1000, .tv_nsec = left % 1000 * 1000000};
    int ready = ppoll(polled, 2, left == INT64_MAX ? NULL : &limit, &during);
    if (ready < 0)
      error = errno;
    else if (polled[0].revents)
      error = 0;
    else if (ready == 0 && deadline >= 0 && clock_ms() >= deadline)
      error = ETIMEDOUT;
  }
  if (polled[1].fd >= 0) close(polled[1].fd);
  wait_end();
  return error;
}
