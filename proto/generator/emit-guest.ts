// guest-lib/generated: the exported entry points of every described call, and the functions that
// put a command into the batch.
import { type Api, type Call, type Command, located, type Parameter, streamOf } from './api.js';
import { banner } from './banner.js';
import { asks, isBlob, wireField, wireType } from './emit-wire.js';

function declare(type: string, name: string): string {
  return type.endsWith('*') ? `${type}${name}` : `${type} ${name}`;
}

function cParameters(parameters: Parameter[]): string {
  return parameters.map((p) => declare(p.type, p.name)).join(', ') || 'void';
}

function encoderParameters(command: Command): string[] {
  return command.parameters.flatMap((p) =>
    isBlob(p) ? [`const void *${p.name}`, `uint32_t ${p.name}_size`] : [`${wireType(p)} ${p.name}`],
  );
}

/** On a stream that is captured, the command becomes a node of a graph. */
function capture(command: Command): string {
  if (!command.captured) return '';
  const names = command.parameters.flatMap((p) =>
    isBlob(p) ? [p.name, `${p.name}_size`] : [p.name],
  );
  return `  if (capture_active()) {
    CUresult captured = capture_${command.name}(${names.join(', ')});
    if (captured != CAPTURE_NONE) return captured;
  }
`;
}

/** `put_X` (posted) and `ask_X` (round trip): fill a frame in the batch. */
function encoder(command: Command): string {
  const blobs = command.parameters.filter(isBlob);
  const size = [
    `sizeof(struct wire_${command.name})`,
    ...blobs.map((b) => `wire_round_up(${b.name}_size)`),
  ].join(' + ');
  const fill = command.parameters
    .map((p) => `  frame->${wireField(p)} = ${wireField(p)};\n`)
    .join('');
  let tail = '';
  if (blobs.length) {
    tail = '  unsigned char *at = (unsigned char *)(frame + 1);\n';
    tail += blobs
      .map(
        (b, i) =>
          `  batch_blob(at, ${b.name}, ${b.name}_size);\n${i + 1 < blobs.length ? `  at += wire_round_up(${b.name}_size);\n` : ''}`,
      )
      .join('');
  }
  if (asks(command)) {
    const parameters = [...encoderParameters(command), 'struct answer *answer'].join(', ');
    return `// Sends and waits. The reply lies in *answer until answer_free(answer).
static inline CUresult ask_${command.name}(struct session *session, ${parameters}) {
  struct wire_${command.name} *frame = batch_ask(session, WIRE_${command.name}, ${size}, answer);
  if (!frame) return guest_lost();
${fill}${tail}  return batch_wait(session, answer, sizeof(struct wire_${command.name}_reply));
}
`;
  }
  const streams = command.parameters.filter(
    (p) => p.role.role === 'handle' && p.role.kind === 'stream',
  );
  const stream = streams[0] ? streams[0].name : 'BATCH_NO_STREAM';
  if (command.bulk) {
    const parameters = [...encoderParameters(command), 'const void *payload'].join(', ');
    return `static inline CUresult put_${command.name}(struct session *session, ${parameters}) {
  struct wire_${command.name} *frame = batch_begin_bulk(session, WIRE_${command.name}, sizeof *frame, length);
  if (!frame) return guest_lost();
${fill}  return batch_end_bulk(session, ${stream}, payload, length);
}
`;
  }
  return `static inline CUresult put_${command.name}(${['struct session *session', ...encoderParameters(command)].join(', ')}) {
${capture(command)}  struct wire_${command.name} *frame = batch_begin(session, WIRE_${command.name}, ${size});
  if (!frame) return guest_lost();
${fill}${tail}  return batch_end(session, ${stream});
}
`;
}

function callIndexes(api: Api): string {
  return api.calls.map((c, i) => `  CALL_${c.name} = ${i},\n`).join('');
}

function handPrototype(call: Call): string {
  const extra = call.variants.length ? ['int per_thread'] : [];
  const own = call.parameters.map((p) => declare(p.type, p.name));
  return `CUresult guest_${call.name}(${[...own, ...extra].join(', ') || 'void'});\n`;
}

export function emitGuestHeader(api: Api): string {
  return `${banner('emit-guest.ts', 'proto/api')}
#ifndef OUTBOARD_GUEST_CALLS_H
#define OUTBOARD_GUEST_CALLS_H

#include "wire/batch.h"
#include "cuda_driver.h"
#include "streams/recorder.h"
#include "wire/enter.h"
#include "wire_calls.h"

// Described calls, and those of libraries together, for counters and logs.
enum call {
${callIndexes(api)}  CALL_LIBRARY = ${api.calls.length},
  CALL_COUNT
};
extern const char *const call_names[CALL_COUNT];

// Written by hand in guest-lib/src, called by the generated entry points. per_thread: the caller
// means the per-thread default stream where it gives none.
${api.calls
  .filter((c) => c.guest === 'hand')
  .map(handPrototype)
  .join('')}
${api.commands.map((c) => located(c, encoder)).join('\n')}
#endif
`;
}

