// To be read from attach(), at the end, upwards.
#include "driver/attach.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/ablation.h"
#include "base/notice.h"
#include "base/stats.h"
#include "base/trace.h"
#include "copies/upload_cache.h"
#include "driver/companion.h"
#include "driver/error_text.h"
#include "driver/hooks.h"
#include "driver/internal.h"
#include "driver/release.h"
#include "kernels/expected.h"
#include "kernels/learnt.h"
#include "memory/limit.h"
#include "memory/memory.h"
#include "session/context.h"
#include "session/device.h"
#include "session/session.h"
#include "setup/clock.h"
#include "setup/config.h"
#include "setup/control.h"
#include "setup/device_description.h"
#include "setup/environment.h"
#include "setup/log.h"
#include "setup/wait.h"
#include "wire.h"
#include "wire/comeback.h"
#include "wire/connection.h"
#include "wire/enter.h"
#include "wire/region.h"
#include "wire/sender.h"

// Holds [base, base + size) of this process's addresses, anywhere for base 0, so that a device
// pointer never equals a host pointer. 0, or an errno value.
static int hold_window(struct window *window, uint64_t base, uint64_t size) {
  void *wanted = (void *)(uintptr_t)base;
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (base ? MAP_FIXED_NOREPLACE : 0);
  void *held = mmap(wanted, size, PROT_NONE, flags, -1, 0);
  if (held == MAP_FAILED) return errno;
  if (base && held != wanted) {  // a kernel before 4.17 takes the address as a hint
    munmap(held, size);
    return EEXIST;
  }
  *window = (struct window){(uint64_t)(uintptr_t)held, size};
  return 0;
}

static void let_go(struct window *window) {
  if (window->size) munmap((void *)(uintptr_t)window->base, window->size);
  window->size = 0;
}

// The answer's message does not fit a stack frame of a small thread.
static outboard_Answer answer_message;
static outboard_Hello hello;
static uint8_t message[WIRE_CONTROL_MAX];

// The program has been told to end, or to do something else: it is not made to wait any longer, nor
// for another server. It may try again.
static _Bool was_interrupted;
static CUresult interrupted(void) {
  was_interrupted = 1;
  log_warn("a signal of the program has ended the wait for the server");
  return CUDA_ERROR_SYSTEM_NOT_READY;
}

static CUresult send_hello(struct session *session, const struct config *config,
                           const struct window *window) {
  control_hello(&hello, config);
  hello.window_bases[0] = window->base;
  hello.window_bases_count = 1;
  hello.window_size = window->size;
  hello.expects_modules = !ablated(ABLATE_MODULES);
  hello.takes_granularity = 1;
  hello.takes_learnt = !ablated(ABLATE_MODULES);
  hello.resumes = comeback_possible(session, config);

  size_t size = control_write_hello(message, &hello);
  if (!size) return CUDA_ERROR_SYSTEM_NOT_READY;
  trace_step(STEP_HELLO, 0);
  int error = connection_write(session, message, size, (int)config->connect_timeout_ms);
  if (error == EINTR) return interrupted();
  if (error) {
    log_error("the hello could not be sent: %s", strerror(error));
    return CUDA_ERROR_SYSTEM_NOT_READY;
  }
  return CUDA_SUCCESS;
}

// Reads one answer. After the first sign of life the wait is unlimited: a queue takes its time.
static CUresult read_answer(struct session *session, int timeout_ms) {
  uint8_t preface[WIRE_PREFACE_BYTES] = {0};
  uint32_t length;
  int error = connection_read(session, preface, sizeof preface, timeout_ms);
  if (error == EINTR) return interrupted();
  if (error) {
    char where[SERVER_TEXT];
    server_write(connection_server(), where);
    // An alert, as what speaks TLS refuses what does not.
    if (preface[0] == 21 && preface[1] == 3)
      log_error("what answers at %s speaks TLS. Name it tls://%s", where, where);
    else
      log_error("no answer from %s: %s. Is it an Outboard server, and the right port?", where,
                strerror(error));
    return CUDA_ERROR_SYSTEM_NOT_READY;
  }
  if (!control_read_preface(connection_server(), preface, &length))
    return CUDA_ERROR_SYSTEM_NOT_READY;
  error = connection_read(session, message, length, timeout_ms);
  if (error == EINTR) return interrupted();
  if (error) {
    log_error("the server's answer ended early: %s", strerror(error));
    return CUDA_ERROR_SYSTEM_NOT_READY;
  }
  return control_read_answer(preface, message, length, &answer_message);
}

static CUresult take_refusal(void) {
  const outboard_Refusal *refusal = &answer_message.body.refusal;
  trace_step(STEP_REFUSED, 0);
  log_error("the server refused (%s): %s. %s", refusal->code, refusal->sentence, refusal->remedy);
  return refusal->result ? (CUresult)refusal->result : CUDA_ERROR_SYSTEM_NOT_READY;
}

