import { ApiClient, apiOptions } from '../api/client.js';
import { OutboardError } from '../base/errors.js';
import type { LogLine } from '../base/view.js';
import { command, exitCodes } from '../cli/command.js';
import { clean, colours, type Paint, print, sgr } from '../cli/table.js';
import { type Option, yesNo } from '../options/options.js';
import { parseCount } from '../options/values.js';

export const logs = command({
  name: 'logs',
  summary: 'show the log of a server',
  about: `Shows the newest lines of the log of a server, which keeps some thousands; with --follow those
to come, too, until it is stopped or the server ends. With --json each line is a JSON object.`,
  options: {
    ...apiOptions,
    lines: {
      env: 'OUTBOARD_LOG_LINES',
      value: 'N',
      help: 'how many of the newest lines',
      parse: parseCount(1, 10_000, 'lines'),
      fallback: 100,
      shown: '100',
    } satisfies Option<number>,
    follow: yesNo('OUTBOARD_LOG_FOLLOW', 'go on with the lines to come'),
  },
  letters: { n: 'lines', f: 'follow' },
  async run(values) {
    const client = new ApiClient(values);
    const paint = colours(process.stdout, process.env);
    const show = (lines: LogLine[]) =>
      print(lines.map((line) => (values.json ? JSON.stringify(line) : readable(line, paint))));
    const path = `/v1/logs?lines=${values.lines}`;
    if (!values.follow) {
      show((await client.ask('GET', path)) as LogLine[]);
      return exitCodes.ok;
    }
    // Lines that come while the older ones are asked for are in both; they are shown once.
    const early: LogLine[] = [];
    let listen = (lines: LogLine[]) => {
      early.push(...lines);
    };
    const following = await client.follow((message) => {
      if (message.type !== 'logs') return;
      listen(message.lines);
      if (message.missed > 0)
        process.stderr.write(`outboard: ${message.missed} lines were missed\n`);
    });
    const old = (await client.ask('GET', path)) as LogLine[];
    const seen = new Set(old.map((line) => JSON.stringify(line)));
    show(old);
    listen = (lines) => show(lines.filter((line) => !seen.delete(JSON.stringify(line))));
    listen(early);
    await following.closed;
    throw new OutboardError('OB_API_REACH', client.where, 'the connection has ended');
  },
});

const paints: Record<string, string> = {
  fatal: sgr.red,
  error: sgr.red,
  warn: sgr.yellow,
  debug: sgr.dim,
  trace: sgr.dim,
};

/** 12:34:56.789 WARN message field=value. */
function readable({ time, level, msg, ...fields }: LogLine, paint: Paint): string {
  const rest = Object.entries(fields).map(([name, value]) => {
    const text = typeof value === 'string' ? value : JSON.stringify(value);
    return `${name}=${/^[^\s"]+$/.test(text) ? text : JSON.stringify(text)}`;
  });
  const at = new Date(time).toISOString().slice(11, 23);
  const word = level.toUpperCase().padEnd(5);
  const code = paints[level];
  const tail = rest.length > 0 ? ` ${paint(sgr.dim, clean(rest.join(' ')))}` : '';
  return `${at} ${code ? paint(code, word) : word} ${clean(msg)}${tail}`;
}
