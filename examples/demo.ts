// The demonstration: k-means on the colours of a photograph, on a GPU here and then on a "remote" one,
// which must give the same bytes; and what that cost. Run by `npm run demo`.
//
//   npm run demo -- [--picture FILE] [--k N] [--device auto|software|nvidia|PATH] [--out FOLDER]
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { build } from '../bin/paths.mjs';
import { guestEnvironment } from '../monitor/src/commands/run.js';
import { chooseDriver, type Driver } from '../monitor/src/devices/devices.js';
import { readStats } from '../monitor/src/run/stats.js';
import { type Outcome, runProgram } from './demo/program.js';
import { costs, difference, grouped, table } from './demo/report.js';
import { startServer } from './demo/server.js';
import { findPhotograph } from './picture/photograph.js';
import { pictureAsPpm, sideBySide } from './picture/picture.js';
import { decodePpm } from './picture/ppm.js';

const gpus = 2;

const { values } = parseArgs({
  options: {
    picture: { type: 'string' },
    k: { type: 'string', default: '8' },
    device: { type: 'string', default: 'auto' },
    out: { type: 'string', default: path.join(build, 'demo') },
  },
});

try {
  process.exitCode = await demonstrate();
} catch (error) {
  process.stderr.write(`\ndemo: ${error instanceof Error ? error.message : error}\n`);
  process.exitCode = 1;
}

async function demonstrate(): Promise<number> {
  const program = path.join(build, 'examples', 'kmeans');
  if (!existsSync(program)) throw new Error(`${program} does not exist. Run \`npm run demo\`.`);
  const folder = path.resolve(values.out);
  mkdirSync(folder, { recursive: true });
  const driver = await chooseDriver(values.device, null, build);
  const before = pictureAsPpm(values.picture ?? findPhotograph(build, say), folder);
  const { width, height } = decodePpm(readFileSync(before), before);
  say(`\nk-means, ${values.k} colours, ${width} x ${height} = ${grouped(width * height)} pixels`);
  say(`on ${inWords(driver)}\n`);

  const run = (name: string, env: NodeJS.ProcessEnv) => {
    const after = path.join(folder, `after-${name}.ppm`);
    const args = ['--k', values.k, '--time', '--out', after, before];
    return runProgram(program, args, env).then((outcome) => ({ ...outcome, after }));
  };

  say('natively: the program with that driver library');
  const native = await run('natively', nativeEnvironment(driver));
  quote(native);

  const statsFile = path.join(folder, 'stats');
  const remote = await withServer(driver, (address) => {
    say(`\nremotely: the same program, through \`outboard serve\` on ${address}`);
    const settings = { OUTBOARD_SERVER: address, OUTBOARD_STATS: statsFile };
    return run('remotely', guestEnvironment(build, driver.env, settings));
  });
  quote(remote);

  const differences = [
    difference('output', native.stdout, remote.stdout),
    difference('picture', readFileSync(native.after), readFileSync(remote.after)),
  ].filter((one) => one !== null);
  if (differences.length > 0) {
    say(`\nTHEY DIFFER:\n  ${differences.join('\n  ')}`);
    return 1;
  }
  const size = readFileSync(remote.after).length;
  say(`\nthe same: ${native.stdout.length} bytes of output, ${grouped(size)} bytes of picture`);
  say(
    `\nwhat it cost, over TCP on this machine\n${table(costs(native, remote, readStats(statsFile)))}`,
  );
  const png = sideBySide(before, remote.after, path.join(folder, 'kmeans.png'));
  say(`\nbefore and after: ${path.relative(process.cwd(), png)}`);
  return 0;
}

async function withServer<T>(driver: Driver, use: (address: string) => Promise<T>): Promise<T> {
  const software = driver.kind === 'software';
  const device = software || driver.kind === 'nvidia' ? driver.kind : driver.library;
  const options = ['--device', device, ...(software ? ['--gpus', `${gpus}`] : [])];
  const server = await startServer(options);
  try {
    return await use(server.address);
  } finally {
    await server.stop();
  }
}

function inWords({ kind, library, gpus: there }: Driver): string {
  switch (kind) {
    case 'software':
      return `${gpus} software GPUs: there is no NVIDIA driver with a GPU on this machine`;
    case 'nvidia':
      return `${there === 1 ? 'the NVIDIA GPU' : `the ${there} NVIDIA GPUs`} of this machine`;
    default:
      return `the devices of ${library}`;
  }
}

/** What the program needs to use the driver library directly. */
function nativeEnvironment({ kind, library, env }: Driver): NodeJS.ProcessEnv {
  if (kind === 'nvidia') return env;
  const folders = [path.dirname(library), env['LD_LIBRARY_PATH']].filter((one) => one);
  return { ...env, LD_LIBRARY_PATH: folders.join(':') };
}

function quote({ stdout }: Outcome) {
  for (const line of stdout.toString().trimEnd().split('\n')) say(`  | ${line}`);
}

function say(line: string) {
  process.stdout.write(`${line}\n`);
}
