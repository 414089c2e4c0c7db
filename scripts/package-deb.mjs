// npm run package:deb: builds what runs, then build/package/outboard_VERSION_ARCH.deb and, of the guest's
// libraries alone, outboard-guest_VERSION_ARCH.deb, by dpkg-deb alone. The same sources give the same
// bytes: times are those of the newest change log entry, or SOURCE_DATE_EPOCH. With --no-build: of what
// is built already.
import { mkdirSync } from 'node:fs';
import { join, relative, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { build } from '../bin/paths.mjs';
import { thisRelease } from './package/deb.mjs';
import { guestDeb } from './package/guest.mjs';
import { outboardDeb } from './package/outboard.mjs';
import { setUp } from './setup/all.mjs';
import { runMain } from './setup/step.mjs';

const folder = join(build, 'package');

await runMain(async () => {
  const { values } = parseArgs({
    options: { 'no-build': { type: 'boolean' }, out: { type: 'string' } },
  });
  if (!values['no-build']) await setUp('runtime');
  const out = resolve(values.out ?? folder);
  const release = await thisRelease();
  mkdirSync(out, { recursive: true });
  console.log(relative(process.cwd(), await outboardDeb(out, release)));
  console.log(relative(process.cwd(), await guestDeb(out, release)));
  return 0;
});
