// The library in programs that are hard on it: descriptors that vanish, signals, small stacks, other
// users and roots, system calls that are refused. Nothing may hang, crash or be lost.
import t from 'tap';
import { onDevice } from '../../test/support/device.js';
import { startServer } from '../../test/support/server.js';
import { run, strange } from './support/client.js';

const server = await startServer();
const env = { OUTBOARD_SERVER: server.address };
t.teardown(() => server.stop());

const closesDescriptors = [
  // All had been done, as the library knew by itself.
  'synchronise CUDA_SUCCESS',
  'again CUDA_ERROR_DEVICE_UNAVAILABLE',
  'mine works',
];

const needsRoot = new Set(['changes-root', 'changes-user']);
const isRoot = process.getuid?.() === 0;

for (const [what, expected] of Object.entries({
  'closes-descriptors': closesDescriptors,
  'changes-root': ['in an empty root CUDA_SUCCESS'],
  'changes-user': ['as nobody CUDA_SUCCESS'],
  'starts-programs': [
    'vfork 5',
    'then CUDA_SUCCESS',
    'spawn 6',
    'then CUDA_SUCCESS',
    'fork and exec 6',
    'then CUDA_SUCCESS',
  ],
  'is-interrupted': ['interrupted CUDA_SUCCESS'],
  'has-small-stacks': Array(3).fill('16 KiB of stack CUDA_SUCCESS'),
  'loads-and-unloads': [...Array(3).fill('loaded CUDA_SUCCESS'), 'then CUDA_SUCCESS'],
  'is-confined': ['confined CUDA_SUCCESS'],
})) {
  const skip = needsRoot.has(what) && !isRoot && 'only root may do that';
  t.test(what, { skip }, async (t) => {
    const { lines, stderr, code, signal } = await run(what, env, strange);
    t.same({ stderr, code, signal }, { stderr: '', code: 0, signal: null });
    t.same(lines, expected);
  });
}

t.test('exits-from-a-thread', async (t) => {
  const result = await run('exits-from-a-thread', env, strange);
  t.same(result, { lines: [], stderr: '', code: 7, signal: null });
});

t.test('closes-descriptors, of a session that is kept over cuts', async (t) => {
  const keeps = await startServer({
    args: [...onDevice, '--gpus', '1', '--grace-disconnected', '20'],
  });
  t.teardown(() => keeps.stop());
  const result = await run('closes-descriptors', { OUTBOARD_SERVER: keeps.address }, strange);
  // No other connection takes the place of what the program has opened.
  t.same(result, { lines: closesDescriptors, stderr: '', code: 0, signal: null });
});

t.test('the server serves the next', async (t) => {
  const { lines } = await run('is-interrupted', env, strange);
  t.same(lines, ['interrupted CUDA_SUCCESS']);
});
