// driver-abi/generated/entry_points.c: every entry point of the driver API as a symbol, and the
// table behind cuGetProcAddress.
//
// Each symbol is a weak alias of its own stub. A library that implements a call defines the symbol
// strongly; what still equals its stub is not implemented, and look-ups answer NOT_FOUND for it.

import { banner } from './banner.js';
import { declare } from './emit-header.js';
import type { Facts } from './facts.js';

export function abiNames(facts: Facts): string[] {
  return Object.keys(facts.functions).sort();
}

const suffixes: Record<string, string> = {
  '': 'ABI_PLAIN',
  _ptsz: 'ABI_PER_THREAD',
  _ptds: 'ABI_PER_THREAD',
};

export function emitEntryPoints(facts: Facts): string {
  const names = abiNames(facts);
  const index = new Map(names.map((name, i) => [name, i]));
  const lookups = [...facts.lookups].sort((a, b) =>
    a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : a[1] - b[1] || (a[2] < b[2] ? -1 : 1),
  );
  const stub = (name: string, i: number) =>
    `static int stub_${name}(void) { return abi_unsupported(${i}); }\n` +
    `ABI_EXPORT int ${name}(void) ABI_SYMBOL(${name}) __attribute__((weak, alias("stub_${name}")));\n`;
  return `${banner('emit-entry-points.ts', 'proto/facts')}
#include "abi_lookup.h"

#define ABI_EXPORT __attribute__((visibility("default")))
#ifdef CUDA_DRIVER_PREFIX  // see cuda_driver.h
#define ABI_SYMBOL(name) __asm__(CUDA_DRIVER_PREFIX #name)
#else
#define ABI_SYMBOL(name)
#endif

// A stub ignores its arguments, so one shape serves every prototype (SysV calling convention).
${names.map(stub).join('')}
const struct abi_entry abi_entries[ABI_ENTRY_COUNT] = {
${names.map((name) => `  {"${name}", (void *)${name}, (void *)stub_${name}},\n`).join('')}};

// Sorted by name, then version.
const struct abi_lookup abi_lookups[ABI_LOOKUP_COUNT] = {
${lookups.map(([name, version, suffix, abi]) => `  {"${name}", ${version}, ${suffixes[suffix]}, ${index.get(abi)}},\n`).join('')}};
`;
}

/**
 * driver-abi/generated/entry_calls.h: every entry point in the order of abi_entries, for a library
 * that puts something between the exported symbol and what implements the call.
 */
export function emitEntryCalls(facts: Facts): string {
  const row = (name: string, i: number) => {
    const parameters = facts.functions[name]?.parameters;
    if (!parameters) return `ABI_UNTYPED_CALL(${i}, ${name})\n`;
    const declared = parameters.map(([type, argument]) => declare(type, argument)).join(', ');
    const passed = [name, ...parameters.map(([, argument]) => argument)].join(', ');
    return `ABI_CALL(${i}, ${name}, (${declared || 'void'}), ${passed})\n`;
  };
  return `${banner('emit-entry-points.ts', 'proto/facts')}
// ABI_CALL(index, name, parameters, name and arguments); ABI_UNTYPED_CALL(index, name) where the
// parameters are not known. Included as often as needed.
${abiNames(facts).map(row).join('')}`;
}

export function emitEntryIndex(facts: Facts): string {
  const names = abiNames(facts);
  return `${banner('emit-entry-points.ts', 'proto/facts')}
#ifndef ABI_INDEX_H
#define ABI_INDEX_H

#define ABI_ENTRY_COUNT ${names.length}
#define ABI_LOOKUP_COUNT ${facts.lookups.length}

#endif
`;
}

/** CUresult names, for logs and cuGetErrorName. */
export function emitResultNames(facts: Facts): string {
  const values = facts.declarations.find((d) => d.enum === 'cudaError_enum')?.values ?? [];
  const seen = new Set<number>();
  const rows = values.filter(([, value]) => !seen.has(value) && seen.add(value));
  return `${banner('emit-entry-points.ts', 'proto/facts')}
#include "abi_result.h"

const struct abi_result abi_results[] = {
${rows.map(([name, value]) => `  {${value}, "${name}"},\n`).join('')}};
const unsigned abi_result_count = ${rows.length};
`;
}
