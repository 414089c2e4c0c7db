// Files that are replaced, with watches and without.
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { FileWatch } from '../../src/base/file-watch.js';

t.test(
  'where a folder cannot be watched, that is said once, and files are looked at',
  async (t) => {
    const here = t.testdir();
    const folder = path.join(here, 'later');
    const file = path.join(folder, 'file');
    const beside = path.join(here, 'beside');
    const said: string[] = [];
    let saw = () => {};
    const next = () => {
      return new Promise<void>((resolve) => {
        saw = resolve;
      });
    };
    const watch = new FileWatch([file, beside], () => saw(), {
      say: (text) => said.push(text),
      everyMs: 10,
    });
    // It keeps nobody awake by itself.
    const awake = setInterval(() => {}, 1000);
    t.teardown(() => {
      watch.close();
      clearInterval(awake);
    });
    for (const text of ['a', 'ab']) {
      const changed = next();
      writeFileSync(beside, text);
      await changed;
    }
    t.match(said, [/later cannot be watched \(ENOENT\).*every 0.01 seconds$/]);
    t.equal(said.length, 1, 'although it was tried again');
    const changed = next();
    mkdirSync(folder);
    writeFileSync(file, 'a');
    await changed;
    t.match(said, [/cannot be watched/, /is watched again/]);
    t.equal(said.length, 2);
  },
);
