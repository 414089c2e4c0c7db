// api-server/generated: the dispatch from frames to driver calls, and the list of driver functions
// the executor needs.
import { type Api, type Command, located, type Parameter } from './api.js';
import { banner } from './banner.js';
import { addressSize } from './emit-guest.js';
import { asks, isBlob, wireField } from './emit-wire.js';
import { type Facts, sinceWhen } from './facts.js';
import { type Moving, noted } from './moving.js';

/** Argument of the driver call for one parameter, once checked. */
function argument(p: Parameter, command: Command): string {
  if (p.role.role === 'handle') {
    return `${p.name}_object${command.wait && p.role.kind === 'stream' ? '.object' : ''}`;
  }
  if (p.role.role === 'mint') return `&${p.name}_object`;
  if (p.role.role === 'out') return `&${p.name}_out`;
  return `static_cast<${p.type}>(q->${p.name})`;
}

const workNames = { kernel: 'kKernel', copy: 'kCopy', set: 'kSet' } as const;

/** Leave to start the command's work: an object that only dispatch can make. */
function starts(command: Command): string {
  if (!command.starts) throw new Error(`${command.name} starts nothing`);
  return `Starts<Work::${workNames[command.starts]}>`;
}

/** Takes the gate for a generated call. */
function passage(command: Command, all: Parameter[]): string {
  if (command.starts === 'kernel') {
    throw new Error(`${command.name}: a call that starts a kernel needs \`server: hand\``);
  }
  const stream = all.find((p) => p.role.role === 'handle' && p.role.kind === 'stream');
  if (!stream) throw new Error(`${command.name}: what starts work needs a parameter \`stream\``);
  const target = all.find((p) => p.role.role === 'address');
  const bytes =
    target?.role.role === 'address' ? addressSize(target.role.size, (n) => `q->${n}`) : '0';
  return `      Gate::Pass pass = ${starts(command)}(s.gate()).move(${stream.name}_object, ${bytes});\n`;
}

const objectTypes = {
  stream: 'CUstream',
  event: 'CUevent',
  module: 'CUmodule',
  function: 'CUfunction',
  array: 'CUarray',
  reference: 'CUtexref',
};

function generatedCase(command: Command, all: Parameter[]): string {
  const answer = (result: string) =>
    asks(command)
      ? `s.answers().send(q->request.request, ${result})`
      : `s.posted(h->op, ${result})`;
  let text = '';
  for (const p of all) {
    if (p.role.role === 'handle' || p.role.role === 'consume') {
      const type = command.wait && p.role.kind === 'stream' ? 'Stream' : objectTypes[p.role.kind];
      const find = p.role.role === 'consume' ? 'take' : command.wait ? 'peek' : 'find';
      text += `      ${type} ${p.name}_object;\n      if (!s.objects().${find}(q->${p.name}, &${p.name}_object)) return ${answer('CUDA_ERROR_INVALID_HANDLE')};\n`;
    } else if (p.role.role === 'mint') {
      const type = objectTypes[p.role.kind];
      text += `      ${type} ${p.name}_object = nullptr;\n      if (!s.objects().can_mint<${type}>(q->${p.name})) return s.violation("handle ${p.name} of ${command.name} cannot be minted");\n      if (!s.has_room<${type}>()) return ${answer('CUDA_ERROR_OUT_OF_MEMORY')};\n`;
    } else if (p.role.role === 'address') {
      const size = addressSize(p.role.size, (n) => `q->${n}`);
      text += `      if (!s.reachable(q->${p.name}, ${size})) return ${answer('CUDA_ERROR_INVALID_VALUE')};\n`;
    } else if (p.role.role === 'upto') {
      text += `      if (static_cast<uint32_t>(q->${p.name}) > static_cast<uint32_t>(${p.role.most})) return ${answer('CUDA_ERROR_INVALID_VALUE')};\n`;
    }
  }
  const consumed = all.find((p) => p.role.role === 'consume');
  const driver = consumed
    ? `s.objects().retire(${consumed.name}_object)`
    : `${command.starts ? 'pass->' : 's.driver().'}${command.name}(${all.map((p) => argument(p, command)).join(', ')})`;
  if (command.starts) {
    if (asks(command) || consumed) throw new Error(`${command.name}: needs \`server: hand\``);
    text += passage(command, all);
    return `${text}      return s.posted(h->op, pass.started(${driver}));\n`;
  }
  if (asks(command)) {
    const outs = command.reply;
    if (command.wait) {
      if (outs.length)
        throw new Error(`${command.name}: a waiting call with results needs \`server: hand\``);
      const waited = all.filter((p) => p.role.role === 'handle').map((p) => `${p.name}_object, `);
      const capture = ['&s', ...all.map((p) => `${p.name}_object`)].join(', ');
      return `${text}      return s.wait(q->request.request, ${waited.join('')}[${capture}] { return ${driver}; });\n`;
    }
    for (const p of outs) text += `      ${p.type} ${p.name}_out{};\n`;
    text += `      wire_${command.name}_reply reply{};\n      CUresult result = ${driver};\n`;
    for (const p of outs) text += `      reply.${p.name} = ${p.name}_out;\n`;
    return `${text}      return s.answers().send(q->request.request, result, &reply.reply, sizeof reply);\n`;
  }
  text += `      CUresult result = ${driver};\n`;
  for (const p of all) {
    if (p.role.role === 'mint')
      text += `      if (result == CUDA_SUCCESS) s.objects().keep(q->${p.name}, ${p.name}_object);\n`;
  }
  return `${text}      return s.posted(h->op, result);\n`;
}

