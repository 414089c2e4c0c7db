import { ApiClient, apiOptions } from '../api/client.js';
import type { MoveView } from '../base/view.js';
import { command, exitCodes } from '../cli/command.js';
import { print, printJson } from '../cli/table.js';
import { type Option, yesNo } from '../options/options.js';
import { sessionOf } from '../options/session-number.js';
import { parseCount } from '../options/values.js';

/** Images of modules may have to be compiled there, and all memory goes over. */
const answerSeconds = 600;

const within = yesNo('OUTBOARD_MOVE_WITHIN', 'to a new process on the same GPU');

export const move = command({
  name: 'move',
  summary: 'move sessions to another GPU, while their programs run',
  usage: 'SESSION...',
  about: `Moves sessions, by their numbers in \`outboard sessions\`, to another GPU of their server, or to a new
process on the same one. Their programs go on, and notice only that it takes a moment. What a session has that could
not go with it is listed there under HINDERED; a session that cannot be moved goes on where it is.`,
  options: {
    ...apiOptions,
    to: {
      env: 'OUTBOARD_MOVE_TO',
      value: 'GPU',
      help: 'the GPU, by its number in `outboard status`',
      parse: parseCount(0, 1023),
      fallback: null,
      shown: 'another one that it fits on, with most memory left',
    } satisfies Option<number | null>,
    within,
  },
  takes: { least: 1, most: 1000, what: 'one SESSION or several' },
  async run(values, words) {
    const ids = words.map(sessionOf);
    const client = new ApiClient(values);
    const moved: MoveView[] = [];
    for (const id of ids) {
      const body = { ...(values.to !== null && { gpu: values.to }), within: values.within };
      const route = `/v1/sessions/${id}/place`;
      const one = (await client.ask('PUT', route, body, answerSeconds)) as MoveView;
      moved.push(one);
      if (values.json) continue;
      const { from, to, seconds, stoppedSeconds } = one;
      const where = `from slot ${from.gpu}.${from.slot} to ${to.gpu}.${to.slot}`;
      print([
        `session ${id} has moved ${where} in ${seconds.toFixed(2)} s; it stood still for ${Math.round(stoppedSeconds * 1000)} ms`,
      ]);
    }
    if (values.json) printJson({ moved });
    return exitCodes.ok;
  },
});