/** The size expression of an address parameter, in the guest's and in the server's code. */
export function addressSize(size: string[], field: (name: string) => string): string {
  const [first, second, third, fourth] = size.map((s) => (/^\d+$/.test(s) ? s : field(s)));
  if (fourth) return `span_2d(${first}, ${second}, span_1d(${third}, ${fourth}))`;
  if (second) return `span_1d(${first}, ${second})`;
  return first ?? '1';
}

/** The guest's check of an address parameter: fills have elements. */
function addressCheck(call: Call, address: string, size: string[]): string {
  if (call.starts !== 'set') return `memory_check(${address}, ${addressSize(size, (n) => n)})`;
  const [pitch, height, width, unit] = size.length > 2 ? size : ['0', '1', size[0], size[1] ?? '1'];
  return `memory_check_fill(${address}, ${pitch}, ${height}, ${width}, ${unit})`;
}

/** The body of a call that only checks, encodes and, for a round trip, stores the answer. */
function generatedBody(call: Call, target: Call, command: Command): string {
  let streams = '';
  let text = '';
  const stream = target.parameters.find(
    ({ role }) => role.role === 'handle' && role.kind === 'stream',
  )?.name;
  const values = new Map<string, string>();
  for (const p of target.parameters) {
    const given = call.parameters.find((q) => q.name === p.name);
    const fixed = call.with[p.name];
    const source = given ? p.name : fixed === 'default' ? 'NULL' : String(fixed ?? '');
    if (!source) throw new Error(`${call.name}: no value for ${p.name} of ${target.name}`);
    switch (p.role.role) {
      case 'handle':
        if (p.role.kind === 'stream') {
          const perThread = call.variants.length ? 'per_thread' : '0';
          const find = command.captured ? 'stream_for_work' : 'stream_resolve';
          // Whether the stream may be used comes before what is to be done there.
          streams += `  uint64_t ${p.name}_wire;\n  if ((result = ${find}(${source}, ${perThread}, &${p.name}_wire))) return result;\n`;
        } else if (p.role.kind === 'function') {
          text += `  struct function *${p.name}_found;\n  uint64_t ${p.name}_wire;\n  if ((result = function_resolve(${source}, &${p.name}_found, &${p.name}_wire))) return result;\n`;
        } else {
          text += `  uint64_t ${p.name}_wire = (uint64_t)(uintptr_t)${source};\n  if ((result = handle_check(WIRE_KIND_${p.role.kind.toUpperCase()}, ${p.name}_wire))) return result;\n`;
        }
        values.set(p.name, `${p.name}_wire`);
        break;
      case 'address':
        // Memory of another device is filled there.
        if (target.starts === 'set')
          text += `  _Bool away = 0;\n  if (sessions_many() && (result = cross_device_fill(${source}, &${stream}_wire, &away))) return result;\n`;
        text += `  if ((result = ${addressCheck(target, source, p.role.size)})) return result;\n`;
        values.set(p.name, source);
        break;
      case 'out':
        text += `  if (!${p.name}) return CUDA_ERROR_INVALID_VALUE;\n`;
        break;
      case 'value':
      case 'upto':
        values.set(p.name, source);
        break;
      default:
        throw new Error(`${call.name}.${p.name}: ${p.role.role} needs \`guest: hand\``);
    }
  }
  text = streams + text;
  const passed = command.parameters.map((p) => values.get(p.name) ?? '0');
  if (target.starts === 'set')
    return `${text}  result = put_${command.name}(${['session_here()', ...passed].join(', ')});\n  return away ? cross_device_filled(result) : result;\n`;
  if (!asks(command))
    return `${text}  return put_${command.name}(${['session_here()', ...passed].join(', ')});\n`;
  text += `  struct answer answer;\n  answer_init(&answer);\n  result = ask_${command.name}(${['session_here()', ...passed, '&answer'].join(', ')});\n`;
  if (command.reply.length) {
    text += `  if (!result) {\n    const struct wire_${command.name}_reply *reply = answer.reply;\n`;
    text += command.reply.map((p) => `    *${p.name} = reply->${p.name};\n`).join('');
    text += '  }\n';
  }
  return `${text}  answer_free(&answer);\n  return result;\n`;
}

