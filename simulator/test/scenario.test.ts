// Scenarios: what their files may say, what comes out, and that the command shows it.
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { root } from '../../bin/paths.mjs';
import { page, plot, reportLines } from '../scenario/report.js';
import { runScenario } from '../scenario/run.js';
import { parseScenario, readScenario } from '../scenario/scenario.js';
import { parseServerLog } from '../traces/server-log.js';

const gpus = 'gpus: { count: 2, memory: 16GiB, slots: 2 }';
const one = 'sessions: [{ name: f, perHour: 60, seconds: 20, memory: 4GiB, share: "10:50" }]';

t.test('what a scenario may say, and what is left out', async (t) => {
  const scenario = parseScenario(`${gpus}\n${one}\nplacement: [dilu, pack]`, '/a/b.yaml');
  t.match(scenario, {
    ...{ name: 'b.yaml', placement: ['dilu', 'pack'], queueSkip: [false], hours: 1, seed: 1 },
    ...{ sharingGain: null, log: null, parameters: { omega: 1, gamma: 1.5 } },
    gpus: { count: 2, memory: 16n << 30n, slots: 2 },
    kinds: [{ name: 'f', tenant: '', share: { request: 10, limit: 50 }, memory: 4n << 30n }],
  });
  t.same(scenario.queue, ['first-come']);
  t.equal(parseScenario(`${gpus}\nlog: c.log`, '/a/b.yaml').log, '/a/c.log');
});

t.test('what is wrong is named, and what is expected there', async (t) => {
  const wrong: [string, RegExp][] = [
    ['', /^s\.yaml: the file: expected fields with names/],
    ['a: [', /^s\.yaml: /],
    [one, /^s\.yaml: gpus: expected fields/],
    [gpus, /^s\.yaml: nobody comes/],
    [`${gpus}\n${one}\nplacements: []`, /placements is unknown: expected some of gpus, placement/],
    [`${gpus}\n${one}\nplacement: [delu]`, /placement is "delu": expected some of worst-fit/],
    [`${gpus}\n${one}\nplacement: []`, /placement is \[\]: expected a list/],
    [
      `${gpus}\n${one}\nqueue: [last]`,
      /queue is "last": expected some of first-come, strict-first/,
    ],
    [`${gpus}\n${one}\nhours: 0`, /hours is 0: expected a number from 0.001/],
    [`${gpus}\n${one}\nqueueSkip: [maybe]`, /queueSkip is "maybe": expected true and false/],
    [`gpus: { count: 1.5, memory: 1GiB, slots: 1 }\n${one}`, /gpus.count is 1.5: expected a whole/],
    [
      `gpus: { count: 1, memory: much, slots: 1 }\n${one}`,
      /gpus.memory is "much": expected an amount/,
    ],
    [`gpus: { count: 1, memory: 1GiB, slots: 1, x: 1 }\n${one}`, /gpus.x is unknown/],
    [`${gpus}\nsessions: [{ name: f, perHour: 1 }]`, /sessions\[0\].seconds is missing/],
    [`${gpus}\nsessions: [{ name: f, perHour: 1, seconds: 1, share: "9:5" }]`, /share is "9:5"/],
    [
      `${gpus}\nsessions: [{ name: f, perHour: 1, seconds: 1, class: x }]`,
      /class is "x": expected lat/,
    ],
  ];
  for (const [text, message] of wrong) t.throws(() => parseScenario(text, 's.yaml'), message, text);
  t.throws(() => readScenario('/nowhere/s.yaml'), /^\/nowhere\/s\.yaml: ENOENT/);
});

t.test('the same sessions for each policy, the same each time', async (t) => {
  const scenario = parseScenario(`${gpus}\n${one}\nqueueSkip: [false, true]`, 's.yaml');
  const result = runScenario(scenario);
  t.equal(result.rows.length, 10);
  for (const row of result.rows) {
    t.equal(row.arrived, result.sessions);
    t.equal(row.done, result.sessions);
    t.equal(row.waits.length, 101);
  }
  const plain = ({ rows }: typeof result) => rows.map((row) => ({ ...row, tookSeconds: 0 }));
  t.same(plain(runScenario(scenario)), plain(result));
  const busy = parseScenario(`${gpus}\n${one.replace('60,', '600,')}`, 's.yaml');
  t.ok((runScenario(busy).rows[0]?.wait.p50 ?? 0) > (result.rows[0]?.wait.p50 ?? 0));
  const lines = reportLines(result);
  t.match(lines[0], /Simulated: this is advice/);
  t.equal(lines.filter((line) => /^(worst-fit|best-fit|spread|pack|dilu) /.test(line)).length, 10);
  t.equal(plot(result).match(/<polyline/g)?.length, 10);
  t.notMatch(page({ ...result, scenario: '<b>' }), '<b>');
});