struct gathered gathered;

// A driver may reserve nothing but addresses of its own choice, and less than others.
static CUresult refuse_window(const outboard_Welcome *welcome, const struct window *window) {
  char other[SERVER_TEXT], differ[512];
  server_write(connection_server(), other);
  const _Bool same_server = strcmp(gathered.window_of, other) == 0;
  snprintf(differ, sizeof differ,
           "%llu GiB of addresses at 0x%llx, and %s %llu GiB at 0x%llx: a program with several "
           "GPUs needs the same on all of them",
           (unsigned long long)window->size >> 30, (unsigned long long)window->base,
           same_server ? "for another" : other, (unsigned long long)welcome->window_size >> 30,
           (unsigned long long)welcome->window_base);
  if (same_server)
    log_error(
        "the device windows of two GPUs differ: %s holds for one %s. Start that server again, or "
        "ask for one GPU (OUTBOARD_GPUS=1)",
        gathered.window_of, differ);
  else
    log_error(
        "the device windows of two servers differ: %s holds %s. Name %s first in OUTBOARD_SERVER, "
        "so that the others are asked for its addresses, or take all GPUs from one server",
        gathered.window_of, differ, other);
  return CUDA_ERROR_SYSTEM_NOT_READY;
}

// For a session that takes the place of another: what the program was told of addresses stays true.
struct window kept_window;
static uint64_t kept_granularity;

static _Bool is_kept_window(const outboard_Welcome *welcome) {
  return welcome->window_base == kept_window.base && welcome->window_size >= kept_window.size &&
         control_granularity(welcome) <= kept_granularity;
}

static CUresult refuse_kept_window(const outboard_Welcome *welcome) {
  log_error(
      "the session was released, and cannot be had again: the server holds device memory at 0x%llx "
      "now, and the program's is at 0x%llx. Start the program again",
      (unsigned long long)welcome->window_base, (unsigned long long)kept_window.base);
  return CUDA_ERROR_SYSTEM_NOT_READY;
}

// Every session's server holds the same window: an address means one thing only.
static CUresult take_window(struct session *session, const outboard_Welcome *welcome,
                            struct window *window) {
  if (window == &kept_window) {
    if (!is_kept_window(welcome)) return refuse_kept_window(welcome);
  } else if (session == sessions) {
    server_write(connection_server(), gathered.window_of);
    if (welcome->window_base != window->base || welcome->window_size > window->size) {
      let_go(window);
      if (hold_window(window, welcome->window_base, welcome->window_size) != 0) {
        log_error("the server's device window at 0x%llx is taken in this process",
                  (unsigned long long)welcome->window_base);
        return CUDA_ERROR_SYSTEM_NOT_READY;
      }
    }
    window->size = welcome->window_size;
  } else if (welcome->window_base != window->base || welcome->window_size < window->size) {
    return refuse_window(welcome, window);
  }
  const uint64_t granularity = control_granularity(welcome);
  if (granularity > gathered.granularity) gathered.granularity = granularity;
  memory_join(session, welcome->memory_limit, welcome->pinned_memory, welcome->memory_room);
  return CUDA_SUCCESS;
}

// A server that does not know what was asked for gives any GPU.
static CUresult refuse_model(const outboard_Welcome *welcome, const char *model) {
  for (unsigned i = 0; *model && i < welcome->devices_count; i++) {
    const char *name = welcome->devices[i].name;
    if (strcasestr(name, model)) continue;
    log_error(
        "a GPU was asked for whose name has \"%s\" (OUTBOARD_GPU_MODEL), and the server has given "
        "%s: it is too old to be asked for that. Use a server as new as this library",
        model, name);
    return CUDA_ERROR_SYSTEM_DRIVER_MISMATCH;
  }
  return CUDA_SUCCESS;
}

