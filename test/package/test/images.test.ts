// OCI images, as they are packed, without a registry and without a daemon: what is in them is started from a root folder
// of its own, as docker would.
// Run nightly: packages are made, and images of them.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  cpSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import t, { type Test } from 'tap';
import { parse } from 'yaml';
import { authority, serverFiles } from '../../../monitor/test/support/certificates.js';
import { which } from '../../../scripts/setup/command.mjs';
import { build, noTls, root } from '../../support/paths.js';
import { startServer } from '../../support/server.js';
import { CleanRoot, noCleanRoot } from '../clean-root.js';
import { mustRun, noTools, run } from '../machine.js';

const skip = noTools || noCleanRoot() || (!which('buildah') && 'no buildah') || false;
const folder = mkdtempSync(path.join(tmpdir(), 'outboard-images-'));
t.teardown(() => rmSync(folder, { recursive: true }));
const script = path.join(root, 'scripts', 'package-images.mjs');
const env = { ...process.env, OUTBOARD_BUILD: build };

interface Service {
  image?: string;
  command?: string[];
  volumes?: string[];
}
const folderOfCompose = path.join(root, 'deploy', 'compose');
const compose: { services: Record<string, Service> & { server: Required<Service> } } = parse(
  readFileSync(path.join(folderOfCompose, 'compose.yaml'), 'utf8'),
);

async function packed(name: string, into: string): Promise<string> {
  const out = path.join(folder, into);
  await mustRun([process.execPath, script, name, '--no-build', '--out', out], { env });
  const [file = ''] = readdirSync(out);
  return path.join(out, file);
}

interface Manifest {
  config: { digest: string };
  layers: { digest: string; size: number }[];
}

interface Config {
  User: string;
  Env: string[];
  Entrypoint: string[];
  Cmd: string[];
  Labels: Record<string, string>;
}

/** What lies in a layout by its digest. */
const blob = (layout: string, digest: string) =>
  path.join(layout, 'blobs', digest.replace(':', '/'));
const json = (file: string) => JSON.parse(readFileSync(file, 'utf8'));

/** An image's root folder, and what its configuration says. */
async function unpacked(t: Test, name: string, archive: string) {
  const layout = mkdtempSync(path.join(folder, `${name}-layout-`));
  await mustRun(['tar', '-xf', archive, '-C', layout]);
  const [index] = json(path.join(layout, 'index.json')).manifests;
  const { version } = json(path.join(root, 'package.json'));
  t.match(index.annotations, { 'org.opencontainers.image.ref.name': `${name}:${version}` });
  const manifest: Manifest = json(blob(layout, index.digest));
  const image = json(blob(layout, manifest.config.digest));
  t.match(image, { architecture: 'amd64', os: 'linux' });
  const config: Config = image.config;
  t.match(config.Labels, {
    'org.opencontainers.image.version': version,
    'org.opencontainers.image.licenses': 'Apache-2.0',
  });
  const clean = new CleanRoot([]);
  t.teardown(() => clean.remove());
  t.equal(manifest.layers.length, 1);
  await mustRun(['tar', '-xf', blob(layout, manifest.layers[0]?.digest ?? ''), '-C', clean.folder]);
  const sbom = json(clean.path('usr', 'share', 'doc', name, 'sbom.spdx.json'));
  t.equal(sbom.spdxVersion, 'SPDX-2.3');
  const parts: string[] = sbom.packages.map((one: { name: string }) => one.name);
  t.equal(parts[0], name);
  return { clean, config, parts };
}

/** As docker starts it, with arguments in place of its own. */
function started(clean: CleanRoot, config: Config, args: string[], more: NodeJS.ProcessEnv = {}) {
  const variables = Object.fromEntries(config.Env.map((one) => one.split(/=(.*)/s).slice(0, 2)));
  return clean.spawn(
    [...config.Entrypoint, ...args],
    { ...variables, ...more },
    Number(config.User),
  );
}

