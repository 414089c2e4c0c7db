// The traces of Azure: what each format says, and what becomes of holes, of what is said twice, and of nonsense.
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { gzipSync } from 'node:zlib';
import t, { type Test } from 'tap';
import { runScenario } from '../scenario/run.js';
import { parseScenario } from '../scenario/scenario.js';
import { type AzureFormat, type AzureOptions, readAzure } from '../traces/azure.js';
import { linesOf } from '../traces/lines.js';

const usual: AzureOptions = {
  ...{ durations: null, seconds: 2, functions: 10_000, tokens: { context: 1000, generated: 10 } },
};

function read(
  t: Test,
  format: AzureFormat,
  text: string,
  options: Partial<AzureOptions> = {},
  folder = t.testdir(),
) {
  const file = path.join(folder, 'trace.csv');
  writeFileSync(file, text);
  const { at, which, seconds, functions, faults } = readAzure(format, file, {
    ...usual,
    ...options,
  });
  const calls = [...at].map((one, index) => [one, functions[which[index] ?? -1], seconds[index]]);
  return { calls, functions, faults };
}

const head2019 = ['HashOwner,HashApp,HashFunction,Trigger'];
const minutes = (...counts: (number | string)[]) =>
  Array.from({ length: 1440 }, (_, minute) => counts[minute] ?? 0).join(',');
const titles2019 = `${head2019},${Array.from({ length: 1440 }, (_, minute) => minute + 1).join(',')}`;

t.test('functions of 2019: counts by minute, spread over it', async (t) => {
  const text = [
    titles2019,
    `o,a,f,http,${minutes(2, 0, 1)}`,
    `o,a,f,queue,${minutes(0, 1)}`,
    `o,a,g,http,${minutes(1)}`,
    '',
  ].join('\r\n');
  const { calls, functions, faults } = read(t, 'azure-functions-2019', text);
  t.same(functions, ['o/a/f', 'o/a/g']);
  // From the first on, which was 15 seconds into the first minute.
  t.same(calls, [
    [0, 'o/a/f', 2],
    [15, 'o/a/g', 2],
    [30, 'o/a/f', 2],
    [75, 'o/a/f', 2],
    [135, 'o/a/f', 2],
  ]);
  t.same(faults, { twice: 0, unreadable: 0, holes: 0, untimed: 0, others: 0, silence: 60 });
});

t.test('holes, what is said twice, and functions without a duration', async (t) => {
  const folder = t.testdir();
  const durations = path.join(folder, 'durations.csv');
  writeFileSync(
    durations,
    [
      'HashOwner,HashApp,HashFunction,Average,Count',
      'o,a,f,500,9',
      'o,a,f,900,9',
      'o,a,h,much,9',
      'o,a,i,3000,1',
      'o,a,j,4000,1',
    ].join('\n'),
  );
  const line = `o,a,f,http,${minutes(1, '', 'x', -1, 1.5)}`;
  const text = [titles2019, line, line, `o,a,g,http,1,1`, `,a,b,http,${minutes(1)}`].join('\n');
  const { calls, faults } = read(t, 'azure-functions-2019', text, { durations }, folder);
  t.same(calls, [
    [0, 'o/a/f', 0.5],
    [0, 'o/a/g', 3],
    [60, 'o/a/g', 3],
  ]);
  // Of f four cells, of g all that its line has not; of f a line and a duration.
  t.match(faults, { holes: 4 + 1438, twice: 2, unreadable: 2, untimed: 1 });
});

t.test('functions of 2021: each call, by when it began', async (t) => {
  const text = [
    'app,func,end_timestamp,duration',
    'a,f,10.5,0.5',
    'a,g,9,3',
    'a,f,10.5,0.5',
    'a,f,11,-1',
    'a,f,,1',
    'a,f',
    'b,f,2,5',
    'c,f,13,1',
  ].join('\n');
  const { calls, functions, faults } = read(t, 'azure-functions-2021', text, { functions: 3 });
  t.same(calls, [
    [0, 'b/f', 5],
    [6, 'a/g', 3],
    [10, 'a/f', 0.5],
  ]);
  t.same(functions, ['a/f', 'a/g', 'b/f']);
  t.match(faults, { twice: 1, unreadable: 3, others: 1, silence: 6 });
});