static CUresult take_welcome(struct session *session, const struct config *config,
                             struct window *window) {
  const outboard_Welcome *welcome = &answer_message.body.welcome;
  trace_step(STEP_WELCOME, welcome->session);
  CUresult result = refuse_model(welcome, config->gpu_model);
  if (!result) result = take_window(session, welcome, window);
  if (result) return result;
  companion_start(session, welcome->session, gathered.server, connection_server());
  upload_cache_start(session, welcome->upload_cache);
  if (!expected_told(session, welcome)) return CUDA_ERROR_OUT_OF_MEMORY;
  learnt_told(session, welcome);
  result = comeback_offered(session, config, welcome);
  if (result) return result;
  if (welcome->region) region_offered(session);
  session->cublas = welcome->cublas;
  session->stream_operations = welcome->stream_operations;
  session->share_ends = welcome->share_ends;
  session->late_uploads = welcome->late_uploads;
  if (welcome->error_texts) error_text_offered(session);
  static struct device devices[DEVICES_MAX];
  control_devices(welcome, devices);
  for (unsigned i = 0; i < welcome->devices_count && gathered.count < DEVICES_MAX; i++) {
    devices[i].session = session;
    devices[i].server = gathered.server;
    gathered.all[gathered.count++] = devices[i];
  }
  if (!gathered.driver_version || welcome->driver_version < gathered.driver_version)
    gathered.driver_version = welcome->driver_version;
  log_info("session %llu: %u device(s), %llu MiB, server %s", (unsigned long long)welcome->session,
           (unsigned)welcome->devices_count, (unsigned long long)(welcome->memory_limit >> 20),
           welcome->server_version);
  return CUDA_SUCCESS;
}

// Makes the library ready once all sessions are there.
static CUresult start(const struct config *config, const struct window *window) {
  memory_start(window->base, window->size & ~(gathered.granularity - 1), gathered.granularity);
  kept_window = *window;
  kept_granularity = gathered.granularity;
  device_start(gathered.all, gathered.count, config->visible_devices, gathered.driver_version);
  if (device_count() == 0) {
    log_error("CUDA_VISIBLE_DEVICES=\"%s\" leaves none of the %d GPUs of this session visible",
              config->visible_devices, gathered.count);
    return CUDA_ERROR_NO_DEVICE;
  }
  if (!context_start(device_count())) return CUDA_ERROR_OUT_OF_MEMORY;
  for (struct session *session = sessions; session < sessions_end(); session++) {
    connection_watch(session);
    int error = sender_start(session);
    if (error) {
      log_error("the sender thread could not be started: %s", strerror(error));
      return CUDA_ERROR_OPERATING_SYSTEM;
    }
  }
  for (struct session *session = sessions; session < sessions_end(); session++) {
    expected_start(session);
    learnt_start(session);
  }
  return CUDA_SUCCESS;
}

// What is done once, before anything is tried, however often the program tries cuInit.
static void begin(void) {
  hooks_set();
  guest_attach_again_by(attach_again);
  log_open();
  const char *stats = environment("OUTBOARD_STATS");
  int error = 0;
  if (stats && (error = stats_open(stats)))
    log_error("OUTBOARD_STATS=\"%s\": %s", stats, strerror(error));
  if (!stats || error) stats_wanted = 0;
  trace_report();
  ablation_report();
  notice_open();
}

// Until the server has something to say, and says meanwhile what is to be said of the wait.
static CUresult wait_in_queue(struct session *session) {
  if (connection_has_more(session)) return CUDA_SUCCESS;
  int error;
  while ((error = wait_for(connection_fd(session), POLLIN, notice_due_at())) == ETIMEDOUT)
    notice_due();
  // What else is wrong with the socket is for who reads from it.
  return error == EINTR ? interrupted() : CUDA_SUCCESS;
}

// Connects a session to the first of the servers that answers, says Hello, waits in the queue, and
// takes the Welcome or the refusal.
CUresult attach_session(struct session *session, const struct config *config,
                        struct window *window) {
  struct trace_span connecting;
  trace_step_begin(&connecting, STEP_CONNECT);
  int error = connection_open(session, config);
  CUresult result = !error           ? CUDA_SUCCESS
                    : error == EINTR ? interrupted()
                                     : CUDA_ERROR_SYSTEM_NOT_READY;
  trace_step_end(&connecting, result);
  if (!result) result = send_hello(session, config, window);
  if (!result) result = read_answer(session, (int)config->connect_timeout_ms);
  while (!result && answer_message.which_body == outboard_Answer_queued_tag) {
    const outboard_Queued *queued = &answer_message.body.queued;
    if (*queued->warning)
      notice(LOG_WARN, "%s", queued->warning);
    else
      notice_place(queued->position);
    trace_step(STEP_QUEUED, answer_message.body.queued.position);
    result = wait_in_queue(session);
    if (!result) result = read_answer(session, -1);
  }
  notice_waited(!result && answer_message.which_body == outboard_Answer_welcome_tag);
  if (!result && answer_message.which_body == outboard_Answer_resumed_tag) {
    log_error("the server has taken up a session that was never asked for");
    result = CUDA_ERROR_SYSTEM_NOT_READY;
  }
  if (!result)
    result = answer_message.which_body == outboard_Answer_refusal_tag
                 ? take_refusal()
                 : take_welcome(session, config, window);
  if (!result) stats_add(&guest_stats->round_trips, 1);
  return result;
}

