// How busy a GPU is, as the API and the metrics say: while a program works, and when it has gone.
import { setTimeout as pause } from 'node:timers/promises';
import t from 'tap';
import { noPrograms } from '../../../test/support/paths.js';
import { startRemoted, testProgram } from '../../../test/support/program.js';
import { formatAddress } from '../../src/options/values.js';
import { Guest } from '../support/guest.js';
import { Serving } from '../support/serving.js';

for (const others of [0, 1]) {
  const name = others ? 'while a session is on another GPU' : 'with the last session';
  t.test(`a GPU is idle again ${name}`, { skip: noPrograms }, async (t) => {
    const args = ['--gpus', '2', '--servers-per-gpu', '1', '--placement', 'spread'];
    const serving = await Serving.start(t, args);
    const guests = Array.from({ length: others }, () => Guest.hello(serving.address));
    for (const guest of guests) await guest.welcome();
    const running = startRemoted(testProgram('endless-launch'), formatAddress(serving.address));
    const busy = async () => (await serving.state()).gpus.map(({ share }) => share.busy);
    const until = async (wanted: (percent: number) => boolean) => {
      while (!(await busy()).some((percent) => wanted(percent ?? -1))) await pause(50);
    };
    await until((percent) => percent > 0);
    running.kill('SIGKILL');
    await serving.logged({ msg: /^session ends|^session lost/ });
    while ((await busy()).some((percent) => percent !== 0)) await pause(50);
    const metrics = await (await fetch(`${serving.http}metrics`)).text();
    const ratios = [...metrics.matchAll(/^outboard_gpu_busy_ratio\{.*\} (\S+)$/gm)];
    t.same(
      ratios.map(([, ratio]) => Number(ratio)),
      [0, 0],
    );
    for (const guest of guests) await guest.leave();
  });
}