/**
 * Whether the call may take room in a stream and put nothing there (streams/room.h). Launches give it back themselves
 * where that is so, as others are not to pay for it.
 */
const mayLeaveRoom = (call: Call) =>
  call.starts !== 'kernel' && (call.starts !== undefined || call.variants.length > 0);

function entry(call: Call, api: Api): string {
  const variant = call.variants.length > 0;
  const parameters = cParameters(call.parameters);
  const names = call.parameters.map((p) => p.name);
  const needs =
    call.needs === 'stream'
      ? `needs_of(${streamOf(call.parameters)})`
      : `NEEDS_${call.needs.toUpperCase()}`;
  let text = '';
  if (call.guest === 'generated') {
    const target = call.as ? api.calls.find((c) => c.name === call.as) : call;
    const command = api.commands.find((c) => c.name === (call.as ?? call.name));
    if (!target || !command) throw new Error(`${call.name}: nothing to send`);
    const own = call.parameters.map((p) => declare(p.type, p.name));
    const all = [...own, ...(variant ? ['int per_thread'] : [])].join(', ') || 'void';
    text += `static CUresult guest_${call.name}(${all}) {\n  CUresult result;\n${generatedBody(call, target, command)}}\n`;
  }
  const own = variant ? `${parameters}, int per_thread` : parameters;
  const ownNames = variant ? [...names, 'per_thread'] : names;
  const made = `guest_${call.name}(${ownNames.join(', ')})`;
  // What is watched lies apart: it costs the others no more than the question.
  text += `ALWAYS_INLINE CUresult call_${call.name}(${own}) {
  CUresult result = guest_enter(CALL_${call.name}, ${needs});
${call.unsafe ? '  if (!result) result = capture_admit_unsafe();\n' : ''}  return result ? result : ${mayLeaveRoom(call) ? `stream_leave_room(${made})` : made};
}
WATCHED CUresult watched_${call.name}(${own}) {
  struct watched watched;
  watch_begin(&watched, CALL_${call.name});
  return watch_end(&watched, echo_after(CALL_${call.name}, call_${call.name}(${ownNames.join(', ')})));
}
`;
  const exported = (suffix: string, perThread: string) => {
    const passed = [...names, ...(variant ? [perThread] : [])].join(', ');
    return `CUresult ${call.name}${suffix}(${parameters}) {
  if (watch_on()) return watched_${call.name}(${passed});
  return call_${call.name}(${passed});
}
`;
  };
  text += exported('', '0');
  for (const suffix of call.variants) text += exported(suffix, '1');
  return text;
}

/** What the rest of the guest asks about a call: enum call_trait in guest-lib/src/base/call.h. */
function traits(call: Call, api: Api): string {
  const own = [call.name, call.as, ...call.uses];
  const commands = api.commands.filter(({ name }) => own.includes(name));
  const mints = commands.some(
    ({ name, parameters }) =>
      // An address is picked by the guest, too.
      name === 'MemoryMap' ||
      name === 'PinnedMap' ||
      parameters.some(({ role }) => role.role === 'mint'),
  );
  const all = [
    call.class === 'local' && 'CALL_IS_LOCAL',
    call.class === 'round-trip' && 'CALL_WAITS',
    mints && 'CALL_MINTS',
    call.starts && 'CALL_STARTS_WORK',
  ].filter((trait) => trait);
  return all.join(' | ') || '0';
}

export function emitGuestEntries(api: Api): string {
  return `${banner('emit-guest.ts', 'proto/api')}
#include "guest_calls.h"

#include "copies/cross_device.h"
#include "wire/echo.h"
#include "wire/enter.h"
#include "session/handle.h"
#include "memory/memory.h"
#include "memory/memory_range.h"
#include "kernels/lookup.h"
#include "streams/stream.h"
#include "base/watch.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))
#define WATCHED static __attribute__((cold, noinline))

// Prototypes the vendor's header did not give.
#pragma GCC visibility push(default)
CUresult cuProfilerStart(void);
CUresult cuProfilerStop(void);

const char *const call_names[CALL_COUNT] __attribute__((visibility("hidden"))) = {
${api.calls.map((c) => `  "${c.name}",\n`).join('')}  "libraries (cuBLAS)",
};

const unsigned char call_traits[CALL_COUNT] __attribute__((visibility("hidden"))) = {
${api.calls.map((c) => `  ${traits(c, api)},  // ${c.name}\n`).join('')}  CALL_WAITS,  // libraries (cuBLAS)
};

${api.calls.map((call) => located(call, (c) => entry(c, api))).join('\n')}
#pragma GCC visibility pop
`;
}