t.test('requests to language models: by their tokens', async (t) => {
  const text = [
    '\uFEFFTIMESTAMP,ContextTokens,GeneratedTokens',
    '2023-11-16 18:17:04.5000000,2000,10',
    '2023-11-16 18:17:03.2500000,500,20',
    '2023-11-16 18:17:04.5000000,2000,10',
    '2024-05-10 00:00:00.009930+00:00,0,0',
    'yesterday,1,1',
    '2023-11-16 18:17:09,1,',
  ].join('\n');
  const { calls, faults } = read(t, 'azure-llm', text);
  t.same(calls.slice(0, 2), [
    [0, 'llm', 2.5],
    [1.25, 'llm', 3],
  ]);
  t.equal(calls.length, 3);
  t.match(faults, { twice: 1, unreadable: 2 });
});

t.test('files that are none are refused, and named', async (t) => {
  const refuses = (format: AzureFormat, text: string, message: RegExp, more = {}) =>
    t.throws(() => read(t, format, text, more), message);
  refuses('azure-functions-2021', 'app,func\na,b', /trace\.csv: no column end_timestamp, duration/);
  refuses('azure-functions-2019', `${head2019}\n`, /trace\.csv: no column 1/);
  refuses('azure-llm', 'a,b', /trace\.csv: no column TIMESTAMP, ContextTokens, GeneratedTokens/);
  refuses('azure-functions-2021', 'app,func,end_timestamp,duration\n', /nobody comes in it/);
  const missing = /ENOENT.*none\.csv/;
  t.throws(() => readAzure('azure-llm', '/nowhere/none.csv', usual), missing);
  const huge = [titles2019, `o,a,f,http,${minutes(60_000_000)}`].join('\n');
  refuses('azure-functions-2019', huge, /more than 20000000 calls in the trace: take fewer/);
  const file = path.join(t.testdir(), 'binary');
  writeFileSync(file, Buffer.alloc(3 << 20, 'x'));
  t.throws(() => [...linesOf(file)], /binary: a line is longer than 1048576 bytes/);
});

t.test('lines across parts of a file, and of one that is compressed', async (t) => {
  const lines = Array.from({ length: 40_000 }, (_, index) => `${index} ${'ü'.repeat(index % 50)}`);
  const [plain, packed] = ['a.csv', 'a.csv.gz'].map((name) => path.join(t.testdir(), name));
  writeFileSync(plain ?? '', lines.join('\n'));
  writeFileSync(packed ?? '', gzipSync(`${lines.join('\r\n')}\r\n`));
  t.same([...linesOf(plain ?? '')], lines);
  t.same([...linesOf(packed ?? '')], lines);
});

t.test('a scenario of a trace: each call is a session', async (t) => {
  const folder = t.testdir();
  const file = path.join(folder, 't.csv');
  const rows = Array.from({ length: 50 }, (_, index) => `a,f${index % 3},${10 + index},4`);
  writeFileSync(file, ['app,func,end_timestamp,duration', ...rows, rows[0]].join('\n'));
  const text = [
    'gpus: { count: 1, memory: 16GiB, slots: 2 }',
    'placement: [worst-fit]',
    'trace: { format: azure-functions-2021, file: t.csv, memory: 4GiB, class: best-effort }',
  ].join('\n');
  const { rows: ran, notes } = runScenario(parseScenario(text, path.join(folder, 's.yaml')));
  t.match(ran, [{ arrived: 50, done: 50 }]);
  t.match(notes, [/^50 calls of 3 functions/, /^1 lines say what another line said/]);
  // Two of four seconds at a time, and one comes each second.
  t.ok((ran[0]?.wait.max ?? 0) > 40);
  const wrong: [string, RegExp][] = [
    [
      '{ format: azure, file: x }',
      /trace\.format is "azure": expected one of azure-functions-2019/,
    ],
    ['{ format: azure-llm, file: x }', /trace\.contextTokensPerSecond is missing/],
    ['{ format: azure-functions-2019, file: x }', /trace\.seconds is missing/],
    ['{ format: azure-functions-2021 }', /trace\.file is missing/],
    ['{ format: azure-functions-2021, file: x, rate: 1 }', /trace\.rate is unknown/],
  ];
  for (const [trace, message] of wrong) {
    const given = text.replace(/trace: .*/, `trace: ${trace}`);
    t.throws(() => parseScenario(given, 's.yaml'), message);
  }
});
