import { setTimeout as pause } from 'node:timers/promises';
import { ApiClient, apiOptions } from '../api/client.js';
import type { DrainView } from '../api/schemas.js';
import { command, exitCodes } from '../cli/command.js';
import { print, printJson } from '../cli/table.js';
import { UsageError, yesNo } from '../options/options.js';

const askAgainMilliseconds = 500;

export const drain = command({
  name: 'drain',
  summary: 'take no new sessions any more, before maintenance',
  about: `The server takes nobody new from now on, and refuses who waits; sessions that run go on.
With --wait it ends when the last of them has ended; with --undo the server is open again.`,
  options: {
    ...apiOptions,
    undo: yesNo('OUTBOARD_DRAIN_UNDO', 'take new sessions again'),
    wait: yesNo('OUTBOARD_DRAIN_WAIT', 'end when no session runs any more'),
  },
  async run(values) {
    if (values.undo && values.wait) throw new UsageError('--undo and --wait exclude each other');
    const client = new ApiClient(values);
    let now = await client.drained(values.undo ? 'DELETE' : 'PUT');
    if (!values.json) print([sentence(now)]);
    while (values.wait && now.sessions > 0) {
      await pause(askAgainMilliseconds);
      const before = now.sessions;
      now = await client.drained('GET');
      if (!now.draining) break;
      if (!values.json && now.sessions !== before) print([sentence(now)]);
    }
    if (values.json) printJson(now);
    // Somebody else has opened it again while we waited: it never became empty.
    return values.wait && !now.draining ? exitCodes.unable : exitCodes.ok;
  },
});

function sentence({ draining, sessions }: DrainView): string {
  if (!draining) return 'new sessions are taken';
  return `no new sessions are taken; ${sessions === 1 ? '1 still runs' : `${sessions} still run`}`;
}
