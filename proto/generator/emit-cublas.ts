// libcublas.so.13 and libcublasLt.so.13 for programs: every function that they export as a symbol;
// the table by which both sides read a call; and the page that says what is served.
import { banner } from './banner.js';
import {
  type Argument,
  type CublasApi,
  type CublasCall,
  type CublasFacts,
  isHandle,
  isPointer,
  type Length,
} from './cublas-api.js';

const from = 'proto/facts and proto/api-cublas';
const soname = { cublas: 'libcublas.so.13', lt: 'libcublasLt.so.13' };

/** Every symbol of a library, sorted. */
export function cublasSymbols(facts: CublasFacts, library: keyof typeof soname): string[] {
  return [...(facts.libraries[soname[library]] ?? [])].sort();
}

// ---- the table ---------------------------------------------------------------------------------

const kinds: Record<Argument['kind'], string> = {
  value: 'LIBRARY_VALUE',
  scalar: 'LIBRARY_SCALAR',
  result: 'LIBRARY_RESULT',
  inout: 'LIBRARY_INOUT',
  'host-result': 'LIBRARY_HOST_RESULT',
  vector: 'LIBRARY_VECTOR',
  matrix: 'LIBRARY_MATRIX',
  packed: 'LIBRARY_PACKED',
};

function row(argument: Argument): string {
  const length = ({ first, second, plus }: Length) => `{${first}, ${second}, ${plus}}`;
  const lengths = (pair: [Length, Length]) => `{${pair.map(length).join(', ')}}`;
  const { kind, element, count, typed, complex, rows, columns, by, step, stride, batch } = argument;
  const numbers = [kinds[kind], element, count, typed, complex, lengths(rows), lengths(columns)];
  const optional = Number(argument.optional);
  return `{${[...numbers, by, step, stride, batch, optional].join(', ')}}`;
}

/** Which of a call's words its function takes as an `int`. */
function intsOf({ parameters }: CublasCall): string {
  const own = parameters.filter(([type]) => !isHandle(type));
  const bits = own.reduce(
    (bits, [type], at) => (passed(type) === 'int' ? bits | (1 << at) : bits),
    0,
  );
  return `0x${bits.toString(16)}`;
}

/** proto/generated/cublas_calls.h */
export function emitCublasTable(api: CublasApi): string {
  const byName = new Map(api.calls.map((call) => [call.name, call]));
  const ordered = Object.entries(api.ids).sort(([, a], [, b]) => a - b);
  // Most functions have the parameters of another one.
  const shapes = new Map<string, string>();
  const rows = ordered.map(([name]) => {
    const call = byName.get(name) as CublasCall;
    const { arguments: all } = call;
    const text = all.map((argument) => `  ${row(argument)},\n`).join('');
    if (text && !shapes.has(text)) shapes.set(text, `cublas_arguments_${shapes.size}`);
    return `  {"${name}", ${shapes.get(text) ?? 'NULL'}, ${all.length}, ${intsOf(call)}},\n`;
  });
  const shared = [...shapes].map(
    ([text, name]) => `static const struct library_argument ${name}[] = {\n${text}};\n`,
  );
  const ids = ordered.map(([name, id]) => `  CUBLAS_${name} = ${id},\n`);
  return `${banner('emit-cublas.ts', from)}
#ifndef CUBLAS_CALLS_H
#define CUBLAS_CALLS_H

#include <stddef.h>

#include "library_call.h"

enum {
${ids.join('')}  CUBLAS_CALL_COUNT = ${ordered.length}
};

${shared.join('')}
static const struct library_call cublas_calls[CUBLAS_CALL_COUNT] = {
${rows.join('')}};

#endif
`;
}

// ---- entry points ------------------------------------------------------------------------------

/** Types of the vendor's as ours, which are passed alike. */
function passed(type: string): string {
  if (type === 'cublasHandle_t') return 'struct cublas_handle *';
  if (type === 'cublasHandle_t *') return 'struct cublas_handle **';
  if (type === 'const char *' || ['size_t', 'int64_t', 'long long', 'void'].includes(type))
    return type;
  if (isPointer(type) || type === 'cudaStream_t' || type === 'cublasLogCallback') return 'void *';
  return 'int';
}

const declared = (type: string, name: string) =>
  type.endsWith('*') ? `${type}${name}` : `${type} ${name}`;

function prototype({ name, returns, parameters }: CublasCall, prefix = ''): string {
  const list = parameters.map(([type, parameter]) => declared(passed(type), parameter)).join(', ');
  return `${declared(passed(returns), `${prefix}${name}`)}(${list || 'void'})`;
}

