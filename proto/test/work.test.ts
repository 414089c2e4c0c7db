// What starts work on the device is described so, and the executor reaches it through the gate only.
import { readFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { ApiError, readApi, readFamily } from '../generator/api.js';
import { readFacts } from '../generator/facts.js';
import { root } from '../generator/main.js';
import { knownToStart } from '../generator/work.js';

const facts = readFacts(path.join(root, 'proto/facts/cuda-13.5.json'));
const folder = path.join(root, 'proto/api');

t.test('names', (t) => {
  for (const [name, work] of [
    ['cuLaunchKernelEx', 'kernel'],
    ['cuLaunchCooperativeKernelMultiDevice', 'kernel'],
    ['cuLaunchHostFunc', undefined],
    ['cuGraphLaunch', 'kernel'],
    ['cuGraphCreate', undefined],
    ['cuMemcpy3DBatchAsync', 'copy'],
    ['cuMemsetD2D32Async', 'set'],
    ['cuMemAllocAsync', undefined],
  ] as const) {
    t.equal(knownToStart(name), work, name);
  }
  t.end();
});

t.test('everything served that is known to start work says so', (t) => {
  const { calls } = readApi(folder, facts);
  const starting = calls.filter((call) => knownToStart(call.name));
  t.ok(starting.length > 20);
  for (const call of starting) {
    const described = call.as ? calls.find((other) => other.name === call.as) : call;
    t.equal(described?.starts, knownToStart(call.name), call.name);
  }
  t.end();
});

t.test('a description that does not is refused', (t) => {
  const file = readFileSync(path.join(folder, 'execution.yaml'), 'utf8');
  // As somebody would who adds a call later.
  t.ok(readFamily('execution.yaml', file, facts));
  const memory = readFileSync(path.join(folder, 'memory.yaml'), 'utf8');
  t.match(memory, 'starts: set');
  const { calls } = readFamily('memory.yaml', memory.replaceAll('    starts: set\n', ''), facts);
  t.equal(calls.find((call) => call.name === 'cuMemsetD8Async')?.starts, undefined);
  t.throws(
    () =>
      readApi(
        t.testdir({
          'bad.yaml':
            'family: bad\ncalls:\n  cuMemsetD8Async: {class: posted, id: 1, parameters: {hStream: stream}}\n',
        }),
        facts,
      ),
    {
      constructor: ApiError,
      message: 'bad.yaml:3: cuMemsetD8Async needs `starts: set` (proto/generator/work.ts)',
    },
  );
  t.throws(
    () =>
      readApi(
        t.testdir({
          'bad.yaml':
            'family: bad\ncalls:\n  cuGraphLaunch: {class: posted, guest: hand, starts: kernel}\n',
        }),
        facts,
      ),
    {
      message: 'bad.yaml:3: cuGraphLaunch starts a kernel, and none of its commands does',
    },
  );
  t.end();
});

t.test('the executor has the functions that start work behind the gate', (t) => {
  const lists = (file: string) => {
    const text = readFileSync(path.join(root, file), 'utf8');
    return text.split('#define ').map((part) => ({
      name: part.slice(0, part.indexOf('(')),
      functions: [...part.matchAll(/X\((cu\w+)\)/g)].map((match) => match[1] ?? ''),
    }));
  };
  const all = [
    ...lists('api-server/generated/driver_symbols.h'),
    ...lists('api-server/generated/driver_calls.h'),
  ].filter((list) => list.functions.length > 0);
  t.equal(all.length, 12);
  for (const { name, functions } of all) {
    for (const each of functions) {
      t.equal(
        knownToStart(each) !== undefined,
        name.startsWith('OUTBOARD_WORK'),
        `${name} ${each}`,
      );
    }
  }
  t.end();
});
