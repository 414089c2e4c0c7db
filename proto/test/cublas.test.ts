// Descriptions of cuBLAS's calls that are wrong are refused, with file and line and words that help;
// and what the true ones come to.
import { readFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { ApiError } from '../generator/api.js';
import {
  type CublasFacts,
  expand,
  isPointer,
  numberCalls,
  readCublasApi,
  readCublasFacts,
  readCublasFamily,
  readCublasLtServed,
} from '../generator/cublas-api.js';
import { cublasSymbols, emitCublasEntries, emitCublasLtEntries } from '../generator/emit-cublas.js';
import { root } from '../generator/main.js';

const handle: [string, string] = ['cublasHandle_t', 'handle'];
const tiny: CublasFacts = {
  statuses: { CUBLAS_STATUS_SUCCESS: 0 },
  libraries: { 'libcublas.so.13': ['cublasStiny', 'cublasStiny_64', 'cublasTinyEx'] },
  functions: {
    cublasStiny: {
      returns: 'cublasStatus_t',
      parameters: [
        handle,
        ['int', 'n'],
        ['const float *', 'alpha'],
        ['float *', 'x'],
        ['int', 'incx'],
      ],
    },
    cublasStiny_64: {
      returns: 'cublasStatus_t',
      parameters: [
        handle,
        ['int64_t', 'n'],
        ['const float *', 'alpha'],
        ['float *', 'x'],
        ['int64_t', 'incx'],
      ],
    },
    cublasTinyEx: {
      returns: 'cublasStatus_t',
      parameters: [handle, ['int', 'n'], ['void *', 'x'], ['cudaDataType', 'xType']],
    },
  },
};
const read = (...calls: string[]) =>
  readCublasFamily(
    'bad.yaml',
    ['family: tiny', 'calls:', ...calls.map((call) => `  ${call}`)].join('\n'),
    tiny,
  );

const bad: [call: string, says: string][] = [
  ['cublasStiny: {', 'bad.yaml:3: '],
  ['cublasTiny: {}', 'bad.yaml:3: cublasTiny is no function of cuBLAS'],
  ['cublasStiny:', 'bad.yaml:3: cublasStiny: must be a mapping'],
  ['cublasStiny: {alpha: scalar}', 'cublasStiny: what x points to is not said'],
  ['cublasStiny: {beta: scalar}', 'cublasStiny: has no parameter beta'],
  ['cublasStiny: {n: scalar}', 'cublasStiny: n is no pointer'],
  ['cublasStiny: {alpha: number}', '`number` is nothing that a pointer points to'],
  ['cublasStiny: {alpha: scalar 6}', 'a count of 1 to 5'],
  ['cublasStiny: {alpha: scalar, x: vector m incx}', 'has no parameter m'],
  ['cublasStiny: {alpha: scalar, x: vector alpha incx}', 'alpha is no number'],
  ['cublasStiny: {alpha: scalar, x: vector}', 'a length is missing in `vector`'],
  ['cublasStiny: {alpha: scalar, x: vector n|incx incx}', 'a choice of two and `by` belong'],
  ['cublasStiny: {alpha: scalar, x: vector n incx of n}', 'has a type of its own'],
  ['cublasStiny: {alpha: scalar, x: vector n incx as n}', '`as` is not known'],
  ['cublasTinyEx: {x: scalar}', 'what an element of void * is is not said'],
  ['cublasTinyEx: {hand: maybe}', 'hand must be local or travels'],
];

t.test('a wrong description is refused with its line', async (t) => {
  for (const [call, says] of bad) {
    t.throws(() => read(call), { constructor: ApiError, message: says }, call);
  }
});

t.test('a description is said once of a function and its _64', async (t) => {
  const calls = read('cublas{S}tiny: {alpha: scalar, x: vector n incx}');
  t.same(
    calls.map(({ name }) => name),
    ['cublasStiny', 'cublasStiny_64'],
  );
  const [n, alpha, x] = calls[0]?.arguments ?? [];
  t.match(n, { kind: 'value' });
  t.match(alpha, { kind: 'scalar', element: 4, count: 1 });
  t.match(x, { kind: 'vector', element: 4, rows: [{ first: 0, second: -1, plus: 0 }], step: 3 });
  t.same(expand('a{b,c}d{e,f}'), ['abde', 'abdf', 'acde', 'acdf']);
});

t.test('a number on the wire is never given to another function', async (t) => {
  const calls = read('cublasStiny: {alpha: scalar, x: vector n incx}');
  t.same(numberCalls(calls, {}), { cublasStiny: 0, cublasStiny_64: 1 });
  t.same(numberCalls(calls, { cublasStiny_64: 0 }), { cublasStiny_64: 0, cublasStiny: 1 });
  t.throws(() => numberCalls(calls, { cublasGone: 0 }), {
    message: /cublasGone is described no more/,
  });
});

const facts = readCublasFacts(path.join(root, 'proto/facts/cublas-13.json'));
const api = readCublasApi(path.join(root, 'proto/api-cublas'), facts);

t.test('every pointer of a function that is served is described', async (t) => {
  const travelling = api.calls.filter(({ hand }) => hand === 'no');
  t.ok(travelling.length > 400, `${travelling.length} functions travel`);
  for (const { name, parameters, arguments: all } of travelling) {
    const own = parameters.filter(([type]) => type !== 'cublasHandle_t');
    t.equal(all.length, own.length, name);
    own.forEach(([type], index) => {
      if (isPointer(type)) t.not(all[index]?.kind, 'value', name);
    });
  }
});

t.test('every function that the libraries export is an entry point', async (t) => {
  const symbols = cublasSymbols(facts, 'cublas');
  const text = emitCublasEntries(facts, api);
  const entries = symbols.filter(
    (name) => text.includes(` ${name}(`) || text.includes(`*${name}(`),
  );
  const unserved = symbols.filter((name) => text.includes(`__asm__("${name}")`));
  t.same([...entries, ...unserved].sort(), symbols);
  t.same(
    entries,
    api.calls.map(({ name }) => name),
  );
});

t.test('cuBLASLt has what is served by hand, and the rest as entry points', async (t) => {
  const file = 'api-cublaslt.yaml';
  const served = readCublasLtServed(
    file,
    readFileSync(path.join(root, 'proto', file), 'utf8'),
    facts,
  );
  const symbols = cublasSymbols(facts, 'lt');
  const text = emitCublasLtEntries(facts, served);
  const unserved = symbols.filter((name) => text.includes(`__asm__("${name}")`));
  t.same([...served, ...unserved].sort(), symbols);
  t.throws(() => readCublasLtServed(file, 'served: [cublasLtGone]', facts), {
    message: /api-cublaslt.yaml: cublasLtGone is no function of cuBLASLt/,
  });
  t.throws(() => readCublasLtServed(file, 'cublasLtMatmul', facts), { message: /must be a list/ });
});
