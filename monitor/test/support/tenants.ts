// A tenants file for a test.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { hashAccessToken, newAccessToken } from '../../src/tenants/access-token.js';

interface Test {
  teardown(end: () => unknown): void;
}

/** Two of them, `one` and `other`, with these limits, and their tokens. */
export function tenantsFile(t: Test, limits = '{}', otherLimits = limits) {
  const folder = mkdtempSync(path.join(tmpdir(), 'outboard-tenants-'));
  t.teardown(() => rmSync(folder, { recursive: true }));
  const file = path.join(folder, 'tenants.yaml');
  const tokens = { one: newAccessToken(), other: newAccessToken() };
  const entry = (name: string, token: string, limits: string) =>
    `  - name: ${name}\n    tokens: [{ hash: '${hashAccessToken(token)}' }]\n    limits: ${limits}\n`;
  const entries = entry('one', tokens.one, limits) + entry('other', tokens.other, otherLimits);
  writeFileSync(file, `version: v1\ntenants:\n${entries}`);
  return { file, ...tokens };
}
