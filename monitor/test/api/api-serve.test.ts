// From one end to the other: a real `outboard serve`, guests, and what operators see of them and do.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import t from 'tap';
import { WebSocket } from 'ws';
import type { LiveMessage } from '../../src/api/live.js';
import type { View } from '../../src/base/view.js';
import type { Listen } from '../../src/network/listeners.js';
import { ask } from '../support/api.js';
import { Guest } from '../support/guest.js';
import { outboard, Serving } from '../support/serving.js';

t.test('an operator watches a server and acts', async (t) => {
  const folder = mkdtempSync(path.join(tmpdir(), 'outboard-api-'));
  t.teardown(() => rmSync(folder, { recursive: true }));
  const socket = path.join(folder, 'api.sock');
  const http = `127.0.0.1:0,unix:${socket}`;
  const serving = await Serving.start(t, ['--servers-per-gpu', '1', '--http', http]);
  const url = new URL(serving.http);
  const api: Listen = { kind: 'tcp', host: url.hostname, port: Number(url.port) };
  const get = async (route: string) => (await ask(api, 'GET', route)).json;
  const state = (): Promise<View> => get('/v1/state');

  t.match(await state(), {
    server: { pid: serving.child.pid, device: 'software', draining: false },
    gpus: [{ healthy: true, memory: { reserved: 0 }, slots: [{ state: 'free' }] }],
    sessions: [],
    queue: [],
  });
  t.match(await ask(api, 'GET', '/readyz'), { status: 200 });
  t.equal(statSync(socket).mode & 0o777, 0o600);

  // One runs, one waits.
  const first = Guest.hello(serving.address, { program: 'train.py' });
  await first.welcome();
  const second = Guest.hello(serving.address, { program: 'infer.py' });
  t.equal(await second.position(), 1);
  const { sessions, queue, gpus } = await state();
  t.match(sessions, [{ program: 'train.py', gpu: 0, slot: 0, state: 'running' }]);
  t.match(queue, [{ program: 'infer.py', position: 1 }]);
  t.match(gpus, [{ memory: { reserved: sessions[0]?.memory.limit }, slots: [{ state: 'busy' }] }]);
  const running = sessions[0]?.id ?? 0;
  const waiting = queue[0]?.id ?? 0;
  t.same((await get(`/v1/sessions/${running}`)).id, running);

  // Live: the state at once, and what is logged while an operator acts.
  const live = new WebSocket(`ws://${url.host}/v1/live`, ['json']);
  t.teardown(() => live.terminate());
  const lines: string[] = [];
  const acted = new Promise<void>((resolve) => {
    live.on('message', (data) => {
      const message = JSON.parse(String(data)) as LiveMessage;
      if (message.type === 'logs') lines.push(...message.lines.map((line) => line.msg));
      if (lines.includes('operator acts')) resolve();
    });
  });
  await once(live, 'message');

  // The commands, through the socket, which needs no token.
  const cli = async (...args: string[]) => {
    const env = { ...process.env, OUTBOARD_API: `unix:${socket}` };
    const child = spawn(process.execPath, [outboard, ...args], { env });
    let output = '';
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (chunk) => {
        output += chunk;
      });
    }
    const [code] = await once(child, 'close');
    return { code, output };
  };
  t.match(await cli('status'), { code: 0, output: /train\.py[\s\S]*infer\.py/ });
  t.match(await cli('quota', 'set', String(running), '30:60'), { code: 0, output: /30 percent/ });
  t.match((await state()).sessions, [{ share: { request: 30, limit: 60 } }]);
  t.match(await cli('quota', 'set', String(waiting), '30:60'), {
    code: 3,
    output: /OB_NO_SESSION/,
  });

  t.match(await cli('kill', String(waiting), '--reason', 'not today'), { code: 0 });
  t.match(await second.refusal(), { code: 'OB_KILLED', sentence: /not today/ });
  t.same((await state()).queue, []);
  await acted;

  t.match(await cli('kill', String(running)), { code: 0 });
  await first.rest();
  await serving.logged({ msg: /^session ends/, session: running });
  const metrics = (await ask(api, 'GET', '/metrics')).text;
  t.match(metrics, /^outboard_sessions_started_total\{.*\} 1$/m);
  t.match(metrics, /^outboard_sessions_ended_total\{.*reason="\w+".*\} 1$/m);
  t.match(metrics, /^outboard_refusals_total\{.*code="OB_KILLED".*\} 1$/m);
  t.match(metrics, /^outboard_attach_seconds_count\{.*\} 1$/m);
  t.match(metrics, new RegExp(`UUID="${gpus[0]?.uuid}"`));

  // Emptied, and opened again.
  t.match(await cli('drain', '--wait'), { code: 0, output: /0 still run/ });
  t.match(await ask(api, 'GET', '/readyz'), { status: 503, json: { code: 'OB_NOT_READY' } });
  const third = Guest.hello(serving.address);
  t.match(await third.refusal(), { code: 'OB_DRAINING' });
  t.match(await cli('drain', '--undo'), { code: 0 });
  const fourth = Guest.hello(serving.address);
  await fourth.welcome();
  await fourth.leave();
  t.match(await cli('logs', '-n', '1000'), { code: 0, output: /operator acts/ });
  t.match(await cli('device'), { code: 0, output: /software device/ });
  t.match(await get('/v1/history'), { gpus: [{ index: 0 }] });
  t.match(await get('/v1/policies'), { placement: [{ name: /\w/ }] });

  t.equal(await serving.stop(), 0);
  t.throws(() => statSync(socket), 'the socket goes with the server');
});
