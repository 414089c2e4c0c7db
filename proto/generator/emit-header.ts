// driver-abi/generated/cuda_driver.h: the driver API's types and prototypes under their ABI names,
// so that nothing of ours is compiled against a vendor's header.

import { banner } from './banner.js';
import type { Declaration, Facts, Field, RecordFacts } from './facts.js';

/** Constants the vendor gives as macros; values from the driver API reference. */
const constants: [string, string][] = [
  ['CU_STREAM_LEGACY', '((CUstream)0x1)'],
  ['CU_STREAM_PER_THREAD', '((CUstream)0x2)'],
  ['CU_LAUNCH_PARAM_END', '((void *)0x00)'],
  ['CU_LAUNCH_PARAM_BUFFER_POINTER', '((void *)0x01)'],
  ['CU_LAUNCH_PARAM_BUFFER_SIZE', '((void *)0x02)'],
  ['CU_MEMHOSTALLOC_PORTABLE', '0x01'],
  ['CU_MEMHOSTALLOC_DEVICEMAP', '0x02'],
  ['CU_MEMHOSTALLOC_WRITECOMBINED', '0x04'],
  ['CU_MEMHOSTREGISTER_PORTABLE', '0x01'],
  ['CU_MEMHOSTREGISTER_DEVICEMAP', '0x02'],
  ['CU_MEMHOSTREGISTER_IOMEMORY', '0x04'],
  ['CU_MEMHOSTREGISTER_READ_ONLY', '0x08'],
];

function fieldText(field: Field, indent: string): string {
  const dims = (field.dims ?? []).map((n) => `[${n}]`).join('');
  const bits = field.bits === undefined ? '' : ` : ${field.bits}`;
  if (field.record) {
    const body = recordBody(field.record, `${indent}  `);
    const tag = field.tag ? ` ${field.tag}` : '';
    return `${indent}${field.record.kind}${tag} {\n${body}${indent}}${field.name ? ` ${field.name}` : ''}${dims};\n`;
  }
  return `${indent}${declare(field.type ?? '', field.name)}${dims}${bits};\n`;
}

/** `type name` in C, for function-pointer types too. */
export function declare(type: string, name: string): string {
  const pointer = type.match(/^(.*)\(\*\)(\(.*\))$/);
  if (pointer) return `${pointer[1]}(*${name})${pointer[2]}`;
  return type.endsWith('*') ? `${type}${name}` : `${type} ${name}`;
}

function recordBody(record: RecordFacts, indent: string): string {
  return record.fields.map((f) => fieldText(f, indent)).join('');
}

function enumBody(values: [string, number][]): string {
  return values.map(([name, value]) => `  ${name} = ${value},\n`).join('');
}

/** Types in C, in the order of the header that they come from. */
export function declarationsText(declarations: Declaration[]): string {
  const typedefs = new Set(declarations.map((d) => d.typedef).filter(Boolean) as string[]);
  const enumTypedefs = new Set(
    declarations.filter((d) => d.enum && typedefs.has(d.enum)).map((d) => d.enum as string),
  );
  return declarations.map((d) => declarationText(d, enumTypedefs)).join('');
}

function declarationText(d: Declaration, enumTypedefs: Set<string>): string {
  if (d.forward) return `${d.kind} ${d.forward};\n`;
  if (d.enum !== undefined) {
    if (d.values === undefined) return '';
    if (enumTypedefs.has(d.enum)) return `typedef enum {\n${enumBody(d.values)}} ${d.enum};\n`;
    return `enum ${d.enum} {\n${enumBody(d.values)}};\n`;
  }
  if (d.record) {
    return `${d.kind} ${d.record} {\n${recordBody(d as RecordFacts, '  ')}};\n`;
  }
  if (!d.typedef || enumTypedefs.has(d.typedef)) return '';
  if (d.function) {
    return `typedef ${d.function.returns} (*${d.typedef})(${d.function.parameters.join(', ') || 'void'});\n`;
  }
  if (d.fields) {
    return `typedef ${d.kind} {\n${recordBody(d as RecordFacts, '  ')}} ${d.typedef};\n`;
  }
  if (d.values) return `typedef enum {\n${enumBody(d.values)}} ${d.typedef};\n`;
  return `typedef ${declare(d.type ?? 'int', d.typedef)};\n`;
}

/** `check`: a static assertion, of a condition and what it is about. */
export function layoutChecks(declarations: Declaration[], check: string): string {
  let text = '';
  for (const d of declarations) {
    const name = d.record ? `${d.kind} ${d.record}` : d.fields ? d.typedef : undefined;
    if (!name || !d.fields) continue;
    text += `${check}(sizeof(${name}) == ${d.size}, "${name}");\n`;
    for (const f of d.fields) {
      if (!f.name || f.offset === null || f.bits !== undefined) continue;
      text += `${check}(offsetof(${name}, ${f.name}) == ${f.offset}, "${name}.${f.name}");\n`;
    }
  }
  return text;
}

/** Functions whose header needs GL, EGL or VDPAU have no prototype here: only their names are known. */
function prototypes(facts: Facts): string {
  let text = '';
  for (const [abi, f] of Object.entries(facts.functions)) {
    if (!f.parameters) continue;
    const parameters = f.parameters.map(([type, name]) => declare(type, name)).join(', ') || 'void';
    text += `${f.returns} ${abi}(${parameters}) CUDA_DRIVER_SYMBOL(${abi});\n`;
  }
  return text;
}

export function emitHeader(facts: Facts): string {
  return `${banner('emit-header.ts', 'proto/facts')}
#ifndef CUDA_DRIVER_H
#define CUDA_DRIVER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#define CUDA_DRIVER_CHECK(condition, what) static_assert(condition, what)
#else
#define CUDA_DRIVER_CHECK(condition, what) _Static_assert(condition, what)
#endif

// A library whose exported calls are not themselves the implementations defines a prefix for the
// symbols of the latter.
#ifdef CUDA_DRIVER_PREFIX
#define CUDA_DRIVER_SYMBOL(name) __asm__(CUDA_DRIVER_PREFIX #name)
#else
#define CUDA_DRIVER_SYMBOL(name)
#endif

#define CUDA_DRIVER_VERSION ${facts.version}

${declarationsText(facts.declarations)}
${constants.map(([name, value]) => `#define ${name} ${value}`).join('\n')}

// Every layout as the vendor's compiler saw it.
${layoutChecks(facts.declarations, 'CUDA_DRIVER_CHECK')}
#pragma GCC visibility push(default)
${prototypes(facts)}#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif
#endif
`;
}
