// proto/generated/wire_fields.h: what lies where in each command, for what makes and changes frames without
// knowing what they mean (the fuzzer of the executor).
import type { Api, Command, Parameter } from './api.js';
import { banner } from './banner.js';
import { asks, isBlob, wireField, wireType } from './emit-wire.js';

const roles: Record<Parameter['role']['role'], string> = {
  value: 'VALUE',
  upto: 'VALUE',
  out: 'VALUE',
  handle: 'HANDLE',
  mint: 'MINT',
  consume: 'HANDLE',
  address: 'ADDRESS',
  string: 'BLOB',
  bytes: 'BLOB',
};

function fieldText(command: Command, field: Parameter): string {
  const role = command.bulk && field.name === 'length' ? 'BULK' : roles[field.role.role];
  const kind =
    'kind' in field.role ? `WIRE_KIND_${field.role.kind.toUpperCase()}` : 'WIRE_KIND_NONE';
  const member = wireField(field);
  const size = wireType(field) === 'uint64_t' ? 8 : 4;
  const place = `offsetof(struct wire_${command.name}, ${member})`;
  return `  {"${member}", ${place}, ${size}, WIRE_ROLE_${role}, ${kind}},\n`;
}

function commandText(command: Command, first: number): string {
  const { name, parameters } = command;
  const blobs = parameters.filter(isBlob).length;
  const body = `sizeof(struct wire_${name})`;
  const flags = `${Number(asks(command))}, ${Number(command.bulk)}`;
  return `  {"${name}", WIRE_${name}, ${body}, ${first}, ${parameters.length}, ${blobs}, ${flags}},\n`;
}

export function emitFields(api: Api): string {
  let first = 0;
  let commands = '';
  for (const command of api.commands) {
    commands += commandText(command, first);
    first += command.parameters.length;
  }
  const fields = api.commands.flatMap((c) => c.parameters.map((p) => fieldText(c, p)));
  return `${banner('emit-fields.ts', 'proto/api')}
#ifndef OUTBOARD_WIRE_FIELDS_H
#define OUTBOARD_WIRE_FIELDS_H

#include <stddef.h>

#include "wire_calls.h"

enum wire_role {
  WIRE_ROLE_VALUE,
  WIRE_ROLE_HANDLE,   // that the guest has minted
  WIRE_ROLE_MINT,     // that it mints now
  WIRE_ROLE_ADDRESS,  // of device memory
  WIRE_ROLE_BLOB,     // how many bytes follow, padded to 8; blobs follow in the order of their fields
  WIRE_ROLE_BULK,     // how many bytes of payload follow
};

struct wire_field {
  const char *name;
  uint16_t offset;  // from the beginning of the frame
  uint8_t size;     // 4 or 8
  uint8_t role;     // enum wire_role
  uint8_t kind;     // enum wire_kind of a handle, where the description says it
};

struct wire_command {
  const char *name;
  uint16_t op;
  uint16_t size;          // of the fixed part
  uint16_t first, count;  // its fields
  uint8_t blobs;
  uint8_t asks;  // a struct wire_request comes first
  uint8_t bulk;
};

static const struct wire_field wire_fields[] = {
${fields.join('')}};

static const struct wire_command wire_commands[WIRE_OP_COUNT] = {
${commands}};

#endif
`;
}
