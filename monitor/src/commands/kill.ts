import { ApiClient, apiOptions } from '../api/client.js';
import { command, exitCodes } from '../cli/command.js';
import { print, printJson } from '../cli/table.js';
import { BadValue, type Option } from '../options/options.js';
import { sessionOf } from '../options/session-number.js';

const reasonMost = 200;

export const kill = command({
  name: 'kill',
  summary: 'end sessions, or take programs out of the queue',
  usage: 'SESSION...',
  about: `Ends sessions, by their numbers in \`outboard sessions\`; one that still waits is taken out of
the queue. The program's CUDA calls fail from then on, and it is told the reason.`,
  options: {
    ...apiOptions,
    reason: {
      env: 'OUTBOARD_KILL_REASON',
      value: 'TEXT',
      help: 'what the program and the log are told',
      parse: parseReason,
      fallback: '',
    } satisfies Option<string>,
  },
  takes: { least: 1, most: 1000, what: 'one SESSION or several' },
  async run(values, words) {
    const ids = words.map(sessionOf);
    const client = new ApiClient(values);
    for (const id of ids) {
      const reason = values.reason ? `?reason=${encodeURIComponent(values.reason)}` : '';
      await client.ask('DELETE', `/v1/sessions/${id}${reason}`);
      if (!values.json) print([`session ${id} is ended`]);
    }
    if (values.json) printJson({ ended: ids });
    return exitCodes.ok;
  },
});

function parseReason(text: string): string {
  if (text.length > reasonMost) throw new BadValue(`expected ${reasonMost} characters at most`);
  return text;
}
