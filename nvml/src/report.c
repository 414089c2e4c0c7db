#include "report.h"

#include <pb_decode.h>
#include <string.h>

#include "setup/log.h"
#include "wire.h"

// Answer.report. The field is left out of what nanopb makes of Answer (proto/control.options): a
// session would carry its 27 KiB for nothing.
#define REPORT_TAG 4

static _Bool decode_part(pb_istream_t *stream, const pb_msgdesc_t *type, void *into) {
  pb_istream_t part;
  if (!pb_make_string_substream(stream, &part)) return 0;
  _Bool decoded = pb_decode(&part, type, into);
  return pb_close_string_substream(stream, &part) && decoded;
}

// Which part of an Answer there was, the last one if several; REPORT_BAD where it is another.
static enum report_kind decode(pb_istream_t *stream, outboard_DeviceReport *report,
                               outboard_Refusal *refusal) {
  enum report_kind kind = REPORT_BAD;
  for (;;) {
    pb_wire_type_t wire;
    uint32_t tag;
    bool end;
    if (!pb_decode_tag(stream, &wire, &tag, &end)) return end ? kind : REPORT_BAD;
    if (wire == PB_WT_STRING && tag == REPORT_TAG) {
      if (!decode_part(stream, outboard_DeviceReport_fields, report)) return REPORT_BAD;
      kind = REPORT_DEVICES;
    } else if (wire == PB_WT_STRING && tag == outboard_Answer_refusal_tag) {
      if (!decode_part(stream, outboard_Refusal_fields, refusal)) return REPORT_BAD;
      kind = REPORT_REFUSAL;
    } else if (!pb_skip_field(stream, wire)) {
      return REPORT_BAD;
    }
  }
}

unsigned report_count(const outboard_DeviceReport *report) {
  return (unsigned)report->devices_count + report->others_count;
}

const outboard_DeviceState *report_device(const outboard_DeviceReport *report, unsigned index) {
  return index < report->devices_count ? &report->devices[index]
                                       : &report->others[index - report->devices_count];
}

static _Bool makes_sense(const outboard_DeviceReport *report) {
  const unsigned count = report_count(report);
  if (report->devices_count == 0) return 0;
  for (unsigned i = 0; i < count; i++) {
    const outboard_DeviceState *device = report_device(report, i);
    if (device->uuid.size != sizeof device->uuid.bytes) return 0;
    if (device->memory_used > device->memory_total || device->busy > 100) return 0;
    for (unsigned j = 0; j < i; j++)
      if (memcmp(device->uuid.bytes, report_device(report, j)->uuid.bytes, device->uuid.size) == 0)
        return 0;
  }
  for (unsigned i = 0; i < report->processes_count; i++)
    if (report->processes[i].device >= count || report->processes[i].busy > 100) return 0;
  return 1;
}

enum report_kind report_read(const uint8_t *preface, const uint8_t *message, uint32_t length,
                             outboard_DeviceReport *report, outboard_Refusal *refusal) {
  uint32_t version;
  memcpy(&version, preface + 8, 4);
  pb_istream_t stream = pb_istream_from_buffer(message, length);
  enum report_kind kind = decode(&stream, report, refusal);
  // Only a refusal means the same in every version: it may be about the version.
  if (version != WIRE_PROTOCOL && kind != REPORT_REFUSAL) {
    log_error("the server speaks protocol %u, this library %u: use versions that go together",
              version, WIRE_PROTOCOL);
    return REPORT_BAD;
  }
  if (kind == REPORT_DEVICES && !makes_sense(report)) kind = REPORT_BAD;
  if (kind == REPORT_BAD)
    log_error("the server's report of its devices makes no sense: is it of another release?");
  return kind;
}
