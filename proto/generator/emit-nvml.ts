// libnvidia-ml.so.1: types and prototypes of NVML, every entry point as a symbol, and the page that
// says what each is answered with.
import { banner } from './banner.js';
import { declarationsText, declare, layoutChecks } from './emit-header.js';
import type { NvmlApi, NvmlCall, NvmlFacts } from './nvml-api.js';

/** Every symbol of the library, sorted. */
export function nvmlSymbols(facts: NvmlFacts): string[] {
  return Object.keys(facts.functions).sort();
}

const from = 'proto/facts and proto/api-nvml';

/** nvml/generated/nvml_api.h */
export function emitNvmlHeader(facts: NvmlFacts): string {
  const prototypes = Object.entries(facts.functions).map(([name, { returns, parameters }]) => {
    if (!parameters) return '';
    const declared = parameters.map(([type, argument]) => declare(type, argument)).join(', ');
    return `${returns} ${name}(${declared || 'void'});\n`;
  });
  const literal = (value: number | string) => (typeof value === 'string' ? `${value}ull` : value);
  return `${banner('emit-nvml.ts', 'proto/facts')}
#ifndef NVML_API_H
#define NVML_API_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#define NVML_API_CHECK(condition, what) static_assert(condition, what)
#else
#define NVML_API_CHECK(condition, what) _Static_assert(condition, what)
#endif

${facts.constants.map(([name, value]) => `#define ${name} ${literal(value)}\n`).join('')}
${declarationsText(facts.declarations)}
// Every layout as the vendor's compiler saw it.
${layoutChecks(facts.declarations, 'NVML_API_CHECK')}
#pragma GCC visibility push(default)
${prototypes.join('')}#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif
#endif
`;
}

const isHand = (call: NvmlCall) => call.answer.kind === 'hand';

/** Parameters of the hand-written part: a device is what is known of it, not its handle. */
function handParameters({ needs, parameters }: NvmlCall): string {
  const own = needs === 'device' ? parameters.slice(1) : parameters;
  const declared = own.map(([type, name]) => declare(type, name));
  if (needs === 'device') declared.unshift('const struct shown_device *device');
  return declared.join(', ') || 'void';
}

/** nvml/generated/nvml_calls.h: what is written by hand in nvml/src. */
export function emitNvmlCalls(facts: NvmlFacts, api: NvmlApi): string {
  const hand = api.calls
    .filter(isHand)
    .map((call) => `${call.returns} answer_${call.name}(${handParameters(call)});\n`);
  return `${banner('emit-nvml.ts', from)}
#ifndef NVML_CALLS_H
#define NVML_CALLS_H

#include "nvml_api.h"
#include "shown.h"

#define NVML_SYMBOL_COUNT ${nvmlSymbols(facts).length}

extern const char *const nvml_symbols[NVML_SYMBOL_COUNT];

// Called with the lock of shown.h, but for calls that need nothing.
${hand.join('')}
#endif
`;
}

function result(call: NvmlCall): string {
  const { answer, parameters, needs } = call;
  const [type = '', out = ''] = parameters.at(-1) ?? [];
  switch (answer.kind) {
    case 'value': {
      const value = `(${type.replace(/\s*\*$/, '')})${answer.value}`;
      return `${out} ? (*${out} = ${value}, NVML_SUCCESS) : NVML_ERROR_INVALID_ARGUMENT`;
    }
    case 'field': {
      const { field } = answer;
      const value = `(${type.replace(/\s*\*$/, '')})shown->state.${field}`;
      return (
        `!${out} ? NVML_ERROR_INVALID_ARGUMENT : !shown->state.has_${field} ? ` +
        `NVML_ERROR_NOT_SUPPORTED : (*${out} = ${value}, NVML_SUCCESS)`
      );
    }
    default: {
      const passed = parameters.map(([, name]) => name);
      if (needs === 'device') passed[0] = 'shown';
      return `answer_${call.name}(${passed.join(', ')})`;
    }
  }
}

function entry(call: NvmlCall, byName: Map<string, NvmlCall>): string {
  const { name, parameters, returns, needs, answer } = call;
  const declared = parameters.map(([type, argument]) => declare(type, argument)).join(', ');
  const head = `${returns} ${name}(${declared || 'void'}) {\n`;
  if (answer.kind === 'as') {
    const target = byName.get(answer.call)?.name;
    return `${head}  return ${target}(${parameters.map(([, argument]) => argument).join(', ')});\n}\n`;
  }
  if (needs === 'nothing') return `${head}  return ${result(call)};\n}\n`;
  const begin =
    needs === 'device'
      ? `  const struct shown_device *shown;\n  nvmlReturn_t result = shown_begin_device(device, &shown);\n`
      : `  nvmlReturn_t result = shown_begin();\n`;
  // What is not asked of the device itself is the same for all.
  const unused = needs === 'device' && answer.kind === 'value' ? '  (void)shown;\n' : '';
  const device = parameters[0]?.[1];
  const named =
    needs === 'device' && device !== 'device' ? begin.replace('(device,', `(${device},`) : begin;
  const others =
    answer.kind === 'hand'
      ? ''
      : parameters
          .slice(needs === 'device' ? 1 : 0, -1)
          .map(([, argument]) => `  (void)${argument};\n`)
          .join('');
  return `${head}${named}${unused}${others}  if (result) return result;
  result = ${result(call)};
  shown_end();
  return result;
}
`;
}

/** nvml/generated/nvml_entries.c */
export function emitNvmlEntries(facts: NvmlFacts, api: NvmlApi): string {
  const byName = new Map(api.calls.map((call) => [call.name, call]));
  const symbols = nvmlSymbols(facts);
  const unserved = (name: string, index: number) =>
    `NVML_EXPORT nvmlReturn_t unserved_${index}(void) __asm__("${name}");\n` +
    `nvmlReturn_t unserved_${index}(void) { return shown_unserved(${index}); }\n`;
  const entries = symbols.map((name, index) => {
    const call = byName.get(name);
    return call ? entry(call, byName) : unserved(name, index);
  });
  return `${banner('emit-nvml.ts', from)}
