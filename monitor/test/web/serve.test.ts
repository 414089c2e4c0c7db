// The page of a real `outboard serve`, with real sessions on software GPUs.
import type { Page } from 'playwright-core';
import t from 'tap';
import { formatAddress } from '../../src/options/values.js';
import { Guest } from '../support/guest.js';
import { Serving } from '../support/serving.js';
import {
  goneAway,
  live,
  needsBrowser,
  picture,
  TestBrowser,
  violations,
} from './support/browser.js';

t.test('the page of a server', needsBrowser, async (t) => {
  const browser = await TestBrowser.start(t);

  t.test('sessions come, wait, are ended, and make way, as it is shown', async (t) => {
    const serving = await Serving.start(t, ['--gpus', '2', '--servers-per-gpu', '1']);
    const { address } = serving;
    const page = await browser.open(t, serving.http);
    await live(page);
    await page.getByText('No program uses a GPU here now.').waitFor();
    const advice = `outboard run --server ${formatAddress(address)} -- python train.py`;
    await page.getByText(advice).waitFor();
    await page.getByText('outboard serve --tenants FILE').waitFor();

    const first = Guest.hello(address, { program: 'first' });
    await first.welcome();
    await row(page, 1).getByText('first').waitFor();
    const second = Guest.hello(address, { program: 'second' });
    await second.welcome();
    await row(page, 2).getByText('second').waitFor();
    const third = Guest.hello(address, { program: 'third' });
    t.equal(await third.position(), 1);
    await page.locator('#queue tbody tr', { hasText: 'third' }).waitFor();
    await page.getByText('1 slot: 1 busy').nth(1).waitFor();
    t.same(await violations(page), []);
    await picture(page, 'server');

    await page.getByRole('button', { name: 'End session 1', exact: true }).click();
    await page.getByLabel('Reason, which the program is told').fill('for the test');
    await page.getByRole('dialog').getByRole('button', { name: 'End session' }).click();
    await first.rest();
    await row(page, 1).waitFor({ state: 'detached' });
    t.ok(await third.welcome(), 'the place is given to the one that waits');
    await row(page, 3).getByText('third').waitFor();
    await page.getByText('Nobody waits.').waitFor();
    await page.locator('.log-lines li', { hasText: 'for the test' }).first().waitFor();

    await second.leave();
    await row(page, 2).waitFor({ state: 'detached' });
    await third.leave();
    await page.getByText('No program uses a GPU here now.').waitFor();
  });

  t.test('a share that is changed is the session’s share', async (t) => {
    const serving = await Serving.start(t);
    const guest = Guest.hello(serving.address, { program: 'shared' });
    await guest.welcome();
    const page = await browser.open(t, serving.http);
    await live(page);
    await page.getByRole('button', { name: 'Change the share of session 1' }).click();
    await page.getByLabel('Promised, in percent').fill('25');
    await page.getByLabel('At most, in percent').fill('50');
    await page.getByRole('button', { name: 'Apply' }).click();
    await row(page, 1).getByText('25 to 50 %').waitFor();
    const answer = await fetch(new URL('v1/sessions/1', serving.http));
    t.match(await answer.json(), { share: { request: 25, limit: 50 } });
    await guest.leave();
  });

  t.test('a server that is drained takes nobody until it resumes', async (t) => {
    const serving = await Serving.start(t);
    const page = await browser.open(t, serving.http);
    await live(page);
    await page.getByRole('button', { name: 'Drain' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Drain' }).click();
    await page.getByText('Draining: nobody new is taken. No session is left.').waitFor();
    const refused = await Guest.hello(serving.address).refusal();
    t.match(refused.code, /^OB_/);
    await page.getByRole('button', { name: 'Resume' }).click();
    await page.getByRole('button', { name: 'Drain' }).waitFor();
    const taken = Guest.hello(serving.address);
    await taken.welcome();
    await row(page, 1).waitFor();
    await taken.leave();
  });

  t.test('a monitor that is killed and started again is seen again', async (t) => {
    const before = await Serving.start(t);
    const guest = Guest.hello(before.address, { program: 'before' });
    await guest.welcome();
    const page = await browser.open(t, before.http, { expected: goneAway });
    await live(page);
    await row(page, 1).getByText('before').waitFor();
    before.child.kill('SIGKILL');
    await before.exit;
    await page.locator('#connection', { hasText: 'Not connected' }).waitFor();
    await page.getByText(/What is shown is from/).waitFor();
    t.equal(await row(page, 1).count(), 1, 'what was known stays');
    await guest.leave();

    const after = await Serving.start(t, ['--http', new URL(before.http).host]);
    t.equal(after.http, before.http);
    await live(page);
    await page.getByText('The server was started again.').waitFor();
    await row(page, 1).waitFor({ state: 'detached' });
    const next = Guest.hello(after.address, { program: 'after' });
    await next.welcome();
    await row(page, 1).getByText('after').waitFor();
    await next.leave();
  });
});

function row(page: Page, session: number) {
  return page.locator(`tr[data-session="${session}"]`);
}
