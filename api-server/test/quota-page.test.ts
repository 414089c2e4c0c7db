// The page through which the monitor and a slot's process see each other's words.
import { closeSync, ftruncateSync, openSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { build } from '../../bin/paths.mjs';
import { slotFds } from '../src/ipc.js';
import { loadNative } from '../src/native.js';
import { noLimit, QuotaPage } from '../src/quota-page.js';
import { openMessage } from './support/messages.js';
import { startSlot } from './support/slot.js';

const native = loadNative(build);

t.test('who has it cannot take it away under others', (t) => {
  const page = QuotaPage.create(native);
  const fd = page.fd ?? -1;
  t.throws(() => ftruncateSync(fd, 0), { code: 'EPERM' });
  t.throws(() => ftruncateSync(fd, 1 << 20), { code: 'EPERM' });
  t.equal(page.mode, 'open');
  closeSync(fd);
  t.end();
});

t.test('what one side writes the other one reads', (t) => {
  const here = QuotaPage.create(native);
  const there = QuotaPage.open(native, here.fd ?? -1);
  closeSync(here.fd ?? -1); // the memory stays as long as the page
  t.equal(there.mode, 'open');
  t.equal(there.limit, noLimit);
  here.set('blocks', 12n);
  t.equal(there.mode, 'blocks');
  t.equal(there.limit, 12n);
  there.setLimit(13n);
  t.equal(here.limit, 13n);
  t.equal(here.mode, 'blocks');
  t.same(here.read(), {
    session: 0n,
    counted: 0n,
    unit: 'device-time',
    charged: 0n,
    deviceNs: 0n,
    blocks: 0n,
    launches: 0n,
    gateWaits: 0n,
    gateWaitNs: 0n,
    held: 0n,
    inflightNs: 0n,
    queued: 0n,
    givenBack: 0n,
  });
  t.equal(here.charged, 0n);
  t.equal(here.session, 0n);
  t.end();
});

t.test('what is no page is refused', (t) => {
  const fd = openSync(path.join(t.testdir({ file: 'x'.repeat(4096) }), 'file'), 'r+');
  t.throws(() => QuotaPage.open(native, fd), /no quota page, or one of another version/);
  closeSync(fd);
  t.throws(() => QuotaPage.open(native, fd), /no quota page/);
  t.throws(() => native.wakeQuotaPage(new ArrayBuffer(8)), /no quota page/);
  t.end();
});

/** A slot's process that opens the device with what it inherits as its page; and what it answers. */
async function slotWith(fd: number) {
  const slot = startSlot(fd);
  const library = path.join(build, 'software-device', 'libcuda.so.1');
  const quotaPageFd = slotFds.quotaPage;
  const answer = await slot.ask(openMessage({ build, library, quotaPageFd }));
  return { slot, answer };
}

t.test('a slot inherits its page', async (t) => {
  const page = QuotaPage.create(native);
  const { slot, answer } = await slotWith(page.fd ?? -1);
  closeSync(page.fd ?? -1);
  t.equal(answer.type, 'ready');
  t.equal(page.session, 0n);
  t.same(await slot.ask({ type: 'kernels' }), { type: 'kernels', kernels: [] });
  slot.leave();
  t.equal(await slot.exit, 0);
});

t.test('a slot that inherits no page opens no device', async (t) => {
  const fd = openSync(path.join(t.testdir({ file: 'x'.repeat(4096) }), 'file'), 'r+');
  const { slot, answer } = await slotWith(fd);
  closeSync(fd);
  t.match(answer, { type: 'failed', message: /no quota page/ });
  t.equal(await slot.exit, 1);
});
