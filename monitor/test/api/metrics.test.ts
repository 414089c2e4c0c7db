// /metrics: what it counts, what Prometheus says to it, and what the dashboard and rules ask of it.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import t from 'tap';
import { parse } from 'yaml';
import { root } from '../../../bin/paths.mjs';
import { which } from '../../../scripts/setup/command.mjs';
import { Metrics } from '../../src/api/metrics.js';
import { TestApi } from '../support/api.js';
import { gpu, MemoryOperations, session, tenant } from '../support/operations.js';

const folder = path.join(root, 'deploy', 'grafana');

/** Samples by name and labels, as in the text. */
function samplesOf(text: string): Map<string, number> {
  const lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  return new Map(
    lines.map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.split(' ').at(-1))]),
  );
}

class Scraped {
  readonly operations = new MemoryOperations();
  readonly metrics = new Metrics('gpu-1', '0.1.0');

  async scrape() {
    return samplesOf(await this.metrics.text(this.operations.view()));
  }

  /** Of the metric with these labels, which are all it has beside Hostname. */
  async value(name: string, labels: Record<string, string> = {}): Promise<number | undefined> {
    for (const [key, value] of await this.scrape()) {
      const [found, list = ''] = key.split(/[{}]/);
      const pairs = [...list.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map(([, k, v]) => [k, v]);
      const { Hostname, ...rest } = Object.fromEntries(pairs);
      const same =
        JSON.stringify(Object.entries(rest).sort()) ===
        JSON.stringify(Object.entries(labels).sort());
      if (found === name && same && Hostname === 'gpu-1') return value;
    }
    return undefined;
  }
}

const onGpu = {
  gpu: '0',
  UUID: 'GPU-00000000-0000-0000-0000-000000000000',
  modelName: 'Software Device',
};
const ofAcme = { ...onGpu, tenant: 'acme' };

t.test('gauges show the view', async (t) => {
  const scraped = new Scraped();
  const { operations } = scraped;
  operations.sessions = [session(1), session(2), session(3, { tenant: 'other', gpu: 0 })];
  const expected: [string, Record<string, string>, number][] = [
    ['outboard_gpu_healthy', onGpu, 1],
    ['outboard_gpu_memory_bytes', onGpu, 8 * 2 ** 30],
    ['outboard_gpu_memory_reserved_bytes', onGpu, 2 * 2 ** 30],
    ['outboard_gpu_busy_ratio', onGpu, 0.55],
    ['outboard_gpu_share_requested_ratio', onGpu, 0.3],
    ['outboard_gpu_slots_host_memory_bytes', onGpu, 200e6],
    ['outboard_slots', { ...onGpu, state: 'busy' }, 1],
    ['outboard_slots', { ...onGpu, state: 'starting' }, 0],
    ['outboard_sessions', ofAcme, 2],
    ['outboard_sessions', { ...onGpu, tenant: 'other' }, 1],
    ['outboard_session_memory_used_bytes', ofAcme, 2 * 2 ** 30],
    ['outboard_session_share_owed_ratio', ofAcme, 0.6],
    ['outboard_session_share_received_ratio', ofAcme, 0.57],
    ['outboard_queue_length', {}, 1],
    ['outboard_queue_oldest_seconds', {}, 3.5],
    ['outboard_draining', {}, 0],
    ['outboard_tenant_queued', { tenant: 'acme' }, 1],
    ['outboard_tenant_sessions_limit', { tenant: 'acme' }, 4],
    ['outboard_build_info', { version: '0.1.0', node: process.versions.node }, 1],
  ];
  for (const [name, labels, value] of expected) {
    t.equal(await scraped.value(name, labels), value, `${name} ${JSON.stringify(labels)}`);
  }
  operations.sessions = [];
  t.equal(await scraped.value('outboard_sessions', ofAcme), undefined, 'gone with its sessions');
});

t.test('counters go on when sessions end, and count nothing twice', async (t) => {
  const scraped = new Scraped();
  const { operations, metrics } = scraped;
  const ran = (id: number, commands: number, seconds: number) => {
    const before = session(id);
    return session(id, { seconds, counters: { ...before.counters, commands } });
  };
  const totals = async () => [
    await scraped.value('outboard_commands_total', ofAcme),
    await scraped.value('outboard_session_seconds_total', ofAcme),
  ];
  operations.sessions = [];
  metrics.observe(operations.view());
  metrics.began(ran(1, 0, 0), 0.004, 0);
  t.same(await totals(), [0, 0], 'there from the start');
  operations.sessions = [ran(1, 100, 2)];
  t.same(await totals(), [100, 2]);
  t.same(await totals(), [100, 2], 'asked again');
  operations.sessions = [ran(1, 150, 3), ran(2, 10, 1)];
  t.same(await totals(), [160, 4]);
  metrics.ended(ran(1, 170, 4), 'closed');
  t.same(await totals(), [180, 5], 'ended, and still in the view');
  operations.sessions = [ran(2, 10, 1)];
  t.same(await totals(), [180, 5], 'out of the view');
  operations.sessions = [];
  t.same(await totals(), [180, 5], 'out of the view, and not ended yet');
  metrics.ended(ran(2, 30, 2), 'closed');
  metrics.ended(ran(2, 30, 2), 'closed');
  t.same(await totals(), [200, 6]);
  metrics.began(ran(3, 0, 0), 0.1, 0.05);
  metrics.ended(ran(3, 5, 1), 'violation');
  t.same(await totals(), [205, 7], 'one that no view ever showed');
  t.equal(await scraped.value('outboard_sessions_started_total', ofAcme), 2);
  t.equal(await scraped.value('outboard_sessions_ended_total', { ...ofAcme, reason: 'closed' }), 2);
  t.equal(await scraped.value('outboard_attach_seconds_count'), 2);
  t.equal(await scraped.value('outboard_attach_seconds_bucket', { le: '0.005' }), 1);
  t.equal(await scraped.value('outboard_queue_wait_seconds_sum'), 0.05);
});

t.test('refusals and slots', async (t) => {
  const scraped = new Scraped();
  const { metrics } = scraped;
  t.equal(await scraped.value('outboard_slots_lost_total', onGpu), 0);
  metrics.slotLost(0);
  t.equal(await scraped.value('outboard_slots_lost_total', onGpu), 1);
  metrics.slotReady(0, 0.3);
  t.equal(await scraped.value('outboard_slot_start_seconds_sum'), 0.3);
  metrics.refused('OB_QUEUE_FULL');
  metrics.refused('OB_QUEUE_FULL');
  t.equal(await scraped.value('outboard_refusals_total', { code: 'OB_QUEUE_FULL' }), 2);
  metrics.policyFailed('dilu', 'slow');
  const failed = { policy: 'dilu', why: 'slow' };
  t.equal(await scraped.value('outboard_policy_failures_total', failed), 1);
});

t.test('no session is a label, and tenants are bounded', async (t) => {
  const scraped = new Scraped();
  const { operations } = scraped;
  const before = (await scraped.scrape()).size;
  for (let id = 100; id < 600; id++) {
    operations.sessions = [session(id, { seconds: 1 })];
    scraped.metrics.observe(operations.view());
    scraped.metrics.ended(session(id), 'closed');
  }
  const after = await scraped.scrape();
  t.ok(after.size < before + 20, `${before}, then ${after.size} series`);
  t.notMatch([...after.keys()].join(), /session="|id="|pid="/);
  for (let id = 1000; id < 3000; id++) {
    operations.sessions = [session(id, { tenant: `tenant-${id}` })];
    scraped.metrics.observe(operations.view());
  }
  const keys = [...(await scraped.scrape()).keys()];
  const series = keys.filter((key) => key.startsWith('outboard_commands_total'));
  t.equal(series.length, 1001);
  t.ok(series.some((key) => key.includes('tenant="other"')));
});

const promtool = tool('promtool');
const prometheus = tool('prometheus');
const weird = 'a "tenant"\\ with\nnewlines {and} more';

/** An API with something of everything to measure. */
async function full(t: Parameters<typeof TestApi.start>[0]): Promise<TestApi> {
  const api = await TestApi.start(t);
  const { operations, metrics } = api;
  operations.tenants = [tenant('acme'), tenant(weird)];
  operations.sessions = [session(1), session(2, { tenant: weird })];
  operations.gpus = [gpu(0), gpu(1, { healthy: false })];
  for (const one of operations.sessions) metrics.began(one, 0.003, 0.001);
  metrics.ended(session(9), 'closed');
  metrics.refused('OB_SHARE');
  metrics.slotReady(0, 0.2);
  metrics.slotLost(1);
  return api;
}

t.test('promtool finds nothing to say', { skip: promtool.skip }, async (t) => {
  const api = await full(t);
  const { text, headers } = await api.ask('GET', '/metrics');
  t.match(headers['content-type'], /^text\/plain; version=0\.0\.4/);
  const { output } = await run(promtool.path, ['check', 'metrics'], text);
  // It would write modelName in another way; but that is what dcgm-exporter calls it.
  const camel = /label names should be written in 'snake_case' not 'camelCase'$/;
  t.same(
    output.split('\n').filter((line) => line !== '' && !camel.test(line)),
    [],
  );
  const labels = [...text.matchAll(/[{,](\w+)="/g)].map(([, label]) => label);
  t.same([...new Set(labels.filter((label) => /[a-z][A-Z]/.test(label ?? '')))], ['modelName']);
  for (const [, name] of text.matchAll(/^# TYPE (\S+)/gm)) {
    t.match(text, new RegExp(`^# HELP ${name} \\S`, 'm'), String(name));
  }
});

t.test(
  'promtool takes the rules, and they do as their tests say',
  { skip: promtool.skip },
  async (t) => {
    const rules = path.join(folder, 'alerts.yaml');
    t.match(await run(promtool.path, ['check', 'rules', rules]), { code: 0, output: /SUCCESS/ });
    const tests = path.join(folder, 'alerts.test.yaml');
    t.match(await run(promtool.path, ['test', 'rules', tests]), { code: 0, output: /SUCCESS/ });
    const tested = new Set(readFileSync(tests, 'utf8').match(/(?<=alertname: )\w+/g));
    for (const name of readFileSync(rules, 'utf8').match(/(?<=alert: )\w+/g) ?? []) {
      t.ok(tested.has(name), `${name} has a test`);
    }
  },
);

interface Panel {
  title: string;
  targets?: { expr: string }[];
  panels?: Panel[];
}

/** Every expression of the dashboard and the rules. */
function expressions(): [string, string][] {
  const dashboard = JSON.parse(readFileSync(path.join(folder, 'dashboard.json'), 'utf8'));
  const panels = (dashboard.panels as Panel[]).flatMap((panel) => [panel, ...(panel.panels ?? [])]);
  const { groups } = parse(readFileSync(path.join(folder, 'alerts.yaml'), 'utf8'));
  const rules: { alert: string; expr: string }[] = groups.flatMap(
    (group: { rules: [] }) => group.rules,
  );
  return [
    ...panels.flatMap(({ title, targets = [] }) =>
      targets.map(({ expr }): [string, string] => [title, expr]),
    ),
    ...dashboard.templating.list.flatMap(
      ({ name, query }: { name: string; query: { query?: string } }) =>
        query.query === undefined ? [] : [[name, query.query]],
    ),
    ...rules.map(({ alert, expr }): [string, string] => [alert, expr]),
  ];
}

t.test('the dashboard has its variables', async (t) => {
  const dashboard = JSON.parse(readFileSync(path.join(folder, 'dashboard.json'), 'utf8'));
  const names = dashboard.templating.list.map(({ name }: { name: string }) => name);
  t.same(names, ['datasource', 'node', 'UUID']);
  const ids = dashboard.panels.map(({ id }: { id: number }) => id);
  t.equal(new Set(ids).size, ids.length);
  t.match(JSON.stringify(dashboard), /"uid":"\$\{datasource\}"/);
  t.notMatch(JSON.stringify(dashboard), /"uid":"(?!\$\{datasource\}|outboard")/);
});

t.test('each metric that the dashboard and the rules name is there', async (t) => {
  const api = await full(t);
  const { text } = await api.ask('GET', '/metrics');
  const there = new Set([...samplesOf(text).keys()].map((key) => key.split('{')[0]));
  let count = 0;
  for (const [where, expr] of expressions()) {
    for (const name of expr.match(/\b(?:outboard|process|nodejs)_\w+/g) ?? []) {
      count++;
      t.ok(there.has(name), `${where}: ${name}`);
    }
  }
  t.ok(count > 40);
});

t.test('Prometheus scrapes it, and answers the dashboard', { skip: prometheus.skip }, async (t) => {
  const api = await full(t);
  const home = mkdtempSync(path.join(tmpdir(), 'outboard-prometheus-'));
  t.teardown(() => rmSync(home, { recursive: true, force: true }));
  const config = path.join(home, 'prometheus.yml');
  writeFileSync(
    config,
    JSON.stringify({
      global: { scrape_interval: '200ms', evaluation_interval: '200ms' },
      rule_files: [path.join(folder, 'alerts.yaml')],
      scrape_configs: [
        { job_name: 'outboard', static_configs: [{ targets: [`127.0.0.1:${api.port}`] }] },
      ],
    }),
  );
  const port = await freePort();
  const child = spawn(
    prometheus.path,
    [
      `--config.file=${config}`,
      `--storage.tsdb.path=${path.join(home, 'data')}`,
      `--web.listen-address=127.0.0.1:${port}`,
    ],
    { stdio: ['ignore', 'ignore', 'pipe'] },
  );
  let log = '';
  child.stderr.on('data', (chunk) => {
    log += chunk;
  });
  const gone = once(child, 'exit');
  t.teardown(async () => {
    child.kill();
    await gone;
  });
  const ask = async (route: string) => {
    const answer = await fetch(`http://127.0.0.1:${port}/api/v1/${route}`);
    return (await answer.json()) as { status: string; error?: string; data: Answer };
  };
  const query = async (expr: string) => ask(`query?query=${encodeURIComponent(expr)}`);
  /** Until the series has come in; a Prometheus that ends ends the waiting, too. */
  const settled = async (expr: string): Promise<Sample[]> => {
    for (;;) {
      if (child.exitCode !== null) throw new Error(`Prometheus ended:\n${log}`);
      const { data } = await query(expr).catch(() => ({ data: { result: [] } }));
      if (data.result.length > 0) return data.result;
      await pause(100);
    }
  };
  await settled('up{job="outboard"} == 1');
  // Two samples at least, for rates.
  await settled('count_over_time(outboard_commands_total[1m]) >= 3');
  const [found] = await settled('outboard_sessions{tenant!="acme"}');
  t.equal(found?.metric['tenant'], weird, 'a strange name comes through as it is');
  const joined = await settled(
    'outboard_sessions * on (UUID) group_left () outboard_gpu_busy_ratio',
  );
  t.equal(joined.length, 2, 'joined by UUID');
  for (const [where, expr] of expressions()) {
    if (expr.startsWith('label_values(')) continue;
    const plain = expr.replaceAll('$__rate_interval', '1m').replace(/\$(node|UUID)/g, '.*');
    const answer = await query(plain);
    t.equal(answer.status, 'success', `${where}: ${plain}: ${answer.error ?? ''}`);
  }
  const busy = await settled('outboard_gpu_busy_ratio{gpu="0"}');
  t.equal(Number(busy[0]?.value[1]), 0.55);
  const firing = await settled('ALERTS{alertname="OutboardGpuUnhealthy"}');
  t.match(firing, [{ metric: { gpu: '1', alertstate: 'pending' } }]);
  const targets = await ask('targets');
  t.match(targets, { data: { activeTargets: [{ health: 'up', lastError: '' }] } });
});

interface Sample {
  metric: Record<string, string>;
  value: [number, string];
}
interface Answer {
  result: Sample[];
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  server.close();
  await once(server, 'close');
  return port;
}

async function run(command: string, args: string[], input = '') {
  const child = spawn(command, args);
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk) => {
      output += chunk;
    });
  }
  // What it says tells why it did not read all.
  child.stdin.on('error', () => {}).end(input);
  const [code] = await once(child, 'close');
  return { code, output };
}

function tool(name: string): { path: string; skip: string | false } {
  const found = which(name, process.env['PATH'] ?? '');
  return {
    path: found ?? name,
    skip: found ? false : `${name} is not installed (Debian: prometheus)`,
  };
}
