// Descriptions that are wrong are refused, with file and line and words that help.
import path from 'node:path';
import t from 'tap';
import { type Api, ApiError, readFamily } from '../generator/api.js';
import { readFacts } from '../generator/facts.js';
import { recordIds } from '../generator/ids.js';
import { texts } from '../generator/main.js';
import { data } from './golden.js';

const facts = readFacts(path.join(data, 'facts.json'));

function read(text: string): Api {
  return readFamily('bad.yaml', text, facts);
}

const nothingMoves = { hindrances: [], of: new Map(), kinds: [] };
const lines = (...all: string[]) => all.join('\n');
const tiny = 'family: tiny';

const bad: { name: string; text: string; says: string }[] = [
  { name: 'no YAML', text: lines(tiny, 'calls: {'), says: 'bad.yaml:2: ' },
  { name: 'nothing', text: '', says: 'bad.yaml:1: a family must be a mapping' },
  { name: 'a list', text: '- a', says: 'bad.yaml:1: a family must be a mapping' },
  { name: 'no family', text: 'calls: {}', says: 'bad.yaml:1: a family needs a name' },
  {
    name: 'an unknown key',
    text: lines(tiny, 'needs: init', 'call: {}'),
    says: 'bad.yaml:3: unknown key call',
  },
  {
    name: 'an unknown need',
    text: lines(tiny, 'needs: everything'),
    says: 'bad.yaml:2: family: needs must be nothing or init or object or stream or context',
  },
  {
    name: 'the same call twice in a file',
    text: lines(tiny, 'calls:', '  cuTinyInit: {class: local}', '  cuTinyInit: {class: local}'),
    says: 'bad.yaml:4: ',
  },
  {
    name: 'a call without a description',
    text: lines(tiny, 'calls:', '  cuTinyInit:'),
    says: 'bad.yaml:3: cuTinyInit must be a mapping',
  },
  {
    name: 'a call that the driver does not have',
    text: lines(tiny, 'calls:', '  cuTinyInti: {class: local}'),
    says: 'bad.yaml:3: cuTinyInti is not an entry point of the driver',
  },
  {
    name: 'a call without a class',
    text: lines(tiny, 'calls:', '', '  cuTinyInit: {status: []}'),
    says: 'bad.yaml:4: cuTinyInit: class must be one of local, posted, deferred, round-trip',
  },
  {
    name: 'an unknown key of a call',
    text: lines(tiny, 'calls:', '  cuTinyInit:', '    class: local', '    sync: true'),
    says: 'bad.yaml:5: cuTinyInit: unknown key sync',
  },
  {
    name: 'a parameter that is not there',
    text: lines(
      tiny,
      'calls:',
      '  cuTinyClose:',
      '    class: posted',
      '    id: 1',
      '    parameters:',
      '      stream: stream',
    ),
    says: 'bad.yaml:7: cuTinyClose has no parameter stream',
  },
  {
    name: 'an unknown role',
    text: lines(
      tiny,
      'calls:',
      '  cuTinyClose: {class: posted, id: 1, parameters: {hStream: strm}}',
    ),
    says: 'bad.yaml:3: cuTinyClose.hStream: unknown role strm',
  },
  {
    name: 'a role without its kind',
    text: lines(
      tiny,
      'calls:',
      '  cuTinyClose: {class: posted, id: 1, parameters: {hStream: mint}}',
    ),
    says: 'bad.yaml:3: cuTinyClose.hStream: unknown role mint',
  },
  {
    name: 'an unknown status',
    text: lines(tiny, 'calls:', '  cuTinyInit: {class: local, status: [OUT_OF_LUCK]}'),
    says: 'bad.yaml:3: cuTinyInit: there is no CUDA_ERROR_OUT_OF_LUCK',
  },
  {
    name: 'a status that is no list',
    text: lines(tiny, 'calls:', '  cuTinyInit: {class: local, status: INVALID_VALUE}'),
    says: 'bad.yaml:3: cuTinyInit: status must be a list of names',
  },
  {
    name: 'a prototype that is not known',
    text: lines(tiny, 'calls:', '  cuTinyForeign: {class: local}'),
    says: 'bad.yaml:3: cuTinyForeign: the header gave no prototype; say `prototype: void`',
  },
  {
    name: 'nothing to send',
    text: lines(tiny, 'calls:', '  cuTinyClose: {class: posted}'),
    says: 'bad.yaml:3: cuTinyClose: needs an id, `as` or `guest: hand`',
  },
  {
    name: 'an unknown hand',
    text: lines(tiny, 'calls:', '  cuTinyInit: {class: local, guest: foot}'),
    says: 'bad.yaml:3: cuTinyInit: guest must be hand',
  },
  ...['0', '32768', '1.5', 'seven', '-1'].map((id) => ({
    name: `id ${id}`,
    text: lines(tiny, 'calls:', '  cuTinyClose:', '    class: posted', `    id: ${id}`),
    says: 'bad.yaml:5: cuTinyClose: an id is a number from 1 to 32767',
  })),
  {
    name: '`with` alone',
    text: lines(tiny, 'calls:', '  cuTinyInit: {class: local, with: {Flags: 0}}'),
    says: 'bad.yaml:3: cuTinyInit: `with` without `as`',
  },
  {
    name: 'a command without an id',
    text: lines(tiny, 'commands:', '  Do: {class: posted}'),
    says: 'bad.yaml:3: Do: a command needs an id',
  },
  {
    name: 'a local command',
    text: lines(tiny, 'commands:', '  Do: {class: local, id: 1}'),
    says: 'bad.yaml:3: Do: class of a command must be posted or round-trip',
  },
  {
    name: 'a field of an unknown type',
    text: lines(
      tiny,
      'commands:',
      '  Do:',
      '    class: posted',
      '    id: 1',
      '    fields:',
      '      a: uint64_t',
      '      b: long',
    ),
    says: 'bad.yaml:8: Do.b: unknown type long',
  },
  {
    name: 'a payload without a length',
    text: lines(
      tiny,
      'commands:',
      '  Do: {class: posted, id: 1, bulk: true, fields: {size: uint64_t}}',
    ),
    says: 'bad.yaml:3: Do: a bulk command needs the field `length: uint64_t`',
  },
  {
    name: 'a reply to a posted command',
    text: lines(tiny, 'commands:', '  Do: {class: posted, id: 1, reply: {a: uint64_t}}'),
    says: 'bad.yaml:3: Do: only a round trip has a reply',
  },
];

