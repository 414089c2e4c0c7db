import t from 'tap';
import { UsualModules } from '../../src/slots/usual-modules.js';

const module = (size: bigint) => ({ hash: Buffer.alloc(32, Number(size)), size });
const program = { tenant: 'a', name: 'f', ordinal: 0 };

t.test('the last session tells what the next one is given', async (t) => {
  const usual = new UsualModules();
  t.same(usual.of(program), []);
  usual.learn(program, [module(1n), module(2n)]);
  usual.learn(program, [module(3n)]);
  t.same(usual.of(program), [module(3n)]);
  usual.learn(program, []);
  t.same(usual.of(program), [module(3n)], 'a session that used none says nothing');
});

t.test('what a running session uses is known to others at once', async (t) => {
  const usual = new UsualModules();
  usual.learn(program, [module(1n)]);
  for (const size of [1n, 2n, 2n]) usual.add(program, module(size));
  t.same(usual.of(program), [module(1n), module(2n)]);
  for (let size = 3n; size < 50n; size++) usual.add(program, module(size));
  t.equal(usual.of(program).length, 32, 'as many as are told');
});

t.test('tenants, names and GPUs are apart', async (t) => {
  const usual = new UsualModules();
  usual.learn(program, [module(1n)]);
  for (const other of [{ tenant: 'b' }, { name: 'g' }, { ordinal: 1 }]) {
    t.same(usual.of({ ...program, ...other }), []);
  }
  usual.learn({ tenant: 'a","f', name: '', ordinal: 0 }, [module(2n)]);
  t.same(usual.of(program), [module(1n)], 'whatever the names hold');
});

t.test('those that ended longest ago are forgotten', async (t) => {
  const usual = new UsualModules();
  for (let ordinal = 0; ordinal < 1024; ordinal++)
    usual.learn({ ...program, ordinal }, [module(1n)]);
  usual.learn(program, [module(2n)]);
  usual.learn({ ...program, ordinal: 1024 }, [module(1n)]);
  t.same(usual.of({ ...program, ordinal: 1 }), []);
  t.same(usual.of(program), [module(2n)]);
});

t.test('of each tenant so many, whatever others run', async (t) => {
  const usual = new UsualModules();
  const modules = [{ hash: new Uint8Array(32), size: 1n }];
  const mine = { tenant: 'a', name: 'mine', ordinal: 0 };
  usual.learn(mine, modules);
  for (let i = 0; i < 2000; i++) usual.learn({ tenant: 'b', name: `${i}`, ordinal: 0 }, modules);
  t.equal(usual.of(mine).length, 1);
  t.equal(usual.of({ tenant: 'b', name: '1999', ordinal: 0 }).length, 1);
  t.equal(usual.of({ tenant: 'b', name: '0', ordinal: 0 }).length, 0);
});
