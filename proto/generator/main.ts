// Writes every generated file from proto/facts, proto/api, proto/api-nvml and proto/api-cublas; with --verify, compares
// instead and exits 1 naming each file that differs.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Api, ApiError, readApi } from './api.js';
import {
  type CublasApi,
  type CublasFacts,
  readCublasApi,
  readCublasFacts,
  readCublasLtServed,
} from './cublas-api.js';
import { emitDriverSymbols, emitSymbolDocs, readSymbols } from './driver-symbols.js';
import {
  emitCublasDocs,
  emitCublasEntries,
  emitCublasHand,
  emitCublasLtEntries,
  emitCublasTable,
} from './emit-cublas.js';
import { type Callers, emitCoverage } from './emit-docs.js';
import {
  emitEntryCalls,
  emitEntryIndex,
  emitEntryPoints,
  emitResultNames,
} from './emit-entry-points.js';
import { emitFields } from './emit-fields.js';
import { emitGuestEntries, emitGuestHeader } from './emit-guest.js';
import { emitHeader } from './emit-header.js';
import { emitNvmlCalls, emitNvmlDocs, emitNvmlEntries, emitNvmlHeader } from './emit-nvml.js';
import {
  emitDispatch,
  emitDispatchHeader,
  emitDriverCalls,
  emitDriverVersions,
} from './emit-server.js';
import { emitWire } from './emit-wire.js';
import { type Facts, readFacts } from './facts.js';
import { emitIds, type Ids, readIds, recordIds } from './ids.js';
import { emitHindrances, emitMoving, type Moving, readMoving } from './moving.js';
import { type NvmlApi, type NvmlFacts, readNvmlApi, readNvmlFacts } from './nvml-api.js';

/** Repository root, from build/js/proto/generator/. */
export const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../../../..');

/** Every generated file, by its path in the repository. */
export function texts(
  facts: Facts,
  api: Api,
  recorded: Ids,
  moving: Moving,
  callers: Callers = {},
): Map<string, string> {
  return new Map([
    ['proto/api/ids.json', emitIds(recordIds(api, recorded))],
    ['driver-abi/generated/cuda_driver.h', emitHeader(facts)],
    ['driver-abi/generated/abi_index.h', emitEntryIndex(facts)],
    ['driver-abi/generated/entry_points.c', emitEntryPoints(facts)],
    ['driver-abi/generated/entry_calls.h', emitEntryCalls(facts)],
    ['driver-abi/generated/result_names.c', emitResultNames(facts)],
    ['proto/generated/wire_calls.h', emitWire(api)],
    ['proto/generated/wire_fields.h', emitFields(api)],
    // Names in the order of the guest's counters.
    [
      'proto/generated/calls.json',
      `${JSON.stringify(
        api.calls.map((c) => c.name),
        null,
        1,
      )}\n`,
    ],
    ['guest-lib/generated/guest_calls.h', emitGuestHeader(api)],
    ['guest-lib/generated/guest_entries.c', emitGuestEntries(api)],
    ['api-server/generated/dispatch.h', emitDispatchHeader(api)],
    ['api-server/generated/dispatch.cc', emitDispatch(api, moving)],
    ['api-server/generated/moving.h', emitMoving(moving)],
    ['api-server/generated/hindrances.ts', emitHindrances(moving)],
    ['api-server/generated/driver_calls.h', emitDriverCalls(api)],
    ['api-server/generated/driver_versions.h', emitDriverVersions(facts)],
    ['docs/coverage.md', emitCoverage(facts, api, callers)],
  ]);
}

/** Those of the second library. */
function nvmlTexts(facts: NvmlFacts, api: NvmlApi): Map<string, string> {
  return new Map([
    ['nvml/generated/nvml_api.h', emitNvmlHeader(facts)],
    ['nvml/generated/nvml_calls.h', emitNvmlCalls(facts, api)],
    ['nvml/generated/nvml_entries.c', emitNvmlEntries(facts, api)],
    ['docs/nvml-calls.md', emitNvmlDocs(facts, api)],
  ]);
}

