// The contract itself: ids for good, look-ups that programs rely on, commands that are really sent.
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { readApi } from '../generator/api.js';
import { type Lookup, readFacts } from '../generator/facts.js';
import { readIds, recordIds } from '../generator/ids.js';
import { root } from '../generator/main.js';

const folder = path.join(root, 'proto', 'api');
const facts = readFacts(path.join(root, 'proto', 'facts', 'cuda-13.5.json'));
const api = readApi(folder, facts);

t.test('the ids of the first release, which nothing may change', async (t) => {
  const recorded = readIds(path.join(folder, 'ids.json'));
  t.same(recordIds(api, recorded), recorded, 'every id is recorded: npm run generate');
  t.equal(
    new Set(Object.values(recorded)).size,
    Object.keys(recorded).length,
    'none is used twice',
  );
  // A copy apart, so that one careless edit of ids.json does not go unseen.
  t.match(recorded, {
    cuCtxSynchronize: 2,
    cuStreamCreateWithPriority: 10,
    cuStreamSynchronize: 13,
    cuEventRecord: 22,
    cuMemcpyDtoDAsync_v2: 30,
    cuMemsetD2D32Async: 36,
    cuFuncGetAttribute: 40,
    MemoryMap: 1000,
    MemoryUnmap: 1001,
    Upload: 1002,
    Download: 1003,
    Copy2D: 1004,
    ModulePiece: 1010,
    ModuleLoad: 1011,
    FunctionGet: 1014,
    Launch: 1020,
    ContextReset: 1030,
  });
});

/** As cuGetProcAddress: the newest not newer than asked, per-thread variant first where wanted. */
function lookUp(name: string, version: number, perThread = false): string | undefined {
  const newest = (suffixed: boolean) =>
    facts.lookups
      .filter(([n, v, suffix]) => n === name && v <= version && (suffix !== '') === suffixed)
      .sort((a, b) => b[1] - a[1])[0]?.[3];
  return (perThread ? newest(true) : undefined) ?? newest(false);
}

t.test('names that mean different entry points by version and default stream', async (t) => {
  const rows: [name: string, version: number, perThread: boolean, entry: string | undefined][] = [
    ['cuInit', 2000, false, 'cuInit'],
    ['cuInit', 13000, true, 'cuInit'],
    ['cuInit', 1000, false, undefined],
    ['cuNoSuchCall', 13000, false, undefined],
    ['cuGetProcAddress', 11030, false, 'cuGetProcAddress'],
    ['cuGetProcAddress', 12000, false, 'cuGetProcAddress_v2'],
    ['cuMemAlloc', 2000, false, 'cuMemAlloc'],
    ['cuMemAlloc', 3020, false, 'cuMemAlloc_v2'],
    ['cuMemcpyHtoD', 2000, false, 'cuMemcpyHtoD'],
    ['cuMemcpyHtoD', 3020, false, 'cuMemcpyHtoD_v2'],
    ['cuMemcpyHtoD', 7000, false, 'cuMemcpyHtoD_v2'],
    ['cuMemcpyHtoD', 7000, true, 'cuMemcpyHtoD_v2_ptds'],
    ['cuMemcpy2DUnaligned', 3020, false, 'cuMemcpy2DUnaligned_v2'],
    ['cuLaunchKernel', 4000, false, 'cuLaunchKernel'],
    ['cuLaunchKernel', 7000, true, 'cuLaunchKernel_ptsz'],
    ['cuCtxGetDevice', 2000, false, 'cuCtxGetDevice'],
    ['cuCtxGetDevice', 13000, false, 'cuCtxGetDevice_v2'],
    ['cuCtxSynchronize', 2000, false, 'cuCtxSynchronize'],
    ['cuCtxSynchronize', 12090, false, 'cuCtxSynchronize'],
    ['cuCtxSynchronize', 13000, false, 'cuCtxSynchronize_v2'],
    ['cuCtxCreate', 3020, false, 'cuCtxCreate_v2'],
    ['cuCtxCreate', 11040, false, 'cuCtxCreate_v3'],
    ['cuCtxCreate', 13000, false, 'cuCtxCreate_v4'],
    // cudart asks at 7000, and gets the one without a suffix.
    ['cuDevicePrimaryCtxRelease', 7000, false, 'cuDevicePrimaryCtxRelease'],
    ['cuDevicePrimaryCtxRelease', 11000, false, 'cuDevicePrimaryCtxRelease_v2'],
    ['cuDeviceGetUuid', 9020, false, 'cuDeviceGetUuid'],
    ['cuDeviceGetUuid', 11040, false, 'cuDeviceGetUuid_v2'],
    ['cuDeviceTotalMem', 3020, false, 'cuDeviceTotalMem_v2'],
    ['cuEventElapsedTime', 2000, false, 'cuEventElapsedTime'],
    ['cuEventElapsedTime', 12080, false, 'cuEventElapsedTime_v2'],
    ['cuStreamDestroy', 2000, false, 'cuStreamDestroy'],
    ['cuStreamDestroy', 4000, false, 'cuStreamDestroy_v2'],
    ['cuStreamGetCaptureInfo', 10010, false, 'cuStreamGetCaptureInfo'],
    ['cuStreamGetCaptureInfo', 11030, true, 'cuStreamGetCaptureInfo_v2_ptsz'],
    ['cuStreamGetCaptureInfo', 12030, true, 'cuStreamGetCaptureInfo_v3_ptsz'],
    ['cuMemPrefetchAsync', 8000, false, 'cuMemPrefetchAsync'],
    ['cuMemPrefetchAsync', 13000, true, 'cuMemPrefetchAsync_v2_ptsz'],
    ['cuMemcpyBatchAsync', 12080, false, 'cuMemcpyBatchAsync'],
    ['cuMemcpyBatchAsync', 13000, false, 'cuMemcpyBatchAsync_v2'],
    ['cuLaunchHostFunc', 13000, true, 'cuLaunchHostFunc_ptsz'],
    ['cuLaunchHostFunc', 13010, false, 'cuLaunchHostFunc_v2'],
    ['cuLaunchHostFunc', 13010, true, 'cuLaunchHostFunc_v2_ptsz'],
    ['cuGraphAddNode', 13030, false, 'cuGraphAddNode_v2'],
    ['cuGraphAddNode', 13040, false, 'cuGraphAddNode_v3'],
    ['cuGraphNodeSetParams', 13030, false, 'cuGraphNodeSetParams'],
    ['cuGraphNodeSetParams', 13040, false, 'cuGraphNodeSetParams_v2'],
    ['cuFuncGetParamCount', 13010, false, undefined],
    ['cuFuncGetParamCount', 13020, false, 'cuFuncGetParamCount'],
    ['cuFabricCpyBatchAsync', 13040, false, undefined],
    ['cuFabricCpyBatchAsync', 13050, true, 'cuFabricCpyBatchAsync_ptsz'],
    ['cuStreamBatchMemOp', 11070, true, 'cuStreamBatchMemOp_v2_ptsz'],
    ['cuIpcOpenMemHandle', 4010, false, 'cuIpcOpenMemHandle'],
    ['cuIpcOpenMemHandle', 11000, false, 'cuIpcOpenMemHandle_v2'],
  ];
  for (const [name, version, perThread, entry] of rows) {
    t.equal(lookUp(name, version, perThread), entry, `${name} at ${version}`);
  }
});