for (const { name, text, says } of bad) {
  t.test(`refused: ${name}`, async (t) => {
    try {
      read(text);
      t.fail('it was accepted');
    } catch (error) {
      t.ok(error instanceof ApiError, String(error));
      t.equal((error as Error).message.slice(0, says.length), says);
    }
  });
}

/** Reads several files as one folder, and generates from them. */
function whole(...files: string[]) {
  const folder = t.testdir(
    Object.fromEntries(files.map((text, index) => [`${'abc'[index]}.yaml`, text])),
  );
  return import('../generator/api.js').then(({ readApi }) => readApi(folder, facts));
}

const between: { name: string; files: string[]; says: RegExp }[] = [
  {
    name: 'an id twice',
    files: [
      lines(tiny, 'calls:', '  cuTinyClose: {class: posted, guest: hand, id: 1}'),
      lines(tiny, 'commands:', '', '  Do: {class: posted, id: 1}'),
    ],
    says: /^b\.yaml:4: Do has the id of cuTinyClose \(a\.yaml:3\): 1$/,
  },
  {
    name: 'a call in two files',
    files: [
      lines(tiny, 'calls:', '  cuTinyInit: {class: local}'),
      lines(tiny, 'calls:', '  cuTinyInit: {class: local}'),
    ],
    says: /^b\.yaml:3: cuTinyInit is described already \(a\.yaml:3\)$/,
  },
  {
    name: 'a command in two files',
    files: [
      lines(tiny, 'commands:', '  Do: {class: posted, id: 1}'),
      lines(tiny, 'commands:', '  Do: {class: posted, id: 2}'),
    ],
    says: /^b\.yaml:3: Do is there already \(a\.yaml:3\)$/,
  },
  {
    name: 'a use of nothing',
    files: [lines(tiny, 'calls:', '  cuTinyInit: {class: local, uses: [Nothing]}')],
    says: /^a\.yaml:3: cuTinyInit uses Nothing, which is no command$/,
  },
  {
    name: 'as nothing',
    files: [lines(tiny, 'calls:', '  cuTinyFillNow: {class: posted, as: cuTinyFill}')],
    says: /^a\.yaml:3: cuTinyFillNow is `as: cuTinyFill`, which is no call with an id$/,
  },
  {
    name: 'a value for no parameter',
    files: [
      lines(
        tiny,
        'calls:',
        '  cuTinyFill: {class: posted, id: 1, parameters: {hStream: stream}}',
        '  cuTinyFillNow: {class: posted, as: cuTinyFill, with: {stream: default}}',
      ),
    ],
    says: /^a\.yaml:4: cuTinyFillNow: cuTinyFill has no parameter stream$/,
  },
];

