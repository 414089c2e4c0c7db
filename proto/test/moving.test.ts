// Of every command it is said what it leaves behind that a session would have to take along elsewhere.
import { readFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { type Api, ApiError, readApi } from '../generator/api.js';
import { readFacts } from '../generator/facts.js';
import { root } from '../generator/main.js';
import { emitHindrances, emitMoving, kindsOf, noted, readMoving } from '../generator/moving.js';
import { data } from './golden.js';

const tiny = readApi(path.join(data, 'api'), readFacts(path.join(data, 'facts.json')));

const good = `
- leaves: nothing
  commands: cuTinyFill cuTinyFillRows cuTinyWait cuTinyWatch Piece Reset
- leaves: object
  commands: cuTinyOpen cuTinyClose Load Find
- hinders: tiny-things
  about: tiny things
  commands: cuTinyAsk
`;

t.test('what is wrong in the groups is refused', async (t) => {
  const file = (text: string) => path.join(t.testdir({ 'moving.yaml': text }), 'moving.yaml');
  t.equal(readMoving(file(good), tiny).of.size, tiny.commands.length);
  const bad: [string, string, RegExp][] = [
    ['Piece Reset', 'Piece', /in no group: Reset$/],
    ['Piece Reset', 'Piece Reset Piece', /Piece is there twice/],
    ['Piece Reset', 'Piece Reset Nothing', /Nothing is no command/],
    ['leaves: nothing', 'leaves: much', /much is none of nothing, memory, object, change/],
    ['leaves: nothing', 'about: x', /either `leaves` or `hinders`/],
    ['about: tiny things', 'about: ""', /tiny-things needs a name of small letters, and `about`/],
    ['hinders: tiny-things', 'hinders: Tiny', /Tiny needs a name of small letters/],
    [
      'Reset\n- leaves: object\n  commands: ',
      '\n- leaves: object\n  commands: Reset ',
      /Reset does not mint or consume one object/,
    ],
    [
      'commands: cuTinyFill ',
      'commands: cuTinyOpen ',
      /cuTinyOpen mints or consumes, and leaves nothing/,
    ],
    ['leaves: nothing', 'leaves: change', /a change has one or two fields that say of what/],
  ];
  for (const [from, to, message] of bad)
    t.throws(() => readMoving(file(good.replace(from, to)), tiny), {
      constructor: ApiError,
      message,
    });
});

t.test('dispatch notes it before the command is carried out', async (t) => {
  const moving = readMoving(path.join(data, 'moving.yaml'), tiny);
  const noteOf = (name: string) => {
    const command = tiny.commands.find((one) => one.name === name);
    return command ? noted(command, moving) : undefined;
  };
  t.match(noteOf('cuTinyOpen'), /recipes\(\)\.made\(q->phStream, h\)/);
  t.match(noteOf('cuTinyClose'), /recipes\(\)\.ended\(q->hStream\)/);
  t.match(noteOf('cuTinyAsk'), /Hindered hindered\(s, Hindrance::kTinyThings\)/);
  t.equal(noteOf('cuTinyFill'), '');
  t.match(emitMoving(moving), /kTinyThings,/);
  t.match(emitHindrances(moving), /name: 'tiny-things', about: 'tiny things'/);
});

/** Kinds of handles that never reach a server as objects, and why. */
const guestsOwn: Record<string, string> = {
  NONE: 'no handle',
  CONTEXT: 'a slot has one context, which no guest makes',
  POOL: 'the guest makes pools of the memory that it maps',
  GRAPH_NODE: 'nodes travel as records of a graph',
  USER_OBJECT: 'the guest counts references to them',
  COUNT: 'no kind',
};

t.test('no kind of handle is forgotten', async (t) => {
  const api: Api = readApi(
    path.join(root, 'proto/api'),
    readFacts(path.join(root, 'proto/facts/cuda-13.5.json')),
  );
  const moving = readMoving(path.join(root, 'proto/moving.yaml'), api);
  const known = kindsOf(api, moving);
  const header = readFileSync(path.join(root, 'proto/wire/wire.h'), 'utf8');
  const all = [...header.matchAll(/^ {2}WIRE_KIND_([A-Z_]+),/gm)].map(([, kind = '']) => kind);
  t.ok(all.length > 10);
  for (const kind of all) {
    t.ok(
      known.has(kind) !== kind in guestsOwn,
      `${kind}: say in proto/moving.yaml whether its objects are made again or hinder`,
    );
  }
  t.same(
    [...known].filter((kind) => !all.includes(kind)),
    [],
  );
});

t.test('every hindrance is explained to people', async (t) => {
  const page = readFileSync(path.join(root, 'docs/moving.md'), 'utf8');
  const text = readFileSync(path.join(root, 'proto/moving.yaml'), 'utf8');
  const names = [...text.matchAll(/^- hinders: (\S+)$/gm)].map(([, name = '']) => name);
  t.ok(names.length > 0);
  t.same(
    names.filter((name) => !page.includes(`| \`${name}\` |`)),
    [],
  );
});