#include "nvml_calls.h"

#define NVML_EXPORT __attribute__((visibility("default")))

const char *const nvml_symbols[NVML_SYMBOL_COUNT] = {
${symbols.map((name) => `  "${name}",\n`).join('')}};

// One that is not served ignores its arguments, so one shape serves every prototype (SysV calling
// convention).
${entries.join('')}`;
}

const sourceText: Record<NvmlCall['source'], string> = {
  library: 'the library itself',
  session: "the process's session, else the monitor",
  monitor: 'the monitor',
  GPU: "the GPU server's own NVML or driver",
};

function answered({ answer, about, source }: NvmlCall): string {
  const always = answer.kind === 'value' ? `always ${answer.value}` : '';
  return [sourceText[source], always, about].filter(Boolean).join('; ');
}

/** docs/nvml-calls.md */
export function emitNvmlDocs(facts: NvmlFacts, api: NvmlApi): string {
  const symbols = nvmlSymbols(facts);
  const served = new Set(api.calls.map(({ name }) => name));
  const rows = [...api.calls]
    .sort((a, b) => (a.family === b.family ? 0 : a.family < b.family ? -1 : 1))
    .map((call) => `| \`${call.name}\` | ${call.family} | ${answered(call)} |`);
  const missing = symbols.filter((name) => !served.has(name));
  return `<!-- Generated by proto/generator/emit-nvml.ts from proto/facts and proto/api-nvml. Do not edit: run \`npm run generate\`. -->
# Calls of NVML served

${served.size} of ${symbols.length} entry points of \`libnvidia-ml.so.1\` are served ([how](nvml.md)). The others exist as symbols,
answer \`NVML_ERROR_NOT_SUPPORTED\`, are named once in the log and counted.

| call | family | answered from |
|---|---|---|
${rows.join('\n')}

## Not served

${missing.map((name) => `\`${name}\``).join(' ')}
`;
}
