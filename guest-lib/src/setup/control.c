#include "setup/control.h"

#include <errno.h>
#include <pb_decode.h>
#include <pb_encode.h>
#include <string.h>
#include <unistd.h>

#include "setup/log.h"
#include "setup/program.h"

_Static_assert(pb_arraysize(outboard_Welcome, devices) == DEVICES_MAX &&
                   pb_arraysize(outboard_Device, attributes) == DEVICE_ATTRIBUTES_MAX &&
                   pb_arraysize(outboard_Device, limits) == DEVICE_LIMITS_MAX,
               "control.options and device_description.h disagree");

#define GUEST_VERSION "0.1.0"

void control_hello(outboard_Hello *hello, const struct config *config) {
  memset(hello, 0, sizeof *hello);
  program_name(hello->program, sizeof hello->program);
  gethostname(hello->host, sizeof hello->host - 1);
  strcpy(hello->guest_version, GUEST_VERSION);
  strcpy(hello->token, config->access_token);
  strcpy(hello->name, config->name);
  strcpy(hello->session_class, config->session_class);
  strcpy(hello->gpu_model, config->gpu_model);
  strcpy(hello->traceparent, config->traceparent);
  strcpy(hello->ticket, config->ticket);
  hello->pid = (uint32_t)getpid();
  hello->devices = config->gpus;
  hello->memory = config->memory;
  hello->share_request = config->share_request;
  hello->share_limit = config->share_limit;
}

size_t control_write_hello(uint8_t *out, const outboard_Hello *hello) {
  pb_ostream_t stream =
      pb_ostream_from_buffer(out + WIRE_PREFACE_BYTES, WIRE_CONTROL_MAX - WIRE_PREFACE_BYTES);
  if (!pb_encode(&stream, outboard_Hello_fields, hello)) {
    log_error("the hello could not be encoded: %s", PB_GET_ERROR(&stream));
    return 0;
  }
  uint32_t version = WIRE_PROTOCOL, length = (uint32_t)stream.bytes_written;
  memcpy(out, WIRE_PREFACE_MAGIC, 8);
  memcpy(out + 8, &version, 4);
  memcpy(out + 12, &length, 4);
  return WIRE_PREFACE_BYTES + length;
}

_Bool control_read_preface(const struct server_name *server, const uint8_t *preface,
                           uint32_t *length) {
  if (memcmp(preface, WIRE_PREFACE_MAGIC, 8) != 0) {
    char where[SERVER_TEXT];
    server_write(server, where);
    log_error(
        "what answers at %s is not an Outboard server: name the address and port that `outboard "
        "serve` says it is listening on",
        where);
    return 0;
  }
  memcpy(length, preface + 12, 4);
  if (*length > WIRE_CONTROL_MAX) {
    log_error("the server's answer is longer than the protocol allows");
    return 0;
  }
  return 1;
}

uint64_t control_granularity(const outboard_Welcome *welcome) {
  return welcome->granularity ? welcome->granularity : WIRE_GRANULE;
}

static CUresult check_welcome(const outboard_Welcome *welcome) {
  const uint64_t granule = control_granularity(welcome), rest = granule - 1;
  if (!wire_is_granule(granule)) {
    log_error("the server's device gives memory in pieces of %llu bytes, which makes no sense",
              (unsigned long long)granule);
    return CUDA_ERROR_SYSTEM_NOT_READY;
  }
  if (welcome->devices_count && welcome->window_base && welcome->window_size &&
      !(welcome->window_base & rest) && !(welcome->window_size & rest) &&
      welcome->window_base + welcome->window_size > welcome->window_base)
    return CUDA_SUCCESS;
  log_error("the server's welcome makes no sense: no device, or an impossible window");
  return CUDA_ERROR_SYSTEM_NOT_READY;
}

CUresult control_read_answer(const uint8_t *preface, const uint8_t *message, uint32_t length,
                             outboard_Answer *answer) {
  uint32_t version;
  memcpy(&version, preface + 8, 4);
  pb_istream_t stream = pb_istream_from_buffer(message, length);
  memset(answer, 0, sizeof *answer);
  _Bool decoded = pb_decode(&stream, outboard_Answer_fields, answer);
  // Only a refusal means the same in every version: it may be about the version.
  if (version != WIRE_PROTOCOL && !(decoded && answer->which_body == outboard_Answer_refusal_tag)) {
    log_error("the server speaks protocol %u, this library %u: use versions that go together",
              version, WIRE_PROTOCOL);
    return CUDA_ERROR_SYSTEM_DRIVER_MISMATCH;
  }
  if (!decoded) {
    log_error("the server's answer could not be decoded: %s", PB_GET_ERROR(&stream));
    return CUDA_ERROR_SYSTEM_NOT_READY;
  }
  switch (answer->which_body) {
    case outboard_Answer_queued_tag:
    case outboard_Answer_refusal_tag:
    case outboard_Answer_resumed_tag:
      return CUDA_SUCCESS;
    case outboard_Answer_welcome_tag:
      return check_welcome(&answer->body.welcome);
    default:
      log_error("the server answered with something this library does not know");
      return CUDA_ERROR_SYSTEM_NOT_READY;
  }
}

static void take_peer(const outboard_Peer *from, struct device *device) {
  struct peer_device *to = &device->peers[device->peer_count];
  if (from->uuid.size != sizeof to->uuid) return;
  device->peer_count++;
  memcpy(&to->uuid, from->uuid.bytes, sizeof to->uuid);
  to->performance_rank = (int)from->performance_rank;
  to->native_atomics = from->native_atomics;
  to->atomic_count = from->atomics_count;
  for (unsigned i = 0; i < from->atomics_count; i++) to->atomics[i] = from->atomics[i];
}

void control_devices(const outboard_Welcome *welcome, struct device devices[DEVICES_MAX]) {
  for (unsigned i = 0; i < welcome->devices_count; i++) {
    const outboard_Device *from = &welcome->devices[i];
    struct device *to = &devices[i];
    memset(to, 0, sizeof *to);
    to->server_ordinal = i;
    memcpy(to->name, from->name, sizeof to->name);
    memcpy(to->uuid.bytes, from->uuid.bytes,
           from->uuid.size < sizeof to->uuid.bytes ? from->uuid.size : sizeof to->uuid.bytes);
    to->gpu_uuid = to->uuid;
    to->instance = from->gpu_uuid.size == sizeof to->gpu_uuid.bytes;
    if (to->instance) memcpy(to->gpu_uuid.bytes, from->gpu_uuid.bytes, sizeof to->gpu_uuid.bytes);
    to->total_memory = from->total_memory;
    to->attribute_count = from->attributes_count;
    for (unsigned a = 0; a < from->attributes_count; a++) to->attributes[a] = from->attributes[a];
    to->limit_count = from->limits_count;
    for (unsigned l = 0; l < from->limits_count; l++) to->limits[l] = from->limits[l];
    to->least_priority = from->least_priority;
    to->greatest_priority = from->greatest_priority;
    memcpy(to->pci_bus_id, from->pci_bus_id, sizeof to->pci_bus_id);
    for (unsigned p = 0; p < from->peers_count; p++) take_peer(&from->peers[p], to);
  }
}
