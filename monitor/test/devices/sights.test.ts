// What is served of a machine with GPUs in MIG mode, and what processes see for it.
import t from 'tap';
import { sightsOf } from '../../src/devices/sights.js';

const a = { uuid: 'GPU-aa11', mig: false, instances: [] };
const b = { uuid: 'GPU-bb22', mig: true, instances: ['MIG-1', 'MIG-2'] };
const c = { uuid: 'GPU-aa33', mig: false, instances: [] };
const d = { uuid: 'GPU-dd44', mig: true, instances: [] };
const machine = [a, b, c, d];

const seen = (wanted?: string, most: number | null = null) => {
  const { visible, left } = sightsOf(machine, wanted, most);
  return [...visible, ...left.map(({ code }) => code)].join(' ');
};

t.test('all of it', async (t) => {
  t.equal(seen(), 'GPU-aa11,GPU-aa33 MIG-1 MIG-2 OB_MIG_EMPTY', 'whole GPUs are seen together');
  t.equal(sightsOf([b], undefined, null).visible.join(' '), 'MIG-1 MIG-2');
  t.match(sightsOf([d], undefined, null).left, [{ message: /^GPU-dd44 is in MIG mode/ }]);
});

t.test('so many GPUs, each with its instances', async (t) => {
  t.equal(seen(undefined, 1), 'GPU-aa11');
  t.equal(seen(undefined, 2), 'GPU-aa11 MIG-1 MIG-2');
  t.equal(sightsOf(machine, undefined, 9).gpus, 4);
});

t.test('what CUDA_VISIBLE_DEVICES names', async (t) => {
  t.equal(seen('MIG-2'), 'MIG-2');
  t.equal(seen('MIG-2,MIG-1'), 'MIG-2 MIG-1');
  t.equal(seen('1'), 'MIG-1 MIG-2', 'a GPU in MIG mode is all its instances');
  t.equal(seen('GPU-bb, MIG-2'), 'MIG-1 MIG-2', 'none twice');
  t.equal(seen('2,0'), 'GPU-aa33,GPU-aa11');
  t.equal(seen('2,MIG-1'), 'GPU-aa33 MIG-1');
  t.equal(seen('0,3'), 'GPU-aa11 OB_MIG_EMPTY');
  // It ends at what names nothing.
  for (const nothing of ['9', 'x', '-1', '', 'GPU-', 'GPU-aa', 'GPU-ee'])
    t.equal(seen(`0,${nothing},1`), 'GPU-aa11', nothing);
  t.equal(seen(''), '');
  for (const unknown of ['MIG-3', 'MIG-', 'MIG-GPU-bb22/1/0'])
    t.throws(() => seen(`0,${unknown}`), {
      code: 'OB_MIG_UNKNOWN',
      message: `CUDA_VISIBLE_DEVICES names ${unknown}, and this machine has other instances: MIG-1, MIG-2`,
    });
});
