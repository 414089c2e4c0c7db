// Who knows whom is what ARCHITECTURE.md and the READMEs of the parts say: what is included or
// imported, and what is called. Tests may know everything.
import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { build, root } from '../../bin/paths.mjs';
import { mustBeBuilt } from '../../test/support/paths.js';

const text = (file: string) => readFileSync(path.join(root, file), 'utf8');

/** Cells of the lines of a Markdown table whose first cell names folders, as `name/`. */
function rows(file: string, heading: RegExp): { folders: string[]; cells: string[] }[] {
  const [, table = ''] = text(file).split(heading);
  return table
    .slice(0, table.search(/\n\n(?!\|)/))
    .split('\n')
    .map((line) => line.split('|').slice(1, -1))
    .map((cells) => ({ cells, folders: names(cells[0] ?? '') }))
    .filter(({ folders }) => folders.length > 0);
}

/** Folders in a cell: `one/`, `two/`. */
function names(cell: string): string[] {
  return [...cell.matchAll(/`([a-z-]+)\/`/g)].map(([, name = '']) => name);
}

/** Sources below a folder, without tests and what is not ours; paths from the root. */
function sources(folder: string, endings: RegExp): string[] {
  const entries = readdirSync(path.join(root, folder), { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile() && endings.test(entry.name))
    .map((entry) => path.relative(root, path.join(entry.parentPath, entry.name)))
    .filter((file) => !/(^|\/)(test|node_modules|build)\//.test(file));
}

const native = /\.(c|cc|cpp|h|inc)$/;

/** By its ending: the headers that may be meant by an include. */
function headersOf(folders: string[]): Map<string, string[]> {
  const headers = new Map<string, string[]>();
  for (const file of folders.flatMap((folder) => sources(folder, /\.(h|inc)$/)))
    headers.set(path.basename(file), [...(headers.get(path.basename(file)) ?? []), file]);
  return headers;
}

/** What the file includes or imports of the project's own; several where that is not clear. */
function known(file: string, headers: Map<string, string[]>): string[][] {
  const source = text(file);
  if (native.test(file)) {
    return [...source.matchAll(/^#include "([^"]+)"/gm)].map(([, name = '']) => {
      const beside = path.join(path.dirname(file), name);
      if (existsSync(path.join(root, beside))) return [beside];
      const ending = name.replace(/^(\.\.\/)+/, '');
      const all = headers.get(path.basename(name)) ?? [];
      return all.filter((header) => `/${header}`.endsWith(`/${ending}`));
    });
  }
  return [...source.matchAll(/(?:from|import)\s*\(?\s*'(\.[^']+)'/g)].map(([, name = '']) => [
    path.join(path.dirname(file), name),
  ]);
}

t.test('parts know those that ARCHITECTURE.md says', async (t) => {
  const parts = rows('ARCHITECTURE.md', /^\| folder \| holds \| may know \|$/m);
  const all = parts.flatMap(({ folders }) => folders);
  t.ok(all.length > 8, 'there is a table of the parts');
  const headers = headersOf(all);
  const wrong = new Set<string>();
  let seen = 0;
  for (const { folders, cells } of parts) {
    if (cells[2]?.trim() === 'all') continue;
    const may = [...folders, ...names(cells[2] ?? '')];
    for (const file of folders.flatMap((folder) => sources(folder, /\.(c|cc|cpp|h|inc|tsx?|mjs)$/)))
      for (const files of known(file, headers)) {
        const owners = files.map((one) => one.split('/')[0] ?? '');
        if (owners.length > 0) seen++;
        if (owners.length > 0 && !owners.some((owner) => may.includes(owner)))
          wrong.add(`${file} knows ${files.join(' or ')}`);
      }
  }
  t.ok(seen > 1000, 'includes and imports are found');
  t.same([...wrong], []);
});

interface Layered {
  folder: string;
  readme: string;
  heading: RegExp;
  /** The target that its objects are made for, as a folder of the build; absent: nothing of it is native. */
  target?: string;
}

/** Folders that know only themselves and those above them in a table. */
const layered: Layered[] = [
  {
    folder: 'api-server/executor',
    readme: 'api-server/executor/README.md',
    heading: /^\| folder \| holds \|$/m,
    target: 'api-server/CMakeFiles/executor.dir',
  },
  {
    folder: 'guest-lib/src',
    readme: 'guest-lib/README.md',
    heading: /^\| in `src\/` \| holds \|$/m,
    target: 'guest-lib/CMakeFiles/guest_objects.dir',
  },
  {
    folder: 'monitor/src',
    readme: 'monitor/README.md',
    heading: /^\| in `src\/` \| holds \|$/m,
  },
];

interface Unit {
  /** From the build folder. */
  object: string;
  /** What it is made of, from the root: several sources, where they are compiled as one. */
  sources: string[];
}

/** What a target is compiled to, of the sources of a folder. */
function units(target: string, folder: string): Unit[] {
  const commands = readFileSync(path.join(build, 'compile_commands.json'), 'utf8');
  const listed: { file: string; command: string }[] = JSON.parse(commands);
  return listed
    .map(({ file, command }) => ({ file, output: / -o (\S+) /.exec(command)?.[1] ?? '' }))
    .filter(({ output }) => output.startsWith(`${target}/`))
    .map(({ file, output }) => {
      const unity = /\/unity\/[^/]+\/[^/]+$/.test(file) && readFileSync(file, 'utf8');
      const made = unity
        ? [...unity.matchAll(/^#include "([^"]+)"/gm)].map(([, source = '']) =>
            path.resolve(path.dirname(file), source),
          )
        : [file];
      return { object: output, sources: made.map((source) => path.relative(root, source)) };
    })
    .filter(({ sources }) => sources.some((source) => source.startsWith(`${folder}/`)));
}

/** Files of which each knows the next and the last the first; undefined: there are none. */
function circle(knows: Map<string, string[]>): string[] | undefined {
  const seen = new Set<string>();
  const follow = (file: string, way: string[]): string[] | undefined => {
    if (way.includes(file)) return way.slice(way.indexOf(file));
    if (seen.has(file)) return undefined;
    seen.add(file);
    for (const other of knows.get(file) ?? []) {
      const found = follow(other, [...way, file]);
      if (found) return found;
    }
    return undefined;
  };
  for (const file of knows.keys()) {
    const found = follow(file, []);
    if (found) return found;
  }
  return undefined;
}

for (const { folder, readme, heading, target } of layered) {
  const order = rows(readme, heading).flatMap(({ folders }) => folders);
  const place = (file: string) => order.indexOf(path.relative(folder, file).split('/')[0] ?? '');

  t.test(`${folder}: includes and imports go up its table`, async (t) => {
    const files = sources(folder, /\.(c|cc|cpp|h|inc|tsx?)$/);
    t.same(
      files.filter((file) => place(file) < 0),
      [],
      'every file is in a folder of the table',
    );
    const headers = headersOf([folder]);
    const wrong = files.flatMap((file) =>
      known(file, headers)
        .flat()
        .filter((other) => other.startsWith(`${folder}/`) && place(other) > place(file))
        .map((other) => `${file} knows ${other}`),
    );
    t.same(wrong, []);
    const knows = new Map(
      files.map((file) => [
        file,
        known(file, headers)
          .flat()
          .map((other) => other.replace(/\.js$/, '.ts')),
      ]),
    );
    const inside = [...knows].flatMap(([file, others]) =>
      others
        .filter((other) => path.basename(other) === 'internal.h')
        .filter((other) => file.endsWith('.h') || path.dirname(other) !== path.dirname(file))
        .map((other) => `${file} knows ${other}`),
    );
    t.same(inside, [], 'what is internal to a folder only its sources know');
    t.equal(circle(knows), undefined, 'no file knows itself through others');
  });

  if (target === undefined) continue;
  t.test(`${folder}: calls go up its table`, async (t) => {
    mustBeBuilt('compile_commands.json');
    const made = units(target, folder);
    mustBeBuilt(...made.map(({ object }) => object));
    t.same(
      made.filter(({ sources }) => new Set(sources.map(place)).size > 1),
      [],
      'what is compiled as one is of one folder',
    );
    const sourceOf = new Map(made.map(({ object, sources }) => [object, sources[0] ?? '']));
    const lines = execFileSync('nm', ['-A', '-C', '--format=posix', ...sourceOf.keys()], {
      cwd: build,
      encoding: 'utf8',
      maxBuffer: 1 << 28,
    }).split('\n');
    const defined = new Map<string, string>();
    const used: { file: string; symbol: string }[] = [];
    for (const line of lines) {
      const [, object = '', symbol = '', kind = ''] =
        /^(.*?)(?:\[.*\])?: (.*) ([A-Za-z])(?: [0-9a-f]+){0,2} *$/.exec(line) ?? [];
      const file = sourceOf.get(object) ?? '';
      if (/^[TDBR]$/.test(kind)) defined.set(symbol, file);
      else if (kind === 'U') used.push({ file, symbol });
    }
    t.ok(defined.size > 100, 'there are functions');
    const wrong = new Set<string>();
    for (const { file, symbol } of used) {
      const owner = defined.get(symbol);
      if (owner !== undefined && place(owner) > place(file))
        wrong.add(`${file} calls ${symbol} of ${owner}`);
    }
    t.same([...wrong], []);
  });
}

t.test("libraries in the user's process ask the system in one place each", async (t) => {
  const places: [RegExp, string][] = [
    [/\b(secure_)?getenv\(/, 'guest-lib/src/setup/environment.c'],
    [/\bclock_gettime\(/, 'guest-lib/src/setup/clock.h'],
    [/\bpthread_create\(/, 'guest-lib/src/base/thread.c'],
  ];
  const files = ['guest-lib/src', 'nvml/src'].flatMap((folder) => sources(folder, native));
  for (const [call, place] of places)
    t.same(
      files.filter((file) => call.test(text(file))),
      [place],
      `${call}`,
    );
});

t.test('what the guest keeps for each session is in struct session', async (t) => {
  // At file scope: an array with a place for each session, by itself or of an unnamed structure.
  const array = /^(?:\}|\w)[^;=(]*\[SESSIONS_MAX\]/m;
  t.same(
    sources('guest-lib/src', native).filter((file) => array.test(text(file))),
    ['guest-lib/src/session/session.c', 'guest-lib/src/session/session.h'],
  );
});
