// A machine to install the package on: a folder with a package database of its own.
import { spawn } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { which } from '../../scripts/setup/command.mjs';
import { type Outcome, outcome } from '../support/program.js';

/** Users and packages are root's; anybody else can only unpack. */
export const isRoot = process.getuid?.() === 0;

/** Why there is no package here, or false. */
export const noTools = [
  ...['dpkg-deb', 'dpkg-shlibdeps', 'dpkg-parsechangelog', 'strip'],
  // Of the maintainer scripts, which run outside of the folder.
  ...(isRoot ? ['systemd-sysusers', 'systemd-tmpfiles'] : []),
]
  .filter((tool) => which(tool) === undefined)
  .map((tool) => `no ${tool}`)
  .join(', ');

export interface RunOptions {
  env?: NodeJS.ProcessEnv;
  cwd?: string;
  uid?: number;
  gid?: number;
}

export function run(argv: string[], options: RunOptions = {}): Promise<Outcome> {
  const [program = '', ...args] = argv;
  return outcome(spawn(program, args, { ...options, stdio: ['ignore', 'pipe', 'pipe'] }));
}

/** Throws with what it said where it fails. */
export async function mustRun(argv: string[], options: RunOptions = {}): Promise<string> {
  const { code, signal, stdout, stderr } = await run(argv, options);
  if (code !== 0) throw new Error(`${argv.join(' ')}: ${code ?? signal}\n${stdout}${stderr}`);
  return stdout;
}

export class Machine {
  readonly folder = mkdtempSync(path.join(tmpdir(), 'outboard-package-'));
  readonly root = path.join(this.folder, 'root');
  readonly #database = path.join(this.folder, 'dpkg');

  constructor() {
    // The server's own user must get to its files.
    chmodSync(this.folder, 0o755);
    for (const name of ['info', 'updates']) {
      mkdirSync(path.join(this.#database, name), { recursive: true });
    }
    for (const name of ['status', 'available']) writeFileSync(path.join(this.#database, name), '');
    mkdirSync(this.root);
  }

  path(...names: string[]): string {
    return path.join(this.root, ...names);
  }

  /** Installs, as `dpkg -i` does on a machine of its own; unpacks only where we are not root. */
  async install(deb: string) {
    if (isRoot) await this.dpkg('--force-depends', '--install', deb);
    else await mustRun(['dpkg-deb', '-x', deb, this.root]);
  }

  dpkg(...args: string[]): Promise<string> {
    const { PATH = '' } = process.env;
    return mustRun(
      [
        'dpkg',
        `--instdir=${this.root}`,
        `--admindir=${this.#database}`,
        `--log=${path.join(this.folder, 'dpkg.log')}`,
        '--force-script-chrootless',
        // Without waiting for a disk: nothing here is kept.
        '--force-unsafe-io',
        ...args,
      ],
      { env: { PATH: `${PATH}:/usr/sbin:/sbin`, DEBIAN_FRONTEND: 'noninteractive' } },
    );
  }

  /** Of a user in this machine's own list. */
  user(name: string): { uid: number; gid: number } {
    const line = readFileSync(this.path('etc', 'passwd'), 'utf8')
      .split('\n')
      .find((one) => one.startsWith(`${name}:`));
    const [, , uid, gid] = line?.split(':') ?? [];
    if (uid === undefined || gid === undefined) throw new Error(`no user ${name}`);
    return { uid: Number(uid), gid: Number(gid) };
  }

  remove() {
    rmSync(this.folder, { recursive: true });
  }
}
