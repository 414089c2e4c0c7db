import { setTimeout as pause } from 'node:timers/promises';
import { ApiClient, apiOptions } from '../api/client.js';
import type { DrainView } from '../api/schemas.js';
import type { GpuDrainView } from '../base/view.js';
import { command, exitCodes } from '../cli/command.js';
import { clean, print, printJson } from '../cli/table.js';
import { type Option, UsageError, yesNo } from '../options/options.js';
import { parseCount } from '../options/values.js';

const askAgainMilliseconds = 500;

export const drain = command({
  name: 'drain',
  summary: 'take no new sessions any more, before maintenance',
  about: `The server takes nobody new from now on, and refuses who waits; sessions that run go on. With --gpu that
holds of one GPU: others go on serving. With --move its sessions go to other GPUs meanwhile, one after the other; what
cannot be moved is named, and goes on where it is.
With --wait it ends when the last of them has ended or gone; with --undo the server, or the GPU, is open again.`,
  options: {
    ...apiOptions,
    gpu: {
      env: 'OUTBOARD_DRAIN_GPU',
      value: 'GPU',
      help: 'only this one, by its number in `outboard status`',
      parse: parseCount(0, 1023),
      fallback: null,
      shown: 'the whole server',
    } satisfies Option<number | null>,
    move: yesNo('OUTBOARD_DRAIN_MOVE', 'move the sessions of the GPU to others'),
    undo: yesNo('OUTBOARD_DRAIN_UNDO', 'take new sessions again'),
    wait: yesNo('OUTBOARD_DRAIN_WAIT', 'end when no session runs any more'),
  },
  async run({ gpu, move, undo, wait, json, ...values }) {
    if (undo && wait) throw new UsageError('--undo and --wait exclude each other');
    if (undo && move) throw new UsageError('--undo and --move exclude each other');
    if (move && gpu === null)
      throw new UsageError('--move moves the sessions of one GPU to others: which one? --gpu GPU');
    const client = new ApiClient(values);
    const way = gpu === null ? ofServer(client) : ofGpu(client, gpu, move);
    let now = await (undo ? way.undo() : way.begin());
    let said: string[] = [];
    const tell = () => {
      const lines = way.sentences(now);
      if (!json) print(lines.filter((line) => !said.includes(line)));
      said = lines;
    };
    tell();
    while (wait && now.sessions > 0) {
      await pause(askAgainMilliseconds);
      now = await way.look();
      if (!now.draining) break;
      tell();
    }
    if (json) printJson(now);
    // Somebody else has opened it again while we waited: it never became empty.
    return wait && !now.draining ? exitCodes.unable : exitCodes.ok;
  },
});

/** What is emptied: how to begin and end it, and how far it is. */
interface Way {
  begin(): Promise<Now>;
  undo(): Promise<Now>;
  look(): Promise<Now>;
  sentences(now: Now): string[];
}

type Now = DrainView | GpuDrainView;

function ofServer(client: ApiClient): Way {
  return {
    begin: () => client.drained('PUT'),
    undo: () => client.drained('DELETE'),
    look: () => client.drained('GET'),
    sentences: ({ draining, sessions }) => [
      draining ? `no new sessions are taken; ${stillRun(sessions)}` : 'new sessions are taken',
    ],
  };
}

function ofGpu(client: ApiClient, gpu: number, move: boolean): Way {
  return {
    begin: () => client.drainGpu(gpu, move),
    undo: () => client.gpuDrained('DELETE', gpu),
    look: () => client.gpuDrained('GET', gpu),
    sentences(now) {
      if (!now.draining) return [`GPU ${gpu} takes new sessions`];
      const staying = stayingOf(now);
      return [
        `GPU ${gpu} takes no new sessions; ${stillRun(now.sessions)} there${whatNext(now)}`,
        ...staying.map(({ session, why }) => `session ${session} is waited for: ${clean(why)}`),
      ];
    },
  };
}

function stayingOf(now: Now): GpuDrainView['staying'] {
  return 'staying' in now ? now.staying : [];
}

/** What happens to those of a GPU that are not named one by one, where they are to be moved. */
function whatNext(now: Now): string {
  const staying = stayingOf(now).length;
  const others = now.sessions - staying;
  if (now.draining !== 'moves' || others <= 0) return '';
  if (staying > 0) return `; ${others} of them ${others === 1 ? 'is' : 'are'} being moved`;
  return others === 1
    ? ', and is being moved to another GPU'
    : ', and are being moved to other GPUs, one at a time';
}

function stillRun(sessions: number): string {
  return sessions === 1 ? '1 still runs' : `${sessions} still run`;
}
