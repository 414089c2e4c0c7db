// Programs that are held between their commands and moved there; and what hinders which of them.
import { readFileSync } from 'node:fs';
import { hindrances } from '../../api-server/generated/hindrances.js';
import { startHoldingProxy } from './holding-proxy.js';
import { hasMoved, type Operator } from './moving.js';
import { root } from './paths.js';
import type { Outcome } from './program.js';
import type { TestServer } from './server.js';

/** By program, names of what it has that hinders a move (docs/moving.md), at times or for good. */
export const hinderedPrograms = new Map(
  readFileSync(`${root}/test/programs/hindered.tsv`, 'utf8')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => line.split('\t'))
    .map(([name = '', names = '']) => [name, names.split(' ')]),
);

export interface Moves {
  outcome: Outcome;
  moved: number;
  /** Why it was not, by the names of docs/moving.md, or in the server's words. */
  refusals: Set<string>;
  /** All that the server said of it. */
  messages: string[];
}

/** What hinders at a time, and has no name there. */
const others = [
  { name: 'failed', about: "the device's context has failed" },
  { name: 'places', about: 'and kernels may have kept its address' },
  { name: 'busy', about: 'its work on the device did not end within 5 seconds' },
];

/** What a refusal names, or all of it where it names nothing known. */
export function refusalNames(message: string): string[] {
  const names = [
    ...hindrances.filter(({ about }) => message.includes(`has ${about}`)),
    ...others.filter(({ about }) => message.includes(about)),
  ].map(({ name }) => name);
  return names.length > 0 ? names : [message];
}

/** It may be asked for as soon as the session has begun, and until it ends. */
export const tooEarlyOrLate =
  /it has not begun yet|it ends|it has ended|the guest closed the connection|the session ends|resets its context|there is no session|is being moved already/;

/**
 * Runs something and moves all sessions that there are after every so many commands of one: nothing is passed on until
 * they have moved, or wait for what is held. `patienceMs`: whoever has not moved by then, after its contents began to
 * go over, moves or stays whatever is passed on.
 */
export async function movedAfterEvery(
  every: number,
  { server, operator }: { server: TestServer; operator: Operator },
  run: (address: string) => Promise<Outcome>,
  wish: object = {},
  beyond = () => 0,
  patienceMs = 500,
): Promise<Moves> {
  let moved = 0;
  const refusals = new Set<string>();
  const messages: string[] = [];
  const under = new Map<number, Promise<void>>();

  async function move(id: number) {
    const answer = await operator.moveSoon(id, wish);
    under.delete(id);
    if (hasMoved(answer)) moved++;
    else if (!tooEarlyOrLate.test(answer.message)) {
      messages.push(answer.message);
      for (const name of refusalNames(answer.message)) refusals.add(name);
    }
  }

  /** It is to stand still, and has not for a while: what it waits for may be among what is held. */
  async function waitsForUs(id: number) {
    let since: number | null = null;
    while (under.has(id) && (since === null || performance.now() - since < patienceMs)) {
      const session = (await operator.state()).sessions.find((one) => one.id === id);
      if (!session) return;
      if (session.moving === 'transferring') since ??= performance.now();
    }
  }

  async function held() {
    if (under.size > 0) return;
    const { sessions } = await operator.state();
    for (const { id, state } of sessions) {
      if (state !== 'running') continue;
      const moving = move(id);
      under.set(id, moving);
      await Promise.race([moving, waitsForUs(id)]);
    }
  }

  const proxy = await startHoldingProxy(server.address, { every, held, beyond });
  const outcome = await run(proxy.address);
  await Promise.all(under.values());
  await proxy.close();
  return { outcome, moved, refusals, messages };
}

/** How many commands it sends, in the session with most. */
export async function countCommands(
  server: TestServer,
  run: (address: string) => Promise<Outcome>,
): Promise<{ outcome: Outcome; commands: number }> {
  const proxy = await startHoldingProxy(server.address, { every: 0, held: async () => {} });
  const outcome = await run(proxy.address);
  await proxy.close();
  return { outcome, commands: proxy.most() };
}