for (const { name, files, says } of between) {
  t.test(`refused: ${name}`, async (t) => {
    await t.rejects(whole(...files), { constructor: ApiError, message: says });
  });
}

// Only the emitters see these.
const ungeneratable: { name: string; text: string; says: RegExp }[] = [
  {
    name: 'a type without a place on the wire',
    text: lines(tiny, 'calls:', '  cuTinyNotServed: {class: posted, id: 1}'),
    says: /^a\.yaml:3: no wire type for CUspan \* span$/,
  },
  {
    name: 'a parameter of the other call without a value',
    text: lines(
      tiny,
      'calls:',
      '  cuTinyFill: {class: posted, id: 1, parameters: {hStream: stream}}',
      '  cuTinyFillNow: {class: posted, as: cuTinyFill}',
    ),
    says: /^a\.yaml:4: cuTinyFillNow: no value for hStream of cuTinyFill$/,
  },
  {
    name: 'a handle made by generated code',
    text: lines(
      tiny,
      'calls:',
      '  cuTinyOpen: {class: posted, id: 1, parameters: {phStream: mint stream}}',
    ),
    says: /^a\.yaml:3: cuTinyOpen\.phStream: mint needs `guest: hand`$/,
  },
];

for (const { name, text, says } of ungeneratable) {
  t.test(`refused: ${name}`, async (t) => {
    const api = await whole(text);
    t.throws(() => texts(facts, api, {}, nothingMoves), { constructor: ApiError, message: says });
  });
}

t.test('ids are append-only', async (t) => {
  const api = await whole(
    lines(
      tiny,
      'commands:',
      '  One: {class: posted, id: 1}',
      '  Two: {class: posted, id: 2}',
      '  Nine: {class: posted, id: 9}',
    ),
  );
  t.same(recordIds(api, {}), { One: 1, Two: 2, Nine: 9 }, 'new ones are recorded');
  t.same(recordIds(api, { One: 1, Two: 2 }), { One: 1, Two: 2, Nine: 9 });
  const refused = (recorded: Record<string, number>, message: RegExp) =>
    t.throws(() => recordIds(api, recorded), { constructor: ApiError, message });
  refused({ One: 1, Two: 3 }, /^a\.yaml:4: Two has id 3 for good, not 2$/);
  refused({ One: 1, Old: 2 }, /^a\.yaml:4: id 2 was given to Old; take one that is not in ids/);
  refused({ One: 1, Old: 5 }, /^ids\.json: Old is gone from proto\/api; older releases still send/);
});
