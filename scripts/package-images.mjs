// npm run package:images: builds what runs, then build/package/outboard-guest_VERSION_ARCH.oci.tar, an OCI image of
// the Debian package with the guest's libraries, by buildah. With --no-build: of what is built already.
import { mkdirSync } from 'node:fs';
import { join, relative, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { build } from '../bin/paths.mjs';
import { thisRelease } from './package/deb.mjs';
import { guestImage } from './package/image.mjs';
import { setUp } from './setup/all.mjs';
import { runMain } from './setup/step.mjs';

await runMain(async () => {
  const { values } = parseArgs({
    options: { 'no-build': { type: 'boolean' }, out: { type: 'string' } },
  });
  if (!values['no-build']) await setUp('runtime');
  const out = resolve(values.out ?? join(build, 'package'));
  mkdirSync(out, { recursive: true });
  console.log(relative(process.cwd(), await guestImage(out, await thisRelease())));
  return 0;
});
