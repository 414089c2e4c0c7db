// OCI images, as they are packed, without a registry and without a daemon.
// Run nightly: packages are made, and images of them.
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import t from 'tap';
import { which } from '../../../scripts/setup/command.mjs';
import { build, root } from '../../support/paths.js';
import { startServer } from '../../support/server.js';
import { CleanRoot, noCleanRoot } from '../clean-root.js';
import { mustRun, noTools } from '../machine.js';

const skip = noTools || noCleanRoot() || (!which('buildah') && 'no buildah') || false;
const folder = mkdtempSync(path.join(tmpdir(), 'outboard-images-'));
t.teardown(() => rmSync(folder, { recursive: true }));

async function packed(out: string): Promise<string> {
  const script = path.join(root, 'scripts', 'package-images.mjs');
  const env = { ...process.env, OUTBOARD_BUILD: build };
  await mustRun([process.execPath, script, '--no-build', '--out', out], { env });
  const [name = ''] = readdirSync(out);
  return path.join(out, name);
}

interface Manifest {
  config: { digest: string };
  layers: { digest: string; size: number }[];
}

/** What lies in a layout by its digest. */
const blob = (layout: string, digest: string) =>
  path.join(layout, 'blobs', digest.replace(':', '/'));
const json = (file: string) => JSON.parse(readFileSync(file, 'utf8'));

t.test('the guest’s image', { skip }, async (t) => {
  const archive = await packed(path.join(folder, 'first'));
  const again = readFileSync(await packed(path.join(folder, 'second')));
  t.ok(readFileSync(archive).equals(again), 'the same sources give the same bytes');
  t.ok(statSync(archive).size < 10_000_000);

  const layout = path.join(folder, 'layout');
  mkdirSync(layout);
  await mustRun(['tar', '-xf', archive, '-C', layout]);
  const [index] = json(path.join(layout, 'index.json')).manifests;
  t.match(index.annotations, { 'org.opencontainers.image.ref.name': /^outboard-guest:/ });
  const manifest: Manifest = json(blob(layout, index.digest));
  const config = json(blob(layout, manifest.config.digest));
  t.match(config, { architecture: 'amd64', os: 'linux' });
  const { version } = json(path.join(root, 'package.json'));
  t.match(config.config.Labels, {
    'org.opencontainers.image.version': version,
    'org.opencontainers.image.licenses': 'Apache-2.0',
  });

  // A program in a root that has nothing else of ours, with the image's folder as its own.
  const clean = new CleanRoot([]);
  t.teardown(() => clean.remove());
  t.equal(manifest.layers.length, 1);
  await mustRun(['tar', '-xf', blob(layout, manifest.layers[0]?.digest ?? ''), '-C', clean.folder]);
  const sbom = json(clean.path('usr', 'share', 'doc', 'outboard-guest', 'sbom.spdx.json'));
  t.equal(sbom.spdxVersion, 'SPDX-2.3');
  t.match(
    sbom.packages.map((one: { name: string }) => one.name),
    ['outboard-guest', /^libmd/, /^lib/, /^lib/],
  );
  const place = '/usr/lib/outboard-guest';
  const libraries = ['libcuda.so', 'libcuda.so.1', 'libnvidia-ml.so', 'libnvidia-ml.so.1'];
  t.same(readdirSync(clean.path(place)).sort(), libraries);
  clean.add(path.join(build, 'guest-lib', 'outboard-probe'), '/usr/bin/probe');
  clean.addLibrariesOf(clean.path(place, 'libcuda.so.1'));
  const server = await startServer();
  t.teardown(() => server.stop());
  for (const variables of [
    { LD_LIBRARY_PATH: place },
    { LD_PRELOAD: `${place}/libcuda.so.1`, LD_LIBRARY_PATH: '' },
  ]) {
    const env = { OUTBOARD_SERVER: server.address, ...variables };
    const ran = await clean.run(['/usr/bin/probe'], env);
    t.equal(ran.code, 0, `${Object.keys(variables)[0]}: ${ran.stdout}${ran.stderr}`);
  }
});
