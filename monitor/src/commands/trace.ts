import { closeSync, openSync, writeSync } from 'node:fs';
import path from 'node:path';
import { OutboardError } from '../base/errors.js';
import { command, exitCodes } from '../cli/command.js';
import { print } from '../cli/table.js';
import { type Option, yesNo } from '../options/options.js';
import { chromeTrace } from '../trace/chrome.js';
import type { ClockMap } from '../trace/clocks.js';
import { perfettoTrace } from '../trace/perfetto.js';
import { type Recording, readRecording } from '../trace/recording.js';
import { makeTimeline } from '../trace/timeline.js';

export const trace = command({
  name: 'trace',
  summary: 'make a trace that Perfetto shows of what guest and server recorded',
  usage: 'FILE [FILE]',
  about: `Reads what \`outboard run --trace\` recorded, what \`outboard serve --trace-dir\` recorded of the same
session, or both, and writes them on one time axis. The result opens in https://ui.perfetto.dev,
which sends it nowhere, or in any other viewer of Perfetto's or of Chrome's format.

The clocks of two machines are compared by the messages that passed between them; how exact that
is stands in what is printed, and in the trace.`,
  options: {
    output: {
      env: 'OUTBOARD_TRACE_OUTPUT',
      value: 'FILE',
      help: 'where to write it',
      parse: (text) => path.resolve(text),
      fallback: null,
      shown: "the first file's name with .pftrace or .json",
    } satisfies Option<string | null>,
    json: yesNo('OUTBOARD_TRACE_JSON', "write Chrome's JSON instead of Perfetto's format"),
  },
  letters: { o: 'output' },
  takes: { least: 1, most: 2, what: 'a file that a guest recorded, one of a server, or both' },
  async run({ output, json }, files) {
    const { guest, server } = pair(files.map(readRecording));
    const timeline = makeTimeline(guest, server);
    const ending = json ? '.json' : '.pftrace';
    const file =
      output ?? path.resolve(`${(files[0] ?? 'trace').replace(/\.trace$/, '')}${ending}`);
    write(file, json ? chromeTrace(timeline) : perfettoTrace(timeline));
    const said = [`wrote ${file}`, ...[guest, server].flatMap(describe)];
    if (timeline.clocks) said.push(describeClocks(timeline.clocks, timeline.facts));
    print(said);
    return exitCodes.ok;
  },
});

function pair(recordings: Recording[]) {
  const [first, second] = recordings;
  if (first && second) {
    if (first.role === second.role) {
      throw new OutboardError('OB_TRACE_PAIR', `both were recorded by a ${first.role}`);
    }
    if (first.session && second.session && first.session !== second.session) {
      const sessions = `${first.session} and ${second.session}`;
      throw new OutboardError('OB_TRACE_PAIR', `they are of different sessions, ${sessions}`);
    }
  }
  const of = (role: string) => recordings.find((recording) => recording.role === role) ?? null;
  return { guest: of('guest'), server: of('server') };
}

function write(file: string, pieces: Iterable<Uint8Array | string>) {
  try {
    const fd = openSync(file, 'w');
    for (const piece of pieces) {
      const bytes = Buffer.from(piece as Uint8Array);
      for (let at = 0; at < bytes.length; ) at += writeSync(fd, bytes, at);
    }
    closeSync(fd);
  } catch (error) {
    throw new OutboardError('OB_TRACE_WRITE', file, (error as Error).message);
  }
}

function describe(recording: Recording | null): string[] {
  if (!recording) return [];
  const { role, host, program, process, events, lost } = recording;
  const missing = lost > 0 ? `; ${lost} earlier ones are missing: the file was too small` : '';
  return [`${role}: ${program} (${process}) on ${host}, ${events.length} events${missing}`];
}

function describeClocks({ method, within }: ClockMap, facts: Record<string, unknown>): string {
  const ahead = Number(facts['clocks.ahead_ns']) / 1000;
  switch (method) {
    case 'same':
      return 'clocks: guest and server had the same';
    case 'estimated':
      return `clocks: the server's is ahead by ${ahead} us, +- ${Math.ceil(within / 1000)} us`;
    case 'none':
      return 'clocks: no message to compare them by; by the time of day, which may be far off';
  }
}
