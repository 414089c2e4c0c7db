// A machine with nothing of this checkout: a folder with Node, a shell and the C library, entered by chroot.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  realpathSync,
  rmSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { which } from '../../scripts/setup/command.mjs';
import { isRoot, run } from './machine.js';

/** Why there can be none here, or false. */
export function noCleanRoot(): string | false {
  if (!isRoot) return 'not root: only root may enter a root folder of its own';
  for (const tool of ['unshare', 'chroot', 'mount', 'ldd'])
    if (which(tool) === undefined) return `no ${tool}`;
  try {
    execFileSync('unshare', ['--mount', 'true'], { stdio: 'ignore' });
  } catch {
    return 'no mounts of our own may be made here';
  }
  return false;
}

export class CleanRoot {
  readonly folder = mkdtempSync(path.join(tmpdir(), 'outboard-root-'));
  readonly #volumes: [folder: string, place: string][] = [];

  /** @param programs of this machine, which lie where they do here, with their libraries */
  constructor(programs: string[]) {
    // Whoever runs there must get to it.
    chmodSync(this.folder, 0o755);
    for (const name of ['proc', 'dev', 'tmp', 'root', 'etc']) mkdirSync(this.path(name));
    for (const program of programs) this.add(program, program);
  }

  path(...names: string[]): string {
    return path.join(this.folder, ...names);
  }

  /** Puts a program of this machine at a place there, and the libraries that it is linked with. */
  add(program: string, place: string) {
    this.copy(realpathSync(program), place);
    this.addLibrariesOf(program);
  }

  addLibrariesOf(file: string) {
    const said = execFileSync('ldd', [file], { encoding: 'utf8' });
    for (const [, library = ''] of said.matchAll(/(\/\S+) \(0x/g))
      if (!existsSync(this.path(library))) this.copy(realpathSync(library), library);
  }

  copy(from: string, place: string) {
    mkdirSync(path.dirname(this.path(place)), { recursive: true });
    copyFileSync(from, this.path(place));
  }

  /** From now on a folder of this machine is that place there, as a volume of containers is. */
  mount(folder: string, place: string) {
    mkdirSync(this.path(place), { recursive: true });
    this.#volumes.push([folder, place]);
  }

  /** Runs a program there, with an environment that has nothing of ours. */
  run(argv: string[], env: NodeJS.ProcessEnv = {}) {
    return run(this.#entered(argv), { env: this.#environment(env) });
  }

  /** @param user who runs it */
  spawn(argv: string[], env: NodeJS.ProcessEnv = {}, user = 0): ChildProcess {
    const [program = '', ...args] = this.#entered(argv, user);
    return spawn(program, args, {
      env: this.#environment(env),
      stdio: ['ignore', 'pipe', 'pipe'],
    });
  }

  // Ends as what it starts: a signal to it is one to the program.
  #entered(argv: string[], user = 0): string[] {
    const enter = [
      'mount -t proc proc "$0/proc"',
      'mount --rbind /dev "$0/dev"',
      ...this.#volumes.map(([folder, place]) => `mount --bind '${folder}' "$0${place}"`),
      `exec '${which('chroot')}' --userspec=${user}:${user} "$0" "$@"`,
    ].join(' && ');
    return ['unshare', '--mount', 'sh', '-c', enter, this.folder, ...argv];
  }

  #environment(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
    return { PATH: '/usr/sbin:/usr/bin:/sbin:/bin', HOME: '/root', ...env };
  }

  remove() {
    rmSync(this.folder, { recursive: true, force: true });
  }
}
