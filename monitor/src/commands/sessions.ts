import { ApiClient, apiOptions } from '../api/client.js';
import { command, exitCodes } from '../cli/command.js';
import {
  awayLines,
  queueLines,
  reservedLines,
  sessionLines,
  sessionOrders,
  sorted,
} from '../cli/screen.js';
import { colours, print, printJson } from '../cli/table.js';
import type { Option } from '../options/options.js';
import { parseChoice } from '../options/values.js';

export const sortOption = {
  env: 'OUTBOARD_SORT',
  value: Object.keys(sessionOrders).join('|'),
  help: 'what sessions are sorted by',
  parse: parseChoice(...Object.keys(sessionOrders)),
  fallback: 'id',
  shown: 'id',
} satisfies Option<string>;

export const sessions = command({
  name: 'sessions',
  summary: 'list the sessions of a server, and who waits',
  about: `Lists the sessions that run and the programs that wait for a slot.
OF: the first session of a program with several GPUs, which has a session on each.
MEMORY: what it has mapped, of what is reserved for it; below for each GPU, with who has reserved most and uses it not.
SHARE: REQUEST:LIMIT in percent; ! where an operator has promised more than its tenant's limit.
HAS/OWED: the part of the last second of the GPU that a session had, and had a right to.
HELD: for how long its work was held back by its share; * where it is now.
STATE: away where its guest's connection was cut; below, since when, and until when it is kept
(docs/surviving-a-cut.md).
HINDERED: what it has that could not go with it to another GPU (docs/moving.md).`,
  options: { ...apiOptions, sort: sortOption },
  async run(values) {
    const view = await new ApiClient(values).state();
    const shown = sorted(view.sessions, values.sort);
    if (values.json) {
      printJson({ sessions: shown, queue: view.queue });
      return exitCodes.ok;
    }
    const paint = colours(process.stdout, process.env);
    const { queue } = view;
    const waiting = queueLines(queue, queue.length, queue.length, paint);
    const reserved = reservedLines(view);
    const away = awayLines(view);
    const parts = [sessionLines(shown, paint, { whole: true }), away, reserved, waiting].filter(
      ({ length }) => length > 0,
    );
    print(parts.flatMap((lines, index) => (index === 0 ? lines : ['', ...lines])));
    return exitCodes.ok;
  },
});
