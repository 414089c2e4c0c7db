// The libraries that the npm package has. npm leaves links out without a word, so they are files.
import { execFileSync } from 'node:child_process';
import { lstatSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { build, root } from '../../bin/paths.mjs';

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
      // The server opens this one by its path.
      if (name === 'software-device-nvml.so') continue;
      const plain = name.replace(/\.1$/, '');
      for (const both of [plain, `${plain}.1`]) t.ok(libraries.includes(both), `${folder}/${both}`);
    }
  }
});

t.test('what the installed command starts or loads is packed', async (t) => {
  const { files } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
    files: string[];
  };
  const libraries = ['libcublas.so.13', 'libcublasLt.so.13', 'outboard-binding.so'].map(
    (name) => `libraries/${name}`,
  );
  const keptPtx = ['12', '13'].map((major) => `software-device/keep-ptx/libnvJitLink.so.${major}`);
  for (const file of ['api-server/outboard-confine', ...libraries, ...keptPtx]) {
    t.ok(files.includes(`build/${file}`), file);
    t.ok(lstatSync(join(build, file)).isFile(), file);
  }
});

t.test('the sandbox of slots needs no library but the C library', async (t) => {
  const file = join(build, 'api-server', 'outboard-confine');
  const dynamic = execFileSync('readelf', ['-d', file], { encoding: 'utf8' });
  const needed = [...dynamic.matchAll(/\(NEEDED\).*\[(.+)\]/g)].map(([, name]) => name);
  t.same(needed, ['libc.so.6']);
});
