import { constants } from 'node:os';
import { setTimeout as pause } from 'node:timers/promises';
import { ApiClient, apiOptions, type Following } from '../api/client.js';
import { busyMeaning } from '../base/busy.js';
import { OutboardError } from '../base/errors.js';
import type { View } from '../base/view.js';
import { command, exitCodes } from '../cli/command.js';
import { gpuLines, headLines, queueLines, sessionLines, sorted } from '../cli/screen.js';
import { clean, colours, type Paint, print, printJson, sgr, wrapped } from '../cli/table.js';
import { Terminal } from '../cli/terminal.js';
import { yesNo } from '../options/options.js';
import { sortOption } from './sessions.js';

const queueShown = 5;
const againMilliseconds = 1000;

/** What the user chooses with keys. */
export interface Choices {
  order: string;
  reverse: boolean;
  /** How many sessions are above the first one shown. */
  from: number;
  help: boolean;
}

const orderKeys: Record<string, string> = {
  i: 'id',
  m: 'memory',
  c: 'share',
  t: 'time',
  g: 'gpu',
  T: 'tenant',
  n: 'name',
};
const orders = Object.values(orderKeys);

const keyHelp = `q quit   s next order   r reverse   up/down, PgUp/PgDn, Home scroll
order by: i number  m memory  c share received  t time  g GPU  T tenant  n name`.split('\n');

export const top = command({
  name: 'top',
  summary: 'follow a server live in the terminal',
  about: `Shows what \`outboard status\` shows, again each second, until q is pressed.

What does not fit into a narrow terminal is left out, the least important first; \`outboard status\`
leaves out nothing. BUSY: the part of the last second in which work of sessions was on the GPU, however
little of it the work fills; of the software device, the part of its threads' processor time. Keys: q quit; s next order, r reverse; arrows scroll; ? shows all of them.
Orders by one key: i number, m memory, c share received, t time, g GPU, T tenant, n name.`,
  options: {
    ...apiOptions,
    sort: { ...sortOption, help: 'what sessions are sorted by at first' },
    once: yesNo('OUTBOARD_TOP_ONCE', 'print the screen once, which needs no terminal'),
  },
  async run(values) {
    const client = new ApiClient(values);
    const choices = { order: values.sort, reverse: false, from: 0, help: false };
    if (values.once) {
      const view = await client.state();
      const paint = colours(process.stdout, process.env);
      const all = { columns: Infinity, rows: Infinity };
      if (values.json) printJson(view);
      else print(screen(view, view.queue.length, choices, all, paint));
      return exitCodes.ok;
    }
    if (values.json) return followJson(client);
    if (!Terminal.present) throw new OutboardError('OB_NO_TERMINAL');
    return new Live(client, choices).run();
  },
});

/** One state in each line. */
async function followJson(client: ApiClient): Promise<number> {
  const following = await client.follow((message) => {
    if (message.type === 'view') print([JSON.stringify(message.view)]);
  });
  await following.closed;
  throw new OutboardError('OB_API_REACH', client.where, 'the connection has ended');
}

class Live {
  readonly #client: ApiClient;
  readonly #choices: Choices;
  readonly #paint = colours(process.stdout, process.env);
  readonly #terminal: Terminal;
  #shown: { view: View; queued: number } | undefined;
  #problem: string | null = null;
  #following: Following | undefined;
  #end: (code: number) => void = () => {};