t.test('the guest’s image', { skip }, async (t) => {
  const archive = await packed('outboard-guest', 'first');
  const again = readFileSync(await packed('outboard-guest', 'second'));
  t.ok(readFileSync(archive).equals(again), 'the same sources give the same bytes');
  t.ok(statSync(archive).size < 10_000_000);

  // A program in a root that has nothing else of ours, with the image's folder as its own.
  const { clean, parts } = await unpacked(t, 'outboard-guest', archive);
  t.match(parts.slice(0, 4), ['outboard-guest', /^libmd/, /^lib/, /^lib/]);
  t.equal(parts.includes('rustls'), !noTls, 'what TLS is made of');
  const place = '/usr/lib/outboard-guest';
  const libraries = ['libcuda.so', 'libcuda.so.1', 'libnvidia-ml.so', 'libnvidia-ml.so.1'];
  t.same(readdirSync(clean.path(place)).sort(), libraries);
  clean.add(path.join(build, 'guest-lib', 'outboard-probe'), '/usr/bin/probe');
  clean.addLibrariesOf(clean.path(place, 'libcuda.so.1'));
  const ours = authority(t.testdir(), 'ours');
  const { cert, key } = serverFiles(ours, null);
  const tls = ['--tls-listen', '127.0.0.1:0', '--tls-cert', cert ?? '', '--tls-key', key ?? ''];
  const server = await startServer({ args: ['--device', 'software', ...tls] });
  t.teardown(() => server.stop());
  cpSync(ours.ca, clean.path('ca.pem'));
  for (const variables of [
    { LD_LIBRARY_PATH: place },
    { LD_PRELOAD: `${place}/libcuda.so.1`, LD_LIBRARY_PATH: '' },
  ]) {
    const env = { OUTBOARD_SERVER: server.address, ...variables };
    const ran = await clean.run(['/usr/bin/probe'], env);
    t.equal(ran.code, 0, `${Object.keys(variables)[0]}: ${ran.stdout}${ran.stderr}`);
    if (noTls) continue;
    const byTls = { ...env, OUTBOARD_SERVER: server.tlsAddress ?? '', OUTBOARD_CA: '/ca.pem' };
    const also = await clean.run(['/usr/bin/probe'], byTls);
    t.equal(also.code, 0, `by TLS: ${also.stdout}${also.stderr}`);
  }
});