/** Those of cuBLAS and cuBLASLt. */
function cublasTexts(facts: CublasFacts, api: CublasApi): Map<string, string> {
  const list = 'proto/api-cublaslt.yaml';
  const lt = readCublasLtServed(list, readFileSync(path.join(root, list), 'utf8'), facts);
  return new Map([
    ['proto/api-cublas/ids.json', emitIds(api.ids)],
    ['proto/generated/cublas_calls.h', emitCublasTable(api)],
    ['libraries/generated/cublas_hand.h', emitCublasHand(api)],
    ['libraries/generated/cublas_entries.c', emitCublasEntries(facts, api)],
    ['libraries/generated/cublaslt_entries.c', emitCublasLtEntries(facts, lt)],
    ['docs/cublas-calls.md', emitCublasDocs(facts, api, lt)],
  ]);
}

/** As recorded when the test programs were run. */
export function readCallers(): Callers {
  const file = path.join(root, 'test/costs/calls.tsv');
  const lines = existsSync(file) ? readFileSync(file, 'utf8').split('\n').filter(Boolean) : [];
  return Object.fromEntries(
    lines.map((line) => {
      const [call = '', programs = ''] = line.split('\t');
      return [call, programs.split(' ')];
    }),
  );
}

/** What the executor needs of the driver. */
function symbolTexts(facts: Facts, api: Api): Map<string, string> {
  const groups = readSymbols(path.join(root, 'proto/driver-symbols.yaml'), facts);
  return new Map([
    ['api-server/generated/driver_symbols.h', emitDriverSymbols(groups)],
    ['docs/driver-symbols.md', emitSymbolDocs(groups, facts, api)],
  ]);
}

function generate(): Map<string, string> {
  const facts = readFacts(path.join(root, 'proto/facts/cuda-13.5.json'));
  const folder = path.join(root, 'proto/api');
  const nvml = readNvmlFacts(path.join(root, 'proto/facts/nvml-13.5.json'));
  const cublas = readCublasFacts(path.join(root, 'proto/facts/cublas-13.json'));
  const api = readApi(folder, facts);
  const moving = readMoving(path.join(root, 'proto/moving.yaml'), api);
  return new Map([
    ...texts(facts, api, readIds(path.join(folder, 'ids.json')), moving, readCallers()),
    ...symbolTexts(facts, api),
    ...nvmlTexts(nvml, readNvmlApi(path.join(root, 'proto/api-nvml'), nvml)),
    ...cublasTexts(cublas, readCublasApi(path.join(root, 'proto/api-cublas'), cublas)),
  ]);
}

/** Files whose committed text is not what the generator writes now. */
export function stale(): string[] {
  const differing: string[] = [];
  for (const [file, text] of generate()) {
    const full = path.join(root, file);
    if (!existsSync(full) || readFileSync(full, 'utf8') !== text) differing.push(file);
  }
  return differing;
}

function main(): void {
  if (process.argv.includes('--verify')) {
    const differing = stale();
    for (const file of differing) console.error(`${file} is out of date: run npm run generate`);
    process.exitCode = differing.length ? 1 : 0;
    return;
  }
  for (const [file, text] of generate()) {
    const full = path.join(root, file);
    if (existsSync(full) && readFileSync(full, 'utf8') === text) continue;
    mkdirSync(path.dirname(full), { recursive: true });
    writeFileSync(full, text);
    console.log(`wrote ${file}`);
  }
}

if (process.argv[1] && path.resolve(process.argv[1]) === fileURLToPath(import.meta.url)) {
  try {
    main();
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    const folder = /^api-(nvml|cublas)\//.test(error.message) ? 'proto' : 'proto/api';
    console.error(`${folder}/${error.message}`);
    process.exitCode = 1;
  }
}
