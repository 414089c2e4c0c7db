import { setTimeout as pause } from 'node:timers/promises';
import { ApiClient, apiOptions } from '../api/client.js';
import type { MovePhase, MoveView, SessionView } from '../base/view.js';
import { command, exitCodes } from '../cli/command.js';
import { print, printJson } from '../cli/table.js';
import { type Option, yesNo } from '../options/options.js';
import { sessionOf } from '../options/session-number.js';
import { parseCount } from '../options/values.js';

/** Images of modules may have to be compiled there, and all memory goes over. */
const answerSeconds = 600;
const lookMilliseconds = 100;

/** What is being done, the end of a sentence. */
const phases: Record<MovePhase, string> = {
  starting: 'a process is started for it',
  preparing: 'the process takes its addresses',
  transferring: 'what it has goes over',
};

const within = yesNo('OUTBOARD_MOVE_WITHIN', 'to a new process on the same GPU');

export const move = command({
  name: 'move',
  summary: 'move sessions to another GPU, while their programs run',
  usage: 'SESSION...',
  about: `Moves sessions, by their numbers in \`outboard sessions\`, to another GPU of their server, or to a new
process on the same one. Their programs go on, and notice only that it takes a moment. What a session has that could
not go with it is listed there under HINDERED; a session that cannot be moved goes on where it is. What is being done
is said on standard error as it comes.`,
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
      const moving = client.ask('PUT', route, body, answerSeconds) as Promise<MoveView>;
      if (!values.json) await tellPhases(client, id, moving);
      const one = await moving;
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

/** Until it has been answered. One who may move sessions may see them; where that fails, the answer tells why. */
async function tellPhases(client: ApiClient, id: number, moving: Promise<unknown>) {
  let over = false;
  const answered = moving
    .catch(() => {})
    .then(() => {
      over = true;
    });
  let said: MovePhase | null = null;
  while (!over) {
    const looked = client.ask('GET', `/v1/sessions/${id}`) as Promise<SessionView>;
    const view = await Promise.race([looked.catch(() => null), answered]);
    const phase = view?.moving ?? null;
    if (phase !== null && phase !== said) {
      said = phase;
      process.stderr.write(`session ${id}: ${phases[phase]}\n`);
    }
    await Promise.race([pause(lookMilliseconds), answered]);
  }
}
