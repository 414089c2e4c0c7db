// What each command leaves behind that a session would have to take along to another GPU (proto/moving.yaml):
// api-server/generated/moving.h and hindrances.ts, and what dispatch notes (emit-server.ts).
import { readFileSync } from 'node:fs';
import { parse } from 'yaml';
import { type Api, ApiError, type Command, type Parameter } from './api.js';
import { banner } from './banner.js';
import { wireField } from './emit-wire.js';

const leaves = ['nothing', 'memory', 'object', 'change'] as const;
type Leaves = (typeof leaves)[number];

/** What hinders a session from being moved. */
export interface Hindrance {
  name: string;
  /** The rest of a sentence that begins with "The session has". */
  about: string;
}

export interface Moving {
  /** In the order of their bits. */
  hindrances: Hindrance[];
  /** By command: what it leaves, or the name of a hindrance. */
  of: ReadonlyMap<string, Leaves | Hindrance>;
  /** Kinds of handles (WIRE_KIND_...) whose objects hinder. */
  kinds: readonly string[];
}

interface Group {
  leaves?: Leaves;
  hinders?: string;
  about?: string;
  kinds?: string;
  uses?: string;
  commands?: string;
}

const words = (text: string | undefined) => (text ?? '').split(/\s+/).filter(Boolean);
const of = (command: Command, role: Parameter['role']['role']) =>
  command.parameters.filter((p) => p.role.role === role);

/** Throws an ApiError where a command is in no group or in several, or in one that it cannot be in. */
export function readMoving(file: string, api: Api): Moving {
  const groups = parse(readFileSync(file, 'utf8')) as Group[];
  const refuse = (what: string) => new ApiError(`../moving.yaml: ${what}`);
  const commands = new Map(api.commands.map((command) => [command.name, command]));
  const hindrances: Hindrance[] = [];
  const found = new Map<string, Leaves | Hindrance>();
  for (const group of groups) {
    const { hinders: name, about } = group;
    if ((group.leaves === undefined) === (name === undefined))
      throw refuse('a group says either `leaves` or `hinders`');
    if (group.leaves !== undefined && !leaves.includes(group.leaves))
      throw refuse(`${group.leaves} is none of ${leaves.join(', ')}`);
    if (name !== undefined && (!about || !/^[a-z]+(-[a-z]+)*$/.test(name)))
      throw refuse(`${name} needs a name of small letters, and \`about\``);
    const kept = group.leaves ?? { name: name ?? '', about: about ?? '' };
    if (typeof kept !== 'string') hindrances.push(kept);
    const sort = (names: string | undefined, as: Leaves | Hindrance) => {
      for (const one of words(names)) {
        const command = commands.get(one);
        if (!command) throw refuse(`${one} is no command`);
        if (found.has(one)) throw refuse(`${one} is there twice`);
        checkCommand(command, as, refuse);
        found.set(one, as);
      }
    };
    sort(group.commands, kept);
    sort(group.uses, 'nothing');
  }
  const missing = api.commands.filter(({ name }) => !found.has(name)).map(({ name }) => name);
  if (missing.length > 0) throw refuse(`in no group: ${missing.join(' ')}`);
  if (hindrances.length > 64) throw refuse('there are more hindrances than bits');
  return { hindrances, of: found, kinds: groups.flatMap((group) => words(group.kinds)) };
}

function checkCommand(
  command: Command,
  kept: Leaves | Hindrance,
  refuse: (what: string) => ApiError,
): void {
  const { name, parameters } = command;
  const objects = [...of(command, 'mint'), ...of(command, 'consume')].length;
  if (kept === 'object' && (objects !== 1 || command.bulk))
    throw refuse(`${name} does not mint or consume one object, or has a payload`);
  if ((kept === 'nothing' || kept === 'change') && objects > 0)
    throw refuse(`${name} mints or consumes, and leaves ${kept}`);
  if (kept === 'change' && (command.bulk || parameters.length < 2 || parameters.length > 3))
    throw refuse(`${name}: a change has one or two fields that say of what, and a value`);
}

/** As C++ has the name of a hindrance. */
const constant = (name: string) =>
  `k${name.replace(/(^|-)([a-z])/g, (_, __, letter: string) => letter.toUpperCase())}`;

/** What dispatch does for it before it carries a command out; `q` is its frame. */
export function noted(command: Command, { of: groups }: Moving): string {
  const kept = groups.get(command.name);
  if (kept === undefined || kept === 'nothing' || kept === 'memory') return '';
  if (kept === 'object') {
    const mints = of(command, 'mint').map((p) => `      s.recipes().made(q->${p.name}, h);\n`);
    const ends = of(command, 'consume').map((p) => `      s.recipes().ended(q->${p.name});\n`);
    return [...mints, ...ends].join('');
  }
  if (kept === 'change') {
    const [first, second] = command.parameters.slice(0, -1).map((p) => `q->${wireField(p)}`);
    const key = ['h->op', first, second ?? '0'].map((value) => `static_cast<uint64_t>(${value})`);
    return `      s.recipes().changed({${key.join(', ')}}, h);\n`;
  }
  return `      const Hindered hindered(s, Hindrance::${constant(kept.name)});\n`;
}

/** The kinds of handles whose objects are known to be made again, or to hinder. */
export function kindsOf(api: Api, { of: groups, kinds }: Moving): Set<string> {
  const minted = api.commands
    .filter(({ name }) => groups.get(name) !== 'nothing')
    .flatMap((command) => of(command, 'mint'))
    .map(({ role }) => ('kind' in role ? role.kind.toUpperCase() : ''));
  return new Set([...minted, ...kinds]);
}

export function emitMoving({ hindrances }: Moving): string {
  return `${banner('moving.ts', 'proto/moving.yaml')}
// What hinders a session from going on on another GPU (docs/moving.md). The values are bits of the counter
// \`hindrances\` (executor/base/counters.h), and places in hindrances.ts.
#pragma once

#include <cstdint>

namespace outboard {

enum class Hindrance : uint8_t {
${hindrances.map(({ name, about }) => `  ${constant(name)},  // ${about}\n`).join('')}};

inline constexpr unsigned kHindranceCount = ${hindrances.length};

constexpr uint64_t bit_of(Hindrance hindrance) {
  return uint64_t{1} << static_cast<unsigned>(hindrance);
}

// The rest of a sentence that begins with "the session has".
constexpr const char *hindrance_about(Hindrance hindrance) {
  constexpr const char *kAbout[] = {
${hindrances.map(({ about }) => `      "${about}",\n`).join('')}  };
  return kAbout[static_cast<unsigned>(hindrance)];
}

}  // namespace outboard
`;
}

export function emitHindrances({ hindrances }: Moving): string {
  const quoted = (text: string) => `'${text.replace(/[\\']/g, '\\$&')}'`;
  return `// Generated by proto/generator/moving.ts from proto/moving.yaml. Do not edit: run \`npm run generate\`.

/** What hinders a session from going on on another GPU, in the order of the bits of its counter \`hindrances\`. */
export const hindrances = [
${hindrances.map(({ name, about }) => `  { name: ${quoted(name)}, about: ${quoted(about)} },\n`).join('')}] as const;
`;
}