  constructor(client: ApiClient, choices: Choices) {
    this.#client = client;
    this.#choices = choices;
    this.#terminal = new Terminal({
      onKey: (key) => this.#key(key),
      onResize: () => this.#draw(),
      onEnd: (signal) => this.#end(128 + constants.signals[signal]),
    });
  }

  /** Once it could be reached, a server may go and come back. */
  async run(): Promise<number> {
    await this.#follow();
    const ended = new Promise<number>((resolve) => {
      this.#end = resolve;
    });
    this.#terminal.open();
    const stopped = new AbortController();
    try {
      this.#again(stopped.signal);
      return await ended;
    } finally {
      stopped.abort();
      this.#terminal.close();
      this.#following?.close();
    }
  }

  async #follow() {
    this.#following = await this.#client.follow((message) => {
      if (message.type !== 'view') return;
      this.#shown = message;
      this.#problem = null;
      this.#draw();
    });
  }

  /** Follows again each time that the connection has ended. */
  async #again(signal: AbortSignal) {
    while (!signal.aborted) {
      await this.#following?.closed;
      if (signal.aborted) return;
      this.#problem ??= `no connection to ${this.#client.where}: trying again`;
      this.#draw();
      await pause(againMilliseconds, undefined, { signal }).catch(() => {});
      if (signal.aborted) return;
      await this.#follow().catch((error: Error) => {
        this.#problem = error.message;
      });
      // It has come too late for this program.
      if (signal.aborted) this.#following?.close();
    }
  }

  #key(key: string) {
    if (key === 'q' || key === 'Q') return this.#end(exitCodes.ok);
    const { rows } = this.#terminal.size;
    press(this.#choices, key, this.#shown?.view.sessions.length ?? 0, Math.max(1, rows - 10));
    this.#draw();
  }

  #draw() {
    const { size } = this.#terminal;
    const { view, queued } = this.#shown ?? {};
    const problem = this.#problem === null ? [] : [this.#paint(sgr.red, clean(this.#problem))];
    const lines = view ? screen(view, queued ?? 0, this.#choices, size, this.#paint) : [];
    this.#terminal.draw([...problem, ...lines].slice(0, size.rows));
  }
}

/** What a key does to the choices. */
export function press(choices: Choices, key: string, sessions: number, page: number) {
  const scroll = (by: number) => {
    choices.from = Math.max(0, Math.min(sessions - 1, choices.from + by));
  };
  const order = orderKeys[key];
  if (order !== undefined) Object.assign(choices, { order, from: 0 });
  else if (key === 's')
    choices.order = orders[(orders.indexOf(choices.order) + 1) % orders.length] ?? 'id';
  else if (key === 'r') choices.reverse = !choices.reverse;
  else if (key === '?' || key === 'h') choices.help = !choices.help;
  else if (key === '\x1b[A' || key === 'k') scroll(-1);
  else if (key === '\x1b[B' || key === 'j') scroll(1);
  else if (key === '\x1b[5~') scroll(-page);
  else if (key === '\x1b[6~') scroll(page);
  else if (key === '\x1b[H' || key === '\x1b[1~') choices.from = 0;
}

/** At most as many lines as the terminal has rows: GPUs, then the head of the queue, then sessions. */
export function screen(
  view: View,
  queued: number,
  { order, reverse, from, help }: Choices,
  { columns, rows }: { columns: number; rows: number },
  paint: Paint,
): string[] {
  const queue = queueLines(view.queue, queueShown, queued, paint, columns);
  const above = [
    ...headLines(view, paint, columns),
    ...(help ? [...keyHelp, ...wrapped(`BUSY: ${busyMeaning(view.server.device)}`, columns)] : []),
    '',
    ...gpuLines(view.gpus, paint, columns),
    '',
    ...(queue.length > 0 ? [...queue, ''] : []),
  ];
  const all = sorted(view.sessions, order);
  if (reverse) all.reverse();
  const first = Math.max(0, Math.min(from, all.length - 1));
  const [titles = '', ...lines] = sessionLines(all.slice(first), paint, { columns });
  const before = first > 0 ? ` (${first} above)` : '';
  const sign = `sorted by ${order}${reverse ? ', reversed' : ''}${before}; ? for keys`;
  const space = rows - above.length - 2;
  const shown = lines.slice(0, Math.max(0, space));
  const below = lines.length - shown.length;
  const foot = below > 0 ? `${sign}; ${below} more below` : sign;
  return [...above, titles, ...shown, paint(sgr.dim, foot)].slice(0, rows);
}