t.test('the images of server and command', { skip }, async (t) => {
  const archive = await packed('outboard-server-software', 'server');
  const again = readFileSync(await packed('outboard-server-software', 'server-again'));
  t.ok(readFileSync(archive).equals(again), 'the same sources give the same bytes');
  const server = await unpacked(t, 'outboard-server-software', archive);
  for (const part of ['node', 'libc6', 'libstdc++6', 'msgpackr', 'libzstd-dev'])
    t.ok(server.parts.includes(part), `${part} is named`);
  for (const name of ['proc', 'dev', 'run', 'var'])
    t.ok(existsSync(server.clean.path(name)), `/${name} is there`);
  const owned = statSync(server.clean.path('run', 'outboard'));
  t.equal(String(owned.uid), server.config.User, 'who serves may make its socket');

  t.equal(server.config.Cmd[0], 'serve');
  // As deploy/compose starts it, on the socket that a volume holds.
  const child = started(server.clean, server.config, [
    ...compose.services.server.command,
    ...['--http', 'none', '--grace', '0', '--servers-per-gpu', '1'],
  ]);
  const ended = once(child, 'exit');
  t.teardown(() => child.kill('SIGKILL'));
  const lines = createInterface({ input: child.stdout as NodeJS.ReadableStream });
  const errors: string[] = [];
  child.stderr?.setEncoding('utf8').on('data', (text: string) => errors.push(text));
  const [line] = await Promise.race([once(lines, 'line'), ended]);
  t.equal(line, 'listening on unix:/run/outboard/guests.sock', errors.join(''));
  const socket = server.clean.path('run', 'outboard', 'guests.sock');

  const cli = await unpacked(t, 'outboard-cli', await packed('outboard-cli', 'cli'));
  t.notOk(existsSync(cli.clean.path('usr/lib/outboard/build/software-device')));
  const usual = started(cli.clean, cli.config, cli.config.Cmd);
  const [code] = await once(usual, 'exit');
  t.equal(code, 0, 'its own arguments are a help');
  cli.clean.mount(path.dirname(socket), '/run/outboard');
  const doctor = started(cli.clean, cli.config, [
    ...['doctor', '--server', 'unix:/run/outboard/guests.sock'],
  ]);
  const said: string[] = [];
  doctor.stdout?.setEncoding('utf8').on('data', (text: string) => said.push(text));
  const [result] = await once(doctor, 'close');
  t.equal(result, 0, said.join(''));

  // And the function that the compose file has beside it.
  const guest = await unpacked(t, 'outboard-guest', await packed('outboard-guest', 'guest'));
  const variables = {
    ...process.env,
    PORT: '0',
    PYTHONPATH: path.join(root, 'deploy', 'lambda', 'function'),
    LD_LIBRARY_PATH: guest.clean.path('usr', 'lib', 'outboard-guest'),
    OUTBOARD_SERVER: `unix:${socket}`,
  };
  const program = path.join(root, 'deploy', 'compose', 'function', 'serve.py');
  const running = spawn('python3', [program], {
    env: variables,
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  t.teardown(() => running.kill('SIGKILL'));
  const [url] = await once(createInterface({ input: running.stdout }), 'line');
  const ask = async (body: string) => {
    const answer = await fetch(url, { method: 'POST', body });
    return { status: answer.status, body: await answer.json() };
  };
  const answered = await ask('{"values": [1, 2, 3], "factor": 2}');
  t.match(answered, { status: 200, body: { values: [2, 4, 6], calls: 1 } });
  t.match(await ask('{"values"'), { status: 400, body: { error: /no event/ } });

  child.kill('SIGTERM');
  t.same(await ended, [0, null], 'it ends when told');
});

t.test(
  'a server without its software device says so where there is no GPU',
  { skip },
  async (t) => {
    const archive = await packed('outboard-server', 'gpu');
    const { clean, config } = await unpacked(t, 'outboard-server', archive);
    t.ok(config.Env.includes('NVIDIA_VISIBLE_DEVICES=all'));
    const child = started(clean, config, config.Cmd);
    const errors: string[] = [];
    child.stderr?.setEncoding('utf8').on('data', (text: string) => errors.push(text));
    const [code] = await once(child, 'close');
    t.equal(code, 3);
    t.match(errors.join(''), /OB_DRIVER_LIBRARY.*--gpus all.*libcuda.so.1/);
  },
);

t.test('what the compose file mounts is there, and Prometheus takes it', async (t) => {
  const mounted = Object.values(compose.services).flatMap(({ volumes = [] }) => volumes);
  const files = mounted.filter((one) => one.startsWith('.')).map((one) => one.split(':')[0] ?? '');
  t.ok(files.length >= 5);
  for (const file of files) t.ok(existsSync(path.join(folderOfCompose, file)), file);
  for (const name of ['server', 'function'])
    t.ok(
      compose.services[name]?.volumes?.some((one) => one.startsWith('sockets:')),
      name,
    );
  t.match(compose.services.server.image, /^outboard-server-software:/);
  if (!which('promtool')) return;
  cpSync(path.join(folderOfCompose, 'prometheus.yaml'), path.join(folder, 'prometheus.yml'));
  cpSync(path.join(root, 'deploy', 'grafana', 'alerts.yaml'), path.join(folder, 'alerts.yaml'));
  const checked = await mustRun([
    'promtool',
    'check',
    'config',
    path.join(folder, 'prometheus.yml'),
  ]);
  t.match(checked, /SUCCESS/);
});

t.test('an image that does not exist', { skip }, async (t) => {
  const asked = await run([process.execPath, script, 'outboard-sever', '--no-build'], { env });
  t.not(asked.code, 0);
  t.match(asked.stderr + asked.stdout, /no image outboard-sever; there are outboard-guest, /);
});
