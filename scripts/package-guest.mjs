// npm run package:guest: builds what runs, then build/package/outboard-guest_VERSION_ARCH.tar.gz: what a
// machine needs that only runs programs. With --no-build: of what is built already. The Debian package
// of the same libraries comes with `npm run package:deb`.
import { mkdirSync } from 'node:fs';
import { join, relative, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { build } from '../bin/paths.mjs';
import { thisRelease } from './package/deb.mjs';
import { guestArchive } from './package/guest.mjs';
import { setUp } from './setup/all.mjs';
import { runMain } from './setup/step.mjs';

await runMain(async () => {
  const { values } = parseArgs({
    options: { 'no-build': { type: 'boolean' }, out: { type: 'string' } },
  });
  if (!values['no-build']) await setUp('runtime');
  const out = resolve(values.out ?? join(build, 'package'));
  mkdirSync(out, { recursive: true });
  console.log(relative(process.cwd(), await guestArchive(out, await thisRelease())));
  return 0;
});
