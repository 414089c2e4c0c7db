// npm run package:lambda: builds what runs, then build/package/outboard-lambda_VERSION_ARCH.zip, the layer for
// AWS Lambda (deploy/lambda). With --no-build: of what is built already. The same sources give the same bytes.
import { mkdirSync } from 'node:fs';
import { join, relative, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { build } from '../bin/paths.mjs';
import { thisRelease } from './package/deb.mjs';
import { lambdaLayer } from './package/lambda.mjs';
import { setUp } from './setup/all.mjs';
import { runMain } from './setup/step.mjs';

await runMain(async () => {
  const { values } = parseArgs({
    options: { 'no-build': { type: 'boolean' }, out: { type: 'string' } },
  });
  if (!values['no-build']) await setUp('runtime');
  const out = resolve(values.out ?? join(build, 'package'));
  mkdirSync(out, { recursive: true });
  console.log(relative(process.cwd(), await lambdaLayer(out, await thisRelease())));
  return 0;
});
