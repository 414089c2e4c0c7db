// The page in Chromium, over the real API with a server in memory that does what the test says.
import { pino } from 'pino';
import type { Page } from 'playwright-core';
import t, { type Test } from 'tap';
import { startApi } from '../../src/api/api.js';
import { OutboardError } from '../../src/base/errors.js';
import { somePolicies, TestApi } from '../support/api.js';
import { session } from '../support/operations.js';
import {
  desktop,
  goneAway,
  live,
  needsBrowser,
  phone,
  picture,
  TestBrowser,
  violations,
  webRoot,
} from './support/browser.js';
import { fill, fiveMinutes, sceneWaiting, writeLog } from './support/scene.js';

t.test('the page', needsBrowser, async (t) => {
  const browser = await TestBrowser.start(t);

  const start = async (t: Test, size: Parameters<typeof fill>[1] = {}) => {
    const server = await TestApi.start(t, { webRoot });
    fill(server.operations, size);
    return server;
  };

  t.test('shows what there is, and what changes, as it changes', async (t) => {
    const { operations, url } = await start(t);
    const page = await browser.open(t, url);
    await live(page);
    t.equal(await page.title(), 'Outboard on gpu-1');
    t.equal(await page.locator('.gpu').count(), 2);
    t.equal(await row(page, 101).locator('button.link').textContent(), 'resnet-infer');
    t.match(await row(page, 101).textContent(), /acme.*30 to 60 %/);
    t.equal(await page.locator('#queue tbody tr').count(), 4);
    t.equal(await page.locator('#tenants tbody tr').count(), 3);
    t.match(
      await page.getByRole('meter', { name: 'time of GPU 0' }).getAttribute('aria-valuetext'),
      /busy/,
    );

    const [first] = operations.sessions;
    if (!first) throw new Error('no session');
    first.share = { ...first.share, received: 57, held: true };
    first.memory = { ...first.memory, used: first.memory.limit };
    await row(page, 101).getByText('57 %', { exact: true }).waitFor();
    await row(page, 101).getByText('held back').waitFor();
    const minute = (minutes: number) => new Date(Date.UTC(2026, 0, 2, 3, minutes)).toISOString();
    first.away = { since: minute(4), until: minute(5) };
    await row(page, 101).getByText('away', { exact: true }).waitFor();
    await row(page, 101)
      .getByText(/ away since \d\d:04:00, kept until \d\d:05:00$/)
      .waitFor();
    first.away = null;
    await row(page, 101).getByText('held back').waitFor();
    operations.sessions = [...operations.sessions.slice(1), session(200, { name: 'newcomer' })];
    await row(page, 200).waitFor();
    await row(page, 101).waitFor({ state: 'detached' });
    operations.gpus = operations.gpus.map((gpu) => ({ ...gpu, healthy: false, problem: 'Xid 79' }));
    await page.getByText('No session is placed here: Xid 79.').first().waitFor();
    operations.log({ time: Date.now(), level: 'warn', msg: 'a line just written', code: 'OB_X' });
    await page.locator('.log-lines li', { hasText: 'A line just written (OB_X).' }).waitFor();
  });

  t.test('what programs call themselves is text, whatever it contains', async (t) => {
    const { operations, url } = await start(t, { sessions: 0, queued: 0 });
    const name = '<img src=x onerror="document.title=1">';
    operations.sessions = [session(7, { name, program: name, tenant: name, host: name })];
    operations.log({ time: Date.now(), level: 'info', msg: name, name });
    const page = await browser.open(t, url);
    await live(page);
    await page.locator('.log-lines li').first().waitFor();
    t.equal(await row(page, 7).locator('button.link').textContent(), name);
    t.equal(await page.locator('img').count(), 0);
  });

  t.test('the minutes before the page was opened are there', async (t) => {
    const { operations, url } = await start(t);
    const page = await browser.open(t, url, { prepare: remembered(operations) });
    await live(page);
    const picture = page.getByRole('img', { name: /time of GPU 0 over five minutes: busy now/ });
    await picture.waitFor();
    // Points of the drawing in the colour of time, as the canvas has them; it is drawn a frame later.
    const drawn = await page.waitForFunction(`(() => {
      const canvas = document.querySelectorAll('.gpu canvas')[1];
      const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
      let count = 0;
      for (let at = 0; at < data.length; at += 4) if (data[at + 1] > data[at] + 60) count++;
      return count > data.length / 4 / 5;
    })()`);
    t.ok(await drawn.jsonValue(), 'bars fill a fifth of the picture');
  });

  t.test('a session is ended after a question, with a reason', async (t) => {
    const { operations, url } = await start(t);
    const page = await browser.open(t, url);
    await live(page);
    await page.getByRole('button', { name: 'End session 102' }).click();
    const dialog = page.getByRole('dialog', { name: 'End session 102?' });
    await dialog.waitFor();
    t.equal(await page.evaluate('document.activeElement.textContent'), 'Cancel');
    t.same(await violations(page), []);
    await picture(page, 'end-session', { fullPage: false });
    await dialog.getByRole('button', { name: 'Cancel' }).click();
    await dialog.waitFor({ state: 'detached' });
    t.same(operations.killed, [], 'not without an answer');
    await page.getByRole('button', { name: 'End session 102' }).click();
    await page.getByLabel('Reason, which the program is told').fill('maintenance');
    await dialog.getByRole('button', { name: 'End session' }).click();
    await dialog.waitFor({ state: 'detached' });
    t.same(operations.killed, [[102, 'maintenance']]);
    await page.getByText('Session 102 is being ended.').waitFor();
    await row(page, 102).waitFor({ state: 'detached' });
  });

  t.test('one that waits is taken out of the queue', async (t) => {
    const { operations, url } = await start(t);
    const page = await browser.open(t, url);
    await live(page);
    await page.getByRole('button', { name: /Remove .*#1001/ }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Remove' }).click();
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    t.same(operations.killed, [[1001, 'ended by the operator']]);
  });

  t.test('a share is changed with sliders and numbers', async (t) => {
    const { operations, url } = await start(t);
    const page = await browser.open(t, url);
    await live(page);
    await page.getByRole('button', { name: 'Change the share of session 101' }).click();
    const dialog = page.getByRole('dialog');
    const promised = dialog.getByRole('slider', { name: 'Promised' });
    const most = dialog.getByRole('slider', { name: 'At most' });
    t.equal(await promised.evaluate('document.activeElement.id'), 'share-request', 'has the focus');
    t.same(await violations(page), []);
    await picture(page, 'session', { fullPage: false });
    t.equal(await promised.inputValue(), '30');
    t.equal(await most.inputValue(), '60');
    await promised.press('ArrowRight');
    t.equal(await dialog.getByLabel('Promised, in percent').inputValue(), '31', 'number follows');
    await most.fill('20');
    t.equal(await promised.inputValue(), '20', 'the promise is never above the limit');
    await dialog.getByLabel('Promised, in percent').fill('35');
    t.equal(await promised.inputValue(), '35', 'slider follows');
    t.equal(await most.inputValue(), '35');
    await dialog.getByLabel('At most, in percent').fill('80');
    await dialog.getByText('GPU 0 would have promised 95 % of its time.').waitFor();
    await dialog.getByRole('button', { name: 'Apply' }).click();
    await page.getByText('Session 101 now gets 35 to 80 %.').waitFor();
    t.match(operations.sessions[0]?.share, { request: 35, limit: 80 });
    await row(page, 101).getByText('35 to 80 %').waitFor();
  });

  t.test('more than the limit of a tenant leaves is asked for, and marked', async (t) => {
    const { operations, url } = await start(t);
    const acme = operations.tenants.find(({ name }) => name === 'acme');
    if (!acme) throw new Error('no tenant acme');
    acme.limits.share = acme.share;
    const page = await browser.open(t, url, { expected: /status of 409/ });
    await live(page);
    await page.getByRole('button', { name: 'Change the share of session 101' }).click();
    const dialog = page.getByRole('dialog');
    const beyond = dialog.getByRole('checkbox', { name: /^beyond the limit of its tenant: acme/ });
    t.equal(await beyond.isVisible(), false, 'nothing is beyond it yet');
    await dialog.getByLabel('Promised, in percent').fill('35');
    await dialog.getByRole('button', { name: 'Apply' }).click();
    await dialog.getByRole('alert').getByText('OB_QUOTA_TENANT').waitFor();
    t.same(await violations(page), []);
    await beyond.check();
    await dialog.getByRole('button', { name: 'Apply' }).click();
    await dialog.waitFor({ state: 'detached' });
    await row(page, 101).getByText("35 to 60 %, beyond its tenant's limit").waitFor();
    acme.share += 5;
    await page.getByText(`${acme.share} of ${acme.limits.share} %, beyond its limit`).waitFor();
  });

  t.test('what the server refuses is told with its code and what to do', async (t) => {
    const { operations, url } = await start(t);
    operations.setShare = () => {
      throw new OutboardError('OB_QUOTA', 101, '95', 'the others are promised 60 percent already');
    };
    const page = await browser.open(t, url, { expected: /status of 400/ });
    await live(page);
    await page.getByRole('button', { name: 'Change the share of session 101' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Promised, in percent').fill('95');
    await dialog.getByText(/GPU 0 cannot keep that/).waitFor();
    await dialog.getByRole('button', { name: 'Apply' }).click();
    const alert = dialog.getByRole('alert');
    await alert.getByText('OB_QUOTA').waitFor();
    t.match(await alert.textContent(), /promised 60 percent already.*Say REQUEST or REQUEST:LIMIT/);
    t.same(await violations(page), []);
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'detached' });
  });

  t.test('a session that ends while it is looked at', async (t) => {
    const { operations, url } = await start(t);
    const page = await browser.open(t, url);
    await live(page);
    await row(page, 101).locator('button.link').click();
    await page.getByRole('dialog').getByText('worker-10').waitFor();
    operations.sessions = operations.sessions.slice(1);
    await page.getByText('Session 101 has ended.').waitFor();
    t.ok(await page.getByRole('button', { name: 'Apply' }).isDisabled());
  });

  t.test('drain and resume', async (t) => {
    const { operations, url } = await start(t);
    const page = await browser.open(t, url);
    await live(page);
    await page.getByRole('button', { name: 'Drain' }).click();
    const dialog = page.getByRole('dialog', { name: 'Drain this server?' });
    t.match(await dialog.textContent(), /4 programs that wait are refused. 6 sessions go on/);
    t.equal(operations.draining, false);
    await dialog.getByRole('button', { name: 'Drain' }).click();
    await page.getByText('Sessions that still run: 6.').waitFor();
    t.equal(operations.draining, true);
    t.same(await violations(page), []);
    await page.getByRole('button', { name: 'Resume' }).click();
    await page.getByText('Programs are taken again.').waitFor();
    t.equal(operations.draining, false);
    await page.getByRole('button', { name: 'Drain' }).waitFor();
  });

  t.test('the connection comes back after the server did', async (t) => {
    const server = await start(t);
    const { operations, url, port } = server;
    const page = await browser.open(t, url, { expected: goneAway });
    await live(page);
    await server.api.close();
    await page.locator('#connection', { hasText: 'Not connected' }).waitFor();
    await page.getByText(/What is shown is from/).waitFor();
    await page.getByText(/next try in \d+ s|trying/).waitFor();
    t.same(await violations(page), []);
    await picture(page, 'not-connected', { fullPage: false });
    t.equal(await row(page, 101).count(), 1, 'what was known stays');

    operations.sessions = [session(300, { name: 'after' })];
    server.api = await startApi({
      operations,
      metrics: server.metrics,
      authorise: null,
      listen: [{ kind: 'tcp', host: '127.0.0.1', port }],
      log: pino({ level: 'silent' }),
      webRoot,
      policies: () => somePolicies,
    });
    await live(page);
    await row(page, 300).waitFor();
    t.equal(await row(page, 101).count(), 0);
    t.ok(await page.getByText(/What is shown is from/).isHidden());
  });

  t.test('operators: the token is asked for, tried, and kept in this tab only', async (t) => {
    const server = await TestApi.start(t, {
      webRoot,
      authorise: (token) =>
        ({
          'right-token-é': { name: 'ann', rights: 'act' as const },
          'view-token': { name: 'bob', rights: 'view' as const },
        })[token] ?? null,
    });
    fill(server.operations, {});
    const page = await browser.open(t, server.url, { expected: /status of 40[13]/ });
    const dialog = page.getByRole('dialog', { name: 'Who are you?' });
    await dialog.waitFor();
    t.equal(await page.evaluate('document.activeElement.type'), 'password', 'has the focus');
    t.same(await violations(page), []);
    await picture(page, 'token', { fullPage: false });
    t.equal(await page.locator('tr[data-session]').count(), 0, 'nothing is shown before');
    await dialog.getByLabel('Token').fill('wrong');
    await dialog.getByRole('button', { name: 'Use token' }).click();
    await dialog.getByRole('alert').getByText('OB_API_TOKEN').waitFor();
    await page.keyboard.press('Escape');
    await page.getByRole('button', { name: 'Enter token' }).click();
    await dialog.getByLabel('Token').fill('view-token');
    await page.keyboard.press('Enter');
    await live(page);
    await row(page, 101).waitFor();

    await page.getByRole('button', { name: 'End session 101' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'End session' }).click();
    await page.getByRole('alert').getByText('OB_API_RIGHTS').waitFor();
    t.same(server.operations.killed, [], 'who may look may not act');
    await page.keyboard.press('Escape');

    await page.evaluate("sessionStorage.setItem('outboard.token', 'right-token-é')");
    t.equal(await page.evaluate('JSON.stringify(localStorage)'), '{}');
    t.same(await page.context().cookies(), []);
    await page.reload();
    await live(page);
    await page.getByRole('button', { name: 'Drain' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Drain' }).click();
    await page.getByRole('button', { name: 'Resume' }).waitFor();
    t.equal(server.operations.draining, true);
  });

  t.test('by keyboard alone', async (t) => {
    const { url } = await start(t);
    const page = await browser.open(t, url);
    await live(page);
    const focused = () =>
      page.evaluate("document.activeElement.closest('[data-session]')?.dataset.session");
    await page.keyboard.press('Tab');
    t.equal(await page.evaluate('document.activeElement.textContent'), 'To the content');
    await page.keyboard.press('j');
    t.equal(await focused(), '101');
    await page.keyboard.press('j');
    await page.keyboard.press('j');
    t.equal(await focused(), '103');
    await page.keyboard.press('k');
    t.equal(await focused(), '102');
    await page.keyboard.press('s');
    await page.getByRole('dialog', { name: /session 102/ }).waitFor();
    await page.keyboard.press('j');
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    t.equal(await focused(), '102', 'the focus is back where it was');
    await page.keyboard.press('e');
    await page.getByRole('dialog', { name: 'End session 102?' }).waitFor();
    await page.keyboard.press('Escape');
    await page.keyboard.press('/');
    await page.keyboard.type('kmeans');
    await row(page, 102).waitFor({ state: 'detached' });
    t.equal(await page.locator('tr[data-session]').count(), 1);
    await page.keyboard.press('Control+a');
    await page.keyboard.type('nobody');
    await page.getByText('None of 6 sessions fits the filter.').waitFor();
    await page.keyboard.press('Control+a');
    await page.keyboard.press('Delete');
    await page.keyboard.press('Tab');
    await page.keyboard.press('5');
    t.equal(await page.evaluate('document.activeElement.id'), 'log-heading');
    await page.keyboard.press('?');
    const help = page.getByRole('dialog', { name: 'Keyboard' });
    await help.waitFor();
    t.same(await violations(page), []);
    await picture(page, 'keyboard', { fullPage: false });
    await help.getByLabel('Shortcuts of one key are on').uncheck();
    await page.keyboard.press('Escape');
    await page.keyboard.press('j');
    t.equal(await focused(), undefined, 'switched off');
  });

  t.test('sessions are sorted by a column, and the focus stays', async (t) => {
    const { url } = await start(t);
    const page = await browser.open(t, url);
    await live(page);
    const order = () => page.locator('tr[data-session] button.link').allTextContents();
    const asItCame = await order();
    const header = page.getByRole('button', { name: 'Session', exact: true });
    await header.click();
    t.same(await order(), [...asItCame].sort());
    t.equal(await page.locator('#sessions [aria-sort]').getAttribute('aria-sort'), 'ascending');
    await row(page, 106).locator('button.link').focus();
    await header.dispatchEvent('click');
    t.same(await order(), [...asItCame].sort().reverse());
    t.equal(await page.evaluate('document.activeElement.textContent'), 'train-lora');
    await header.click();
    t.same(await order(), asItCame);
  });

  t.test('memory is a line over time, and the card says what busy counts', async (t) => {
    const { operations, url } = await start(t);
    const page = await browser.open(t, url, { prepare: remembered(operations) });
    await live(page);
    const look = (name: RegExp) =>
      page.getByRole('img', { name }).first().getAttribute('data-look');
    t.equal(await look(/^memory of GPU 0 over five minutes/), 'line');
    t.equal(await look(/^time of GPU 0 over five minutes/), 'bars');
    await page
      .getByText(/^Busy: .*one block of a kernel takes one thread/)
      .first()
      .waitFor();
  });

  t.test('the log is filtered by level and text', async (t) => {
    const { operations, url } = await start(t);
    writeLog(operations, Date.now());
    const page = await browser.open(t, url);
    await live(page);
    const lines = page.locator('.log-lines li');
    await lines.first().waitFor();
    t.equal(await lines.count(), 6, 'info and above');
    await page.getByLabel('Least level of the log lines shown').selectOption('Errors');
    t.equal(await lines.count(), 1);
    await page.getByLabel('Least level of the log lines shown').selectOption('All');
    t.equal(await lines.count(), 7);
    await page.getByLabel('Filter the log').fill('slot pid');
    t.equal(await lines.count(), 1);
    await page.getByLabel('Filter the log').fill('nothing like it');
    await page.getByText('No line fits.').waitFor();
  });

  t.test('with nothing to show it says what to do', async (t) => {
    const { operations, url } = await start(t, { sessions: 0, queued: 0 });
    operations.tenants = [];
    for (const [name, viewport] of [
      ['desktop', desktop],
      ['phone', phone],
    ] as const) {
      const page = await browser.open(t, url, { viewport });
      await live(page);
      await page.getByText('outboard run --server 127.0.0.1:4460 -- python train.py').waitFor();
      await page.getByText('listens for programs on its own machine').waitFor();
      operations.listen = ['0.0.0.0:4460'];
      await page.getByText('gpu-1:4460', { exact: true }).waitFor();
      await page.getByText('outboard run --server gpu-1:4460 -- python train.py').waitFor();
      operations.listen = ['127.0.0.1:4460'];
      await page.getByText('127.0.0.1:4460', { exact: true }).waitFor();
      await page.getByText('Nobody waits.').waitFor();
      await page.getByText('outboard tenant add NAME --tenants FILE').waitFor();
      t.same(await violations(page), []);
      await picture(page, `empty-${name}`);
    }
  });

  t.test('64 sessions and 1,000 that wait', async (t) => {
    const { operations, url } = await start(t, { gpus: 2, sessions: 32, queued: 1000 });
    const page = await browser.open(t, url, { prepare: remembered(operations) });
    await live(page);
    t.equal(await page.locator('tr[data-session]').count(), 64);
    t.equal(await page.locator('#queue tbody tr').count(), 10);
    await page.getByText('and 990 more behind them').waitFor();
    await page.getByRole('button', { name: 'Show 100 more' }).click();
    t.equal(await page.locator('#queue tbody tr').count(), 110);
    await page.getByRole('button', { name: 'Show fewer' }).click();
    const elements = () =>
      page.evaluate("document.querySelectorAll('*').length") as Promise<number>;
    const before = await elements();
    t.ok(before < 5000, `${before} elements`);
    // Keeps the elements from one View to the next: nothing is made anew.
    await page.evaluate("window.kept = [...document.querySelectorAll('tr[data-session]')]");
    operations.sessions = operations.sessions.map((one) => ({
      ...one,
      share: { ...one.share, received: 99 },
    }));
    operations.queue = Array.from({ length: 999 }, (_, index) => sceneWaiting(index));
    await page.getByText('and 989 more behind them').waitFor();
    await row(page, 164).getByText('99 %', { exact: true }).waitFor();
    t.equal(await page.evaluate('window.kept.every((row) => row.isConnected)'), true);
    t.equal(await elements(), before);
    await picture(page, 'full');
    t.same(await violations(page), []);
  });

  for (const [size, viewport] of [
    ['desktop', desktop],
    ['phone', phone],
  ] as const) {
    for (const colorScheme of ['light', 'dark'] as const) {
      t.test(`accessible and within the screen: ${size}, ${colorScheme}`, async (t) => {
        const { operations, url } = await start(t);
        writeLog(operations, Date.now());
        const options = { viewport, colorScheme, prepare: remembered(operations) };
        const page = await browser.open(t, url, options);
        await live(page);
        await page.locator('.log-lines li').first().waitFor();
        t.same(await violations(page), []);
        const wide = await page.evaluate('document.documentElement.scrollWidth');
        t.equal(wide, viewport.width, 'nothing is cut off at the side');
        await picture(page, `${size}-${colorScheme}`);
        await page.locator('.slot-details summary').first().click();
        await page.getByRole('region', { name: 'slots of GPU 0' }).waitFor();
        t.same(await violations(page), [], 'with the slots shown');
        await page.getByRole('button', { name: 'Change the share of session 101' }).click();
        await page.getByRole('dialog').waitFor();
        t.same(await violations(page), [], 'with a dialog');
        await picture(page, `session-${size}-${colorScheme}`, { fullPage: false });
      });
    }
  }

  t.test('all entries of the navigation are on a narrow screen', async (t) => {
    const { url } = await start(t);
    for (const width of [320, 390, 600]) {
      const page = await browser.open(t, url, { viewport: { width, height: 800 } });
      await live(page);
      const links = page.getByRole('navigation').getByRole('link');
      const names = await links.allInnerTexts();
      t.equal(names.length, 5, names.join());
      for (const [index, name] of names.entries()) {
        const box = await links.nth(index).boundingBox();
        t.ok(box && box.x >= 0 && box.x + box.width <= width, `${name} at ${width}`);
      }
    }
  });

  t.test('axe is at work in these tests', async (t) => {
    const { url } = await start(t);
    const page = await browser.open(t, url);
    await live(page);
    await page.evaluate("document.querySelector('main').append(document.createElement('button'))");
    t.match(await violations(page), [/^button-name/]);
  });

  t.test('dark and light: as the system has it, or as chosen, and remembered', async (t) => {
    const { url } = await start(t);
    const page = await browser.open(t, url, { colorScheme: 'light' });
    await live(page);
    const ground = () =>
      page.evaluate('getComputedStyle(document.documentElement).backgroundColor');
    const light = await ground();
    await page.emulateMedia({ colorScheme: 'dark' });
    const dark = await ground();
    t.not(dark, light, 'follows the system');
    await page.getByRole('button', { name: 'Colours: Auto. Change' }).click();
    t.equal(await ground(), light);
    await page.reload();
    await live(page);
    t.equal(await ground(), light, 'remembered');
    await page.getByRole('button', { name: 'Colours: Light. Change' }).click();
    await page.emulateMedia({ colorScheme: 'light' });
    t.equal(await ground(), dark);
    await page.keyboard.press('c');
    t.equal(await ground(), light, 'the system again');
  });

  t.test('movement only for those who want it', async (t) => {
    const { url } = await start(t);
    const page = await browser.open(t, url);
    await live(page);
    const moves = () =>
      page.evaluate("getComputedStyle(document.querySelector('.part')).transitionDuration");
    t.equal(await moves(), '0s');
    await page.emulateMedia({ reducedMotion: 'no-preference' });
    t.not(await moves(), '0s');
  });
});

function row(page: Page, session: number) {
  return page.locator(`tr[data-session="${session}"]`);
}

/** As if the server had run for five minutes. */
function remembered(operations: TestApi['operations']) {
  return (page: Page) =>
    page.route('**/v1/history', (route) =>
      route.fulfill({ json: fiveMinutes(operations, Date.now()) }),
    );
}
