#!/usr/bin/env node
// The command `outboard`. All of it lives in monitor/src/commands/main.ts; this file only finds the compiled
// form and, in a checkout that was never built, says so instead of showing a module-not-found trace.
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const cli = new URL('../build/programs/monitor/src/commands/main.js', import.meta.url);

if (existsSync(cli)) {
  await import(cli.href);
} else {
  const root = fileURLToPath(new URL('..', import.meta.url));
  process.stderr.write(
    `outboard: not built yet: ${fileURLToPath(cli)} does not exist.\n` +
      `Build it once with:  cd ${root} && npm run build\n`,
  );
  process.exitCode = 1;
}
