// proto/generated/wire_calls.h: the fixed-layout frames of every command and its reply.
import { type Api, type Command, located, type Parameter } from './api.js';
import { banner } from './banner.js';

const wireTypes: Record<string, string> = {
  'unsigned int': 'uint32_t',
  'unsigned char': 'uint32_t',
  'unsigned short': 'uint32_t',
  int: 'int32_t',
  size_t: 'uint64_t',
  'unsigned long long': 'uint64_t',
  CUdeviceptr: 'uint64_t',
  CUdeviceptr_v2: 'uint64_t',
  float: 'float',
  CUlimit: 'int32_t',
  CUfunc_cache: 'int32_t',
  CUfunction_attribute: 'int32_t',
  uint32_t: 'uint32_t',
  int32_t: 'int32_t',
  uint64_t: 'uint64_t',
};

/** Type of a parameter's fixed-size part on the wire. */
export function wireType(parameter: Parameter): string {
  switch (parameter.role.role) {
    case 'handle':
    case 'mint':
    case 'consume':
    case 'address':
      return 'uint64_t';
    case 'string':
    case 'bytes':
      return 'uint32_t';
    default: {
      const type = wireTypes[parameter.type];
      if (!type) throw new Error(`no wire type for ${parameter.type} ${parameter.name}`);
      return type;
    }
  }
}

export function isBlob(parameter: Parameter): boolean {
  return parameter.role.role === 'string' || parameter.role.role === 'bytes';
}

/** Name of a parameter's fixed-size part. */
export function wireField(parameter: Parameter): string {
  return isBlob(parameter) ? `${parameter.name}_size` : parameter.name;
}

/** A call waits for an answer, so its frame carries a request number. */
export function asks(command: Command): boolean {
  return command.class === 'round-trip';
}

function structText(name: string, first: string, firstSize: number, fields: Parameter[]): string {
  let offset = firstSize;
  let pads = 0;
  let text = `struct ${name} {\n  ${first};\n`;
  for (const field of fields) {
    const type = wireType(field);
    const size = type === 'uint64_t' ? 8 : 4;
    if (offset % size) {
      text += `  uint32_t pad${pads++};\n`;
      offset += 4;
    }
    text += `  ${type} ${wireField(field)};\n`;
    offset += size;
  }
  if (offset % 8) {
    text += `  uint32_t pad${pads};\n`;
    offset += 4;
  }
  return `${text}};\nWIRE_CHECK(sizeof(struct ${name}) == ${offset}, "${name}");\n`;
}

function commandText(command: Command): string {
  const about = command.about ? `// ${command.about}\n` : '';
  const blobs = command.parameters.filter(isBlob).map((p) => p.name);
  const follows = command.bulk
    ? '// `length` bytes of payload follow.\n'
    : blobs.length
      ? `// ${blobs.join(', then ')} follows, padded to 8.\n`
      : '';
  let text = about + follows;
  text += asks(command)
    ? structText(`wire_${command.name}`, 'struct wire_request request', 16, command.parameters)
    : structText(`wire_${command.name}`, 'struct wire_header header', 8, command.parameters);
  if (asks(command)) {
    const replyBlobs = command.reply.filter(isBlob).map((p) => p.name);
    if (replyBlobs.length) text += `// ${replyBlobs.join(', then ')} follows.\n`;
    text += structText(`wire_${command.name}_reply`, 'struct wire_reply reply', 24, command.reply);
  }
  return text;
}

export function emitWire(api: Api): string {
  const commands = api.commands;
  return `${banner('emit-wire.ts', 'proto/api')}
#ifndef OUTBOARD_WIRE_CALLS_H
#define OUTBOARD_WIRE_CALLS_H

#include "wire.h"

enum wire_op {
${commands.map((c) => `  WIRE_${c.name} = ${c.id},\n`).join('')}};

#define WIRE_OP_COUNT ${commands.length}

${commands.map((c) => located(c, commandText)).join('\n')}
// For logs: X(op, name).
#define WIRE_OPS(X) \\
${commands.map((c) => `  X(${c.id}, ${c.name}) \\\n`).join('')}

#endif
`;
}
