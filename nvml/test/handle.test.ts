// A handle of NVML from before a session stays that of its GPU when the session gets another one.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { createInterface } from 'node:readline';
import t from 'tap';
import { build, mustBeBuilt, nvmlLibrary } from '../../test/support/paths.js';
import { startServer } from '../../test/support/server.js';

class Program {
  readonly #child: ChildProcess;
  readonly #lines: AsyncIterator<string>;

  constructor(address: string) {
    this.#child = spawn(path.join(build, 'nvml', 'test', 'nvml-handle'), [], {
      env: {
        ...process.env,
        LD_LIBRARY_PATH: path.dirname(nvmlLibrary),
        OUTBOARD_SERVER: address,
      },
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    const { stdout } = this.#child;
    if (!stdout) throw new Error('no pipe');
    this.#lines = createInterface({ input: stdout })[Symbol.asyncIterator]();
  }

  /** The words of its next line. */
  async says(): Promise<string[]> {
    const { value, done } = await this.#lines.next();
    if (done) throw new Error('it ended');
    return (value as string).split(' ');
  }

  goOn() {
    this.#child.stdin?.write('\n');
  }

  async end() {
    const ended = once(this.#child, 'exit');
    this.#child.stdin?.end();
    await ended;
  }
}

t.test('a session on another GPU than was shown', async (t) => {
  mustBeBuilt('nvml/test/nvml-handle');
  const args = ['--device', 'software', '--gpus', '2', '--servers-per-gpu', '1'];
  const server = await startServer({ args });
  t.teardown(() => server.stop());
  const [late, early] = [new Program(server.address), new Program(server.address)];
  t.teardown(() => Promise.all([late.end(), early.end()]));
  const [shown] = await late.says();
  t.same(await early.says(), [shown], 'where a session would be placed now');
  early.goOn();
  const [there, ...about] = await early.says();
  t.equal(there, shown, 'it is');
  t.match(about, ['1', '0', shown, '0', /^\d+$/]);
  late.goOn();
  const [elsewhere, count, ...old] = await late.says();
  t.not(elsewhere, shown, 'there is no other slot on that GPU');
  t.equal(count, '1', 'NVML shows what CUDA has');
  t.match(old, ['0', shown, '0', /^[1-9]\d+$/], 'and the old handle goes on');
});