t.test('the facts fit together', async (t) => {
  const entries = new Set(Object.keys(facts.functions));
  t.ok(entries.size > 720);
  for (const [name, , suffix, entry] of facts.lookups) {
    t.ok(entries.has(entry), `${name} leads to an entry point`);
    t.ok(entry.startsWith(name) && entry.endsWith(suffix), `${name} leads to ${entry}`);
  }
  const reachable = new Set(facts.lookups.map(([, , , entry]) => entry));
  t.same(
    [...entries].filter((entry) => !reachable.has(entry)),
    [],
    'each can be looked up',
  );
});

t.test('of what is served the newest version is served', async (t) => {
  const served = new Set(
    api.calls.flatMap(({ name, variants }) => [name, ...variants.map((suffix) => name + suffix)]),
  );
  const newest = ([name]: Lookup) => lookUp(name, Number.MAX_SAFE_INTEGER) ?? '';
  t.same(
    facts.lookups.filter((row) => served.has(row[3]) && !served.has(newest(row))),
    [],
  );
});

t.test('what a program cannot do without is served', async (t) => {
  const served = new Set(api.calls.map(({ name }) => name));
  // The calls of vectorAdd, as cudart 13 makes them.
  const vectorAdd = `cuInit cuDriverGetVersion cuGetProcAddress_v2 cuGetExportTable
    cuModuleGetLoadingMode cuDeviceGet cuDeviceGetCount cuDeviceGetName cuDeviceGetUuid
    cuDeviceTotalMem_v2 cuDeviceGetAttribute cuDevicePrimaryCtxRetain cuDevicePrimaryCtxRelease
    cuCtxGetCurrent cuCtxSetCurrent cuCtxGetDevice_v2 cuMemAlloc_v2 cuMemFree_v2 cuMemcpyHtoD_v2
    cuMemcpyDtoH_v2 cuLibraryLoadData cuLibraryGetKernel cuLibraryUnload cuLaunchKernel`;
  t.same(
    vectorAdd.split(/\s+/).filter((name) => !served.has(name)),
    [],
  );
});

t.test('every command is sent by the guest, and `uses` tells by what', async (t) => {
  const sources = path.join(root, 'guest-lib', 'src');
  const code = readdirSync(sources, { encoding: 'utf8', recursive: true })
    .filter((name) => name.endsWith('.c'))
    .map((name) => readFileSync(path.join(sources, name), 'utf8'))
    .join('\n');
  const sentByHand = (name: string) => new RegExp(`\\b(put_|ask_|WIRE_)${name}\\b`).test(code);
  const generated = new Set(
    api.calls.filter(({ guest }) => guest === 'generated').map(({ name, as }) => as ?? name),
  );
  const used = new Set(api.calls.flatMap(({ uses }) => uses));
  // Of guests before these had successors: the server still understands them.
  const earlier = new Set([
    'cuCtxSetLimit',
    'cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags',
    'ModuleLoad',
    // Of one process of a server to another, with a session that moves.
    ...['ModuleExpect', 'MoveState', 'MoveCommit'],
  ]);
  // Of no call in particular: what bench/ablation sends behind any, what is asked near the limit of
  // memory and where a page is touched, and what goes to a stream that fills.
  const unprompted = new Set(['Echo', 'MemoryRoom', 'PagesFetch', 'PagesChanged', 'StreamMark']);
  // What a program says that ends.
  unprompted.add('Goodbye');
  // Of functions of libraries (api-cublas), not of the driver's.
  for (const name of ['LibraryCall', 'LibraryAsk', 'LibraryUnserved']) unprompted.add(name);
  for (const { name, call } of api.commands) {
    t.not(generated.has(name) || sentByHand(name), earlier.has(name), `${name} is sent`);
    if (earlier.has(name)) continue;
    if (!call && !unprompted.has(name))
      t.ok(used.has(name), `${name} is in the \`uses\` of a call`);
  }
  for (const name of used) {
    t.ok(sentByHand(name) || generated.has(name), `${name} is used as \`uses\` says`);
  }
});