function dispatchCase(command: Command, api: Api, moving: Moving): string {
  const call = api.calls.find((c) => c.name === command.name);
  const all = command.call && call ? call.parameters : command.parameters;
  const blobs = command.parameters.filter(isBlob);
  let text = `    case WIRE_${command.name}: {\n      const auto *q = in.body<wire_${command.name}>();\n      if (!q) return;\n`;
  for (const b of blobs)
    text += `      std::span<const uint8_t> ${b.name} = in.blob(q->${wireField(b)});\n`;
  if (command.bulk) text += '      if (!in.bulk(q->length)) return;\n';
  else text += '      if (!in.end()) return;\n';
  text += noted(command, moving);
  if (command.server === 'hand') {
    text += `      return handle_${command.name}(${['s', '*q', ...blobs.map((b) => b.name), ...(command.starts ? [`${starts(command)}(s.gate())`] : [])].join(', ')});\n`;
  } else {
    text += generatedCase(command, all);
  }
  return `${text}    }\n`;
}

export function emitDispatchHeader(api: Api): string {
  const hand = api.commands.filter((c) => c.server === 'hand');
  const prototype = (c: Command) => {
    const blobs = c.parameters.filter(isBlob).map((b) => `std::span<const uint8_t> ${b.name}`);
    const work = c.starts ? [`${starts(c)} work`] : [];
    return `void handle_${c.name}(${['Session &s', `const wire_${c.name} &q`, ...blobs, ...work].join(', ')});\n`;
  };
  return `${banner('emit-server.ts', 'proto/api')}
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "wire/frame.h"
#include "gate/gate.h"
#include "wire_calls.h"

namespace outboard {

class Session;

// Decodes one frame in place, checks it and carries it out. A malformed frame sets the reader's
// sticky failure and ends the session; it never reaches the driver.
void dispatch(Session &s, FrameReader &in);

// Size of the part before the payload, for bulk commands; 0 for all others.
size_t bulk_body_size(uint16_t op);

// The name of a command, for logs; "unknown" for numbers that are none.
const char *op_name(uint16_t op);

// Written by hand in api-server/executor.
${hand.map(prototype).join('')}
}  // namespace outboard
`;
}

export function emitDispatch(api: Api, moving: Moving): string {
  return `${banner('emit-server.ts', 'proto/api')}
#include "dispatch.h"

#include "session/session.h"
#include "base/span.h"

namespace outboard {

const char *op_name(uint16_t op) {
  switch (op) {
#define NAME(id, name) case id: return #name;
    WIRE_OPS(NAME)
#undef NAME
    default: return "unknown";
  }
}

size_t bulk_body_size(uint16_t op) {
  switch (op) {
${api.commands
  .filter((c) => c.bulk)
  .map((c) => `    case WIRE_${c.name}: return sizeof(wire_${c.name});\n`)
  .join('')}    default: return 0;
  }
}

void dispatch(Session &s, FrameReader &in) {
  const wire_header *h = in.header();
  switch (h->op) {
${api.commands.map((command) => located(command, (c) => dispatchCase(c, api, moving))).join('')}    default:
      return s.violation("unknown command");
  }
}

}  // namespace outboard
`;
}

/** NVIDIA's oldest driver that is served, by its release and its CUDA version. */
export const oldestDriver = { release: '550', cuda: '12.4', version: 12040 };

/** By function that is newer than the oldest driver, what does the same there. */
export const standIns: Readonly<Record<string, string>> = {
  cuEventElapsedTime_v2: 'cuEventElapsedTime',
};

/** X-list of the driver functions that the oldest driver lacks, with the version of CUDA they came with. */
export function emitDriverVersions(facts: Facts): string {
  const later = [...sinceWhen(facts)].filter(([, version]) => version > oldestDriver.version);
  later.sort(([a], [b]) => (a < b ? -1 : 1));
  return `${banner('emit-server.ts', 'proto/facts')}
// The oldest driver that is served, and X(name, version): what came after it, with which CUDA.
#pragma once
#define OUTBOARD_OLDEST_DRIVER ${oldestDriver.version}
#define OUTBOARD_OLDEST_DRIVER_TEXT "${oldestDriver.release} (CUDA ${oldestDriver.cuda})"
#define OUTBOARD_LATER_CALLS(X) \\
${later.map(([name, version]) => `  X(${name}, ${version}) \\\n`).join('')}
// X(name, other): of them, what has another function in its place in older drivers.
#define OUTBOARD_STAND_INS(X) \\
${Object.entries(standIns)
  .map(([name, other]) => `  X(${name}, ${other}) \\\n`)
  .join('')}
`;
}

/** X-list of the driver functions that generated dispatch calls, with their types. */
export function emitDriverCalls(api: Api): string {
  const generated = api.commands.filter((c) => c.call);
  const list = (commands: Command[]) => commands.map((c) => `  X(${c.name}) \\\n`).join('');
  return `${banner('emit-server.ts', 'proto/api')}
// X(name): driver functions behind commands of the same name; those that start work are apart.
#pragma once
#define OUTBOARD_DRIVER_CALLS(X) \\
${list(generated.filter((c) => !c.starts))}
#define OUTBOARD_WORK_CALLS(X) \\
${list(generated.filter((c) => c.starts))}
`;
}
