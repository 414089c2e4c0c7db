// Admission by a policy, on a real server: who would slow others down waits for them, and is told so.
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import t, { type Test } from 'tap';
import type { WhyView } from '../../src/base/view.js';
import { Guest } from '../support/guest.js';
import { quotaPageOf } from '../support/quota-pages.js';
import { Serving } from '../support/serving.js';

function functionsFile(t: Test): string {
  const file = path.join(t.testdir(), 'functions.yaml');
  writeFileSync(
    file,
    `version: v1
functions:
  train: { bears: 10, slowed: { light: 3, heavy: 25 } }
  light: { slo: 100, solo: 20, slowed: { train: 40 }, sm: 30 }
  heavy: { slo: 30, solo: 20, slowed: { train: 40 } }
  hopeless: { slo: 5, solo: 20 }
`,
  );
  return file;
}

async function why({ http }: Serving, id: number): Promise<WhyView> {
  const answer = await fetch(new URL(`/v1/sessions/${id}/why`, http));
  if (!answer.ok) throw new Error(await answer.text());
  return (await answer.json()) as WhyView;
}

t.test('smore: who would slow others down beyond what they bear waits for them', async (t) => {
  const args = ['--admission', 'smore', '--functions', functionsFile(t), '--servers-per-gpu', '3'];
  const serving = await Serving.start(t, args);
  t.match((await serving.state()).server, { admission: 'smore' });
  const memory = 32n << 20n;
  const come = (name: string) => Guest.hello(serving.address, { name, memory });
  const train = come('train');
  await train.welcome();
  const heavy = come('heavy');
  t.equal(await heavy.position(), 1);
  const waiting = await why(serving, 2);
  t.match(waiting.now, [
    'position 1 of 1: it waits for sessions to end',
    'GPU 0: admission: train would become 25 % slower, and bears 10 %',
  ]);
  const hopeless = come('hopeless');
  t.match(await hopeless.refusal(), {
    code: 'OB_ADMISSION',
    sentence: /hopeless takes longer than its objective even alone/,
  });
  await train.leave();
  await heavy.welcome();
  t.match(await why(serving, 2), { state: 'running' });
  await heavy.leave();
});

t.test('one that may join does, though another kind may not', async (t) => {
  const args = ['--admission', 'smore', '--functions', functionsFile(t), '--servers-per-gpu', '2'];
  const serving = await Serving.start(t, [...args, '--quota', 'host-time']);
  const memory = 32n << 20n;
  const train = Guest.hello(serving.address, { name: 'train', memory });
  await train.welcome();
  const light = Guest.hello(serving.address, { name: 'light', memory });
  const { session } = await light.welcome();
  // It has a quota page of its policy, which knows its part of the SMs.
  const page = await quotaPageOf(serving.child.pid ?? 0, Number(session));
  t.equal(page.mode, 'host-time');
  await light.leave();
  await train.leave();
});

t.test('without a table, or with a wrong one, the server does not start', async (t) => {
  const without = Serving.launch(t, ['--admission', 'smore']);
  t.equal(await without.exit, 3);
  t.match(without.log, /OB_FUNCTIONS_FILE.*--admission smore goes by --functions FILE/s);
  const file = path.join(t.testdir(), 'wrong.yaml');
  writeFileSync(file, 'version: v1\nfunctions: { a: { sm: 0 } }\n');
  const wrong = Serving.launch(t, ['--functions', file]);
  t.equal(await wrong.exit, 3);
  t.match(wrong.log, /wrong\.yaml:2: sm: expected a number from 1 to 100/);
});
