import { join } from 'node:path';
import { defineConfig } from 'vite';
import { build, root } from '../../bin/paths.mjs';

// The monitor sends `default-src 'self'`, so nothing may be inlined as data: or as a script.
export default defineConfig({
  root: join(root, 'monitor', 'web'),
  base: './',
  build: {
    outDir: join(build, 'web'),
    emptyOutDir: true,
    target: ['chrome123', 'firefox120', 'safari17.5'],
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
});