// The GPUs of one server, in sessions from `first` on. The first connection asks for all of them
// and gets tickets for the others, which a connection each hands in.
static CUresult attach_group(const struct config *config, struct window *window,
                             struct session *first) {
  gathered.server = first->number;
  CUresult result = attach_session(first, config, window);
  if (result || config->gpus == 1) return result;
  const outboard_Welcome *welcome = &answer_message.body.welcome;
  if (welcome->tickets_count != config->gpus - 1) {
    log_error("the server has given %u of %u GPUs", (unsigned)welcome->tickets_count + 1,
              config->gpus);
    return CUDA_ERROR_SYSTEM_NOT_READY;
  }
  static struct config other;
  static outboard_Welcome told;
  other = *config;
  other.gpus = 1;
  told = *welcome;
  for (unsigned i = 0; i < told.tickets_count && !result; i++) {
    strcpy(other.ticket, told.tickets[i]);
    result = attach_session(first + 1 + i, &other, window);
  }
  return result;
}

// A session for each GPU, and devices are numbered through; servers beyond the number of GPUs stand
// in for those that cannot be had.
static CUresult attach_sessions(const struct config *config, struct window *window) {
  session_count = (int)config->gpus;
  static struct config one;
  one = *config;
  one.server_count = 1;
  struct session *session = sessions;
  const unsigned servers = (unsigned)config->server_count;
  unsigned parts = config_parts(config), spare = parts;
  for (unsigned part = 0; part < parts; part++) {
    one.gpus = config_gpus_of(config, part);
    one.servers[0] = config->servers[part];
    CUresult result = attach_group(&one, window, session);
    while (result && !was_interrupted && spare < servers) {
      for (unsigned i = 0; i < one.gpus; i++) connection_close_of(session + i);
      while (gathered.count && gathered.all[gathered.count - 1].session >= session)
        gathered.count--;
      one.servers[0] = config->servers[spare++];
      result = attach_group(&one, window, session);
    }
    if (result) return result;
    session += one.gpus;
  }
  return CUDA_SUCCESS;
}

void gather_anew(void) {
  gathered.count = 0;
  gathered.driver_version = 0;
  gathered.granularity = 0;
}

static CUresult try_attach(void) {
  static struct config config;
  CUresult result = config_read(&config);
  if (result) return result;
  // Nothing visible: no server is needed to know it.
  if (config.visible_devices && !*config.visible_devices) {
    notice(LOG_WARN, "CUDA_VISIBLE_DEVICES is empty: no device is visible, and none is asked for");
    return CUDA_ERROR_NO_DEVICE;
  }
  uint64_t since = clock_ns();
  struct window window = {0};
  int error = hold_window(&window, WIRE_WINDOW_BASE, WIRE_WINDOW_SIZE);
  if (error) error = hold_window(&window, 0, WIRE_WINDOW_SIZE);
  if (error) {
    log_error(
        "no room for a device window of %llu GiB of addresses: %s. A limit on address space "
        "(ulimit -v) does that",
        WIRE_WINDOW_SIZE >> 30, strerror(error));
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  const unsigned gpus = config.gpus > 1 ? config.gpus : 1;
  if (!sessions_make(gpus)) {
    log_error("there is no memory for %u session(s)", gpus);
    let_go(&window);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  gather_anew();
  result = config.gpus > 1 ? attach_sessions(&config, &window)
                           : attach_session(sessions, &config, &window);
  if (!result) result = start(&config, &window);
  if (result) {
    connection_close();
    let_go(&window);
    session_count = 1;
    return result;
  }
  stats_add(&guest_stats->attach_ns, clock_ns() - since);
  stats_phase_end(PHASE_ATTACH);
  return CUDA_SUCCESS;
}

pthread_mutex_t attach_lock = PTHREAD_MUTEX_INITIALIZER;

CUresult attach_waiting(CUresult (*tries)(void)) {
  was_interrupted = 0;
  notice_errors(1);
  wait_begin();
  CUresult result = tries();
  wait_end();
  notice_errors(0);
  return result;
}

CUresult attach(void) {
  if (guest_is_child()) return CUDA_ERROR_NOT_INITIALIZED;
  if (!(atomic_load(&guest_obstacles))) return CUDA_SUCCESS;
  // Before the lock: a child that another thread forks off now must not wait for it.
  guest_attaching();
  pthread_mutex_lock(&attach_lock);
  static _Bool attached;
  const _Bool before = attached;
  CUresult result = CUDA_SUCCESS;
  if (!before) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, begin);
    result = attach_waiting(try_attach);
    attached = !result;
    if (attached) release_socket_open();
  }
  guest_attached(attached);
  pthread_mutex_unlock(&attach_lock);
  // Without the lock: a session that was released is attached anew.
  return before ? guest_check(NEEDS_INIT) : result;
}