t.test('another order of the queue: strict ones wait less, best-effort ones more', async (t) => {
  const kind = 'perHour: 300, seconds: 20, memory: 4GiB';
  const kinds = `sessions: [{ name: f, ${kind} }, { name: g, class: best-effort, ${kind} }]`;
  const text = `${gpus}\n${kinds}\nplacement: [worst-fit]\nqueue: [first-come, strict-first]`;
  const { rows } = runScenario(parseScenario(text, 's.yaml'));
  const [come, strict] = rows.map(({ waitOf }) => waitOf);
  t.same(
    rows.map(({ queue, done, left }) => [queue, done, left]),
    ['first-come', 'strict-first'].map((queue) => [queue, rows[0]?.done, 0]),
  );
  t.ok((strict?.['latency-strict'] ?? 9) < (come?.['latency-strict'] ?? 0) / 2);
  t.ok((strict?.['best-effort'] ?? 0) > (come?.['best-effort'] ?? 9));
});

const at = (second: number) => new Date(1_700_000_000_000 + 1000 * second).toISOString();
const line = (second: number, msg: string, fields: object) =>
  JSON.stringify({ level: 30, time: at(second), ...fields, msg });

t.test('the log of a server: what began and ended in it', async (t) => {
  const which = { name: 'f', tenant: 'a', memory: 1 << 20 };
  const text = [
    line(0, 'listening', {}),
    'session 1 begins, for a person at a terminal',
    line(9, 'session ends: its guest left', { session: 7, seconds: 3 }),
    line(10, 'session begins', {
      ...{ session: 1, waited: 4, class: 'best-effort', share: { request: 10, limit: 50 } },
      ...which,
    }),
    line(12, 'session begins', { session: 2, waited: 0, attach: 2, name: 'g', memory: 5 }),
    line(12, 'session begins', { session: 2, waited: 0, name: 'g', memory: 5 }),
    line(15, 'session ends: its guest left', { session: 1, seconds: 5.5 }),
    line(20, 'session lost: its process ended', { session: 2 }),
    line(30, 'session begins', { session: 1, waited: 0, ...which }),
    line(40, 'session begins', { session: 1, waited: 0, ...which }),
  ].join('\n');
  const { jobs, incomplete, unreadable } = parseServerLog(text);
  t.equal(incomplete, 3, 'one without a beginning, one that began anew, one without an end');
  t.equal(unreadable, 1);
  t.match(jobs, [
    {
      ...{ arrives: 0, work: 5.5 },
      request: {
        ...{ tenant: 'a', name: 'f', memory: 1n << 20n, shareRequest: 10, shareLimit: 50 },
        class: 'best-effort',
      },
    },
    { arrives: 4, work: 8, request: { tenant: '', name: 'g', shareLimit: 100 } },
  ]);
  t.same(parseServerLog('').jobs, []);
});

t.test('scenarios that are committed run', async (t) => {
  const file = path.join(root, 'simulator', 'scenarios', 'inference-and-training.yaml');
  const { rows } = runScenario({ ...readScenario(file), hours: 0.5 });
  t.equal(rows.length, 10);
  t.match(readScenario(path.join(root, 'simulator', 'scenarios', 'own-log.yaml')), { kinds: [] });
});

t.test('outboard simulate', async (t) => {
  const folder = t.testdir();
  const file = path.join(folder, 's.yaml');
  writeFileSync(file, `${gpus}\n${one}\nplacement: [dilu]\nhours: 0.1\n`);
  const run = (...args: string[]) => {
    const command = [path.join(root, 'bin', 'outboard.mjs'), 'simulate', ...args];
    return spawnSync(process.execPath, command, { encoding: 'utf8' });
  };
  const out = path.join(folder, 'out');
  const shown = run(file, '--out', out);
  t.match(shown, {
    status: 0,
    stdout: /dilu +first-come +no/,
    stderr: /dilu, first-come: \d+ events/,
  });
  for (const name of ['index.html', 'waits.svg', 'result.json'])
    t.ok(existsSync(path.join(out, name)));
  t.match(JSON.parse(readFileSync(path.join(out, 'result.json'), 'utf8')), {
    rows: [{ policy: 'dilu' }],
  });
  t.match(JSON.parse(run(file, '--json').stdout), { rows: [{ policy: 'dilu' }] });
  t.match(run(path.join(folder, 'none.yaml')), { status: 2, stderr: /none\.yaml: ENOENT/ });
  t.match(run(), { status: 2, stderr: /simulate takes a file, SCENARIO.yaml/ });
  writeFileSync(file, `${gpus}\nlog: s.yaml\n`);
  t.match(run(file), { status: 2, stderr: /s\.yaml: no session that begins and ends in it/ });
});
