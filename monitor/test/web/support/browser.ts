// A real Chromium, and pages of it that must stay without an error, without a request to anywhere
// else, and without anything that the content security policy refuses.
import { mkdirSync } from 'node:fs';
import path from 'node:path';
import axe, { type AxeResults } from 'axe-core';
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core';
import { build } from '../../../../bin/paths.mjs';
import { which } from '../../../../scripts/setup/command.mjs';
import { web } from '../../../../scripts/setup/web.mjs';
import { mustBeBuilt } from '../../../../test/support/paths.js';

interface Test {
  teardown(end: () => unknown): void;
}

const executable = process.env['CHROMIUM'] ?? which('chromium') ?? which('google-chrome');

/** Options of tests that need a browser. In CI one that is missing is a failure, not a reason. */
export const needsBrowser =
  executable === undefined && !process.env['CI'] ? { skip: 'no chromium' } : {};

export const webRoot = web;

export const desktop = { width: 1280, height: 900 };
export const phone = { width: 390, height: 844 };

export class TestBrowser {
  readonly #browser: Browser;

  private constructor(browser: Browser) {
    this.#browser = browser;
  }

  static async start(t: Test): Promise<TestBrowser> {
    mustBeBuilt('web/index.html');
    if (executable === undefined) throw new Error('chromium is not installed');
    const browser = await chromium.launch({
      executablePath: executable,
      // Its sandbox refuses root; what it shows here is ours.
      args: process.getuid?.() === 0 ? ['--no-sandbox'] : [],
    });
    t.teardown(() => browser.close());
    return new TestBrowser(browser);
  }

  /** `expected`: what the console may say, because the test provokes it. */
  async open(t: Test, url: string, options: Options = {}): Promise<Page> {
    const { expected, prepare, ...rest } = options;
    const context = await this.#browser.newContext({
      viewport: desktop,
      reducedMotion: 'reduce',
      locale: 'en-GB',
      timezoneId: 'UTC',
      ...rest,
    });
    const page = await context.newPage();
    // Only against hanging.
    page.setDefaultTimeout(120_000);
    const wrong: string[] = [];
    const { origin } = new URL(url);
    page.on('console', (message) => {
      if (message.type() === 'error' && !expected?.test(message.text())) wrong.push(message.text());
    });
    page.on('pageerror', (error) => wrong.push(String(error)));
    page.on('request', (request) => {
      if (new URL(request.url()).origin !== origin) wrong.push(`a request to ${request.url()}`);
    });
    t.teardown(async () => {
      await context.close();
      if (wrong.length > 0) throw new Error(`the page did wrong:\n${wrong.join('\n')}`);
    });
    await prepare?.(page);
    await page.goto(url);
    return page;
  }
}

interface Options extends BrowserContextOptions {
  expected?: RegExp;
  prepare?: (page: Page) => Promise<unknown>;
}

/** Resolves when the page says that it is connected and has shown what there is. */
export async function live(page: Page) {
  await page.locator('#connection', { hasText: /^Live$/ }).waitFor();
  await page.locator('body.filled').waitFor();
}

/** What the console may say when the server goes away. */
export const goneAway = /ERR_CONNECTION_REFUSED|ERR_CONNECTION_RESET|ERR_EMPTY_RESPONSE|WebSocket/;

/** Everything that axe finds wrong with the page as it is now, in short. */
export async function violations(page: Page): Promise<string[]> {
  // Evaluated, not added as a script: the policy would refuse that.
  await page.evaluate(axe.source);
  const options = { resultTypes: ['violations'] };
  const results = (await page.evaluate(
    `axe.run(document, ${JSON.stringify(options)})`,
  )) as AxeResults;
  return results.violations.flatMap(({ id, help, nodes }) =>
    nodes.map(({ target, failureSummary }) => `${id}: ${help}: ${target}: ${failureSummary}`),
  );
}

/** Kept in build/screenshots for people. */
export async function picture(page: Page, name: string, { fullPage = true } = {}) {
  const folder = path.join(build, 'screenshots');
  mkdirSync(folder, { recursive: true });
  const file = path.join(folder, `${name}.png`);
  const viewport = page.viewportSize();
  if (!fullPage || !viewport) {
    await page.screenshot({ path: file });
    return;
  }
  // As high as the page: what is beyond the screen is not drawn.
  const height = (await page.evaluate('document.documentElement.scrollHeight')) as number;
  await page.setViewportSize({ ...viewport, height });
  await page.evaluate(
    'new Promise((drawn) => setTimeout(() => requestAnimationFrame(() => requestAnimationFrame(drawn))))',
  );
  await page.screenshot({ path: file });
  await page.setViewportSize(viewport);
}
