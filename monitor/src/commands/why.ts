import { ApiClient, apiOptions } from '../api/client.js';
import type { DecisionView, WhyView } from '../base/view.js';
import { command, exitCodes } from '../cli/command.js';
import { clean, print, printJson } from '../cli/table.js';
import { sessionOf } from '../options/session-number.js';

export const why = command({
  name: 'why',
  summary: 'tell why a session waits, or is where it is',
  usage: 'SESSION',
  about: `Tells what was decided about a session, and for what reasons: why it was admitted, what it waited
for, why it got its GPU, what a policy did that failed, what its share is, and why it ended. Of one that waits it also
tells what each GPU lacks for it now. It knows the sessions that wait and run, and the last 256 that have gone. Of each
session the first 8 decisions and the last 24 are kept.`,
  options: apiOptions,
  takes: { least: 1, most: 1, what: 'one SESSION' },
  async run(values, [word = '']) {
    const route = `/v1/sessions/${sessionOf(word)}/why`;
    const found = (await new ApiClient(values).ask('GET', route)) as WhyView;
    if (values.json) printJson(found);
    else print(lines(found).map(clean));
    return exitCodes.ok;
  },
});

function lines({ session, tenant, name, state, now, decisions, leftOut }: WhyView): string[] {
  const whose = tenant === '' ? '' : ` of ${tenant}`;
  const wide = Math.max(0, ...decisions.map(({ kind }) => kind.length));
  const missing = leftOut > 0 ? [`  (${leftOut} in the middle are not kept)`] : [];
  return [
    `session ${session} (${name}${whose}): ${state}`,
    ...decisions.map((one) => line(one, wide)),
    ...missing,
    ...now.map((text) => `  now: ${text}`),
  ];
}

function line({ time, last, times, kind, text }: DecisionView, wide: number): string {
  const again = times > 1 ? ` (${times} times, last at ${clock(last)})` : '';
  return `  ${clock(time)}  ${kind.padEnd(wide)}  ${text}${again}`;
}

/** In UTC, as the log has it. */
function clock(time: string): string {
  return time.slice(11, 23);
}
