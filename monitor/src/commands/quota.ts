import { ApiClient, apiOptions } from '../api/client.js';
import type { SessionView } from '../base/view.js';
import { command, exitCodes } from '../cli/command.js';
import { print, printJson } from '../cli/table.js';
import { UsageError, yesNo } from '../options/options.js';
import { sessionOf } from '../options/session-number.js';

const beyondLimit = yesNo(
  'OUTBOARD_BEYOND_LIMIT',
  "also where its tenant's sessions are promised more than the tenant's limit then",
);

export const quota = command({
  name: 'quota',
  summary: 'change the share of a GPU that a session has',
  usage: 'set SESSION REQUEST[:LIMIT]',
  about: `Changes how much of the time of its GPU a session is promised, and at most gets, in percent.
LIMIT left out: the same as REQUEST. REQUEST 0: nothing is promised. It holds at once.
More than the limit of its tenant leaves is refused, unless --beyond-limit says that it is meant; the session is
then marked (\`sessions\`, \`top\` and the page).`,
  options: { ...apiOptions, 'beyond-limit': beyondLimit },
  words: ['set'],
  takes: { least: 3, most: 3, what: 'set SESSION REQUEST[:LIMIT]' },
  async run(values, [verb = '', word = '', text = '']) {
    if (verb !== 'set') throw new UsageError(`quota cannot ${verb}; it can set`);
    const id = sessionOf(word);
    const share = { ...shareOf(text), ...(values['beyond-limit'] && { beyondLimit: true }) };
    const answer = await new ApiClient(values).ask('PUT', `/v1/sessions/${id}/share`, share);
    const { share: now } = answer as SessionView;
    if (values.json) printJson(answer);
    else {
      const beyond = now.beyondLimit ? ", which is beyond its tenant's limit" : '';
      print([`session ${id} has ${now.request} percent, at most ${now.limit}${beyond}`]);
    }
    return exitCodes.ok;
  },
});

function shareOf(text: string): { request: number; limit: number } {
  const [, first, second] = /^(\d+)(?::(\d+))?$/.exec(text) ?? [];
  const request = Number(first);
  const limit = second === undefined ? request : Number(second);
  if (first === undefined || limit < 1 || limit > 100 || limit < request) {
    throw new UsageError(
      `${text} is no share: expected percent as REQUEST or REQUEST:LIMIT, the limit from 1 to 100 and not below the request`,
    );
  }
  return { request, limit };
}