function word([type, name]: [string, string]): string {
  return passed(type).endsWith('*') ? `(uint64_t)(uintptr_t)${name}` : `(uint64_t)(int64_t)${name}`;
}

function entry(call: CublasCall): string {
  const { name, parameters, returns, hand } = call;
  if (hand !== 'no') {
    const given = parameters.map(([, parameter]) => parameter).join(', ');
    const back = returns === 'void' ? '' : 'return ';
    return `${prototype(call)} {\n  ${back}cublas_${name}(${given});\n}\n`;
  }
  const own = parameters.filter(([type]) => !isHandle(type));
  return `${prototype(call)} {
  const uint64_t words[] = {${own.map(word).join(', ')}};
  return cublas_call(handle, CUBLAS_${name}, words);
}
`;
}

const unserved = (name: string, index: number) =>
  `int unserved_${index}(void) __asm__("${name}");\n` +
  `int unserved_${index}(void) { return library_unserved(${index}); }\n`;

/** libraries/generated/cublas_hand.h: what is written by hand in libraries/src. */
export function emitCublasHand(api: CublasApi): string {
  const hand = api.calls.filter((call) => call.hand !== 'no');
  return `${banner('emit-cublas.ts', from)}
#ifndef CUBLAS_HAND_H
#define CUBLAS_HAND_H

#include <stddef.h>
#include <stdint.h>

struct cublas_handle;

${hand.map((call) => `${prototype(call, 'cublas_')};\n`).join('')}
#endif
`;
}

function symbolTable(symbols: string[]): string {
  return `const unsigned library_symbol_count = ${symbols.length};
const char *const library_symbols[${symbols.length}] = {
${symbols.map((name) => `  "${name}",\n`).join('')}};
`;
}

const exported = `
// One that is not served ignores its arguments, so one shape serves every prototype (SysV calling
// convention).
#pragma GCC visibility push(default)
`;

/** libraries/generated/cublas_entries.c */
export function emitCublasEntries(facts: CublasFacts, api: CublasApi): string {
  const byName = new Map(api.calls.map((call) => [call.name, call]));
  const symbols = cublasSymbols(facts, 'cublas');
  const entries = symbols.map((name, index) => {
    const call = byName.get(name);
    return call ? entry(call) : unserved(name, index);
  });
  return `${banner('emit-cublas.ts', from)}
#include "cublas_calls.h"
#include "cublas_hand.h"
#include "call.h"
#include "unserved.h"

${symbolTable(symbols)}${exported}${entries.join('')}#pragma GCC visibility pop
`;
}

/** libraries/generated/cublaslt_entries.c: what libraries/src does not have by hand. */
export function emitCublasLtEntries(facts: CublasFacts, served: string[]): string {
  const symbols = cublasSymbols(facts, 'lt');
  const entries = symbols.map((name, index) =>
    served.includes(name) ? '' : unserved(name, index),
  );
  return `${banner('emit-cublas.ts', 'proto/facts and proto/api-cublaslt.yaml')}
#include "unserved.h"

${symbolTable(symbols)}${exported}${entries.join('')}#pragma GCC visibility pop
`;
}

/** docs/cublas-calls.md */
export function emitCublasDocs(facts: CublasFacts, api: CublasApi, lt: string[]): string {
  const symbols = cublasSymbols(facts, 'cublas');
  const served = new Set(api.calls.map(({ name }) => name));
  const families = [...new Set(api.calls.map(({ family }) => family))];
  const list = (names: string[]) => names.map((name) => `\`${name}\``).join(' ');
  const sections = families.map((family) => {
    const names = api.calls.filter((call) => call.family === family).map(({ name }) => name);
    return `## Served: ${family}\n\n${list(names)}\n`;
  });
  const ltSymbols = cublasSymbols(facts, 'lt');
  return `<!-- Generated by proto/generator/emit-cublas.ts from ${from}. Do not edit: run \`npm run generate\`. -->
# Calls of cuBLAS and cuBLASLt served

With \`outboard run --libraries=remote\`, ${served.size} of the ${symbols.length} functions that \`libcublas.so.13\` exports are
served by the server's own cuBLAS. The others exist as symbols, answer \`CUBLAS_STATUS_NOT_SUPPORTED\`, are named once in
the log and counted. Of the ${ltSymbols.length} that \`libcublasLt.so.13\` exports ${lt.length} are served: all that programs are
told of. The others are for NVIDIA's own libraries.

${sections.join('\n')}
## Served: cuBLASLt

${list(lt)}

## Not served

${list(symbols.filter((name) => !served.has(name)))}

## Not served: cuBLASLt

${list(ltSymbols.filter((name) => !lt.includes(name)))}
`;
}
