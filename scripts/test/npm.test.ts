// The libraries that the npm package has. npm leaves links out without a word, so they are files.
import { lstatSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { build, root } from '../setup/paths.mjs';

t.test('every library is packed, by both names, as a file', async (t) => {
  const { files } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
    files: string[];
  };
  for (const folder of ['guest-lib', 'software-device']) {
    const libraries = readdirSync(join(build, folder)).filter((name) => /\.so(\.1)?$/.test(name));
    t.ok(libraries.includes('libcuda.so'), folder);
    for (const name of libraries) {
      t.ok(files.includes(`build/${folder}/${name}`), `${folder}/${name} is packed`);
      t.ok(lstatSync(join(build, folder, name)).isFile(), `${folder}/${name} is a file`);
      const plain = name.replace(/\.1$/, '');
      for (const both of [plain, `${plain}.1`]) t.ok(libraries.includes(both), `${folder}/${both}`);
    }
  }
});
