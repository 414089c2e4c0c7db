// The quota pages of a real server, as the gates of its slots see them.
import { closeSync, openSync, readdirSync, readlinkSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { loadNative } from '../../../api-server/src/native.js';
import { QuotaPage } from '../../../api-server/src/quota-page.js';
import { build } from '../../../bin/paths.mjs';

/** The page of the slot that serves this session, once its process has begun it; `pid` is the server's. */
export async function quotaPageOf(pid: number, session: number): Promise<QuotaPage> {
  const folder = `/proc/${pid}/fd`;
  const native = loadNative(build);
  // Memory tells nobody when it changes.
  for (; ; await pause(5)) {
    for (const name of readdirSync(folder)) {
      const file = path.join(folder, name);
      if (!linkOf(file).includes('memfd:outboard-tokens')) continue;
      const fd = openSync(file, 'r+');
      const page = QuotaPage.open(native, fd);
      closeSync(fd);
      if (page.read().session === BigInt(session)) return page;
    }
  }
}

/** What is closed meanwhile is none that is looked for. */
function linkOf(file: string): string {
  try {
    return readlinkSync(file);
  } catch {
    return '';
  }
}
