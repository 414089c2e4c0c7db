// The sandbox of slots' processes: Landlock and a filter of system calls. A small program applies them to
// itself and becomes Node (api-server/confine/confine.c). They hold for all threads and for whatever runs
// in the process, so also when a tenant has taken it over: it can open no files but those named here, and
// no socket to the network; it can make no process, and read, trace or signal no other.
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, realpathSync } from 'node:fs';
import path from 'node:path';
import { root } from '../../../bin/paths.mjs';
import { OutboardError } from '../base/errors.js';
import type { Log } from '../base/log.js';
import type { Driver } from '../devices/devices.js';
import type { CacheFolder } from './cache-folder.js';

export interface Sandbox {
  /** The program that is started in place of Node, and starts it. */
  command: string;
  args: readonly string[];
  /** For the log. */
  what: string;
}

export interface SandboxOptions {
  wanted: 'auto' | 'required' | 'off';
  build: string;
  driver: Driver;
  modules: CacheFolder | null;
  uploads: CacheFolder | null;
  /** The folder of the libraries that sessions may call whole; null: none. */
  libraries?: string | null;
  traces: string | null;
  /** Files that would let who reads them act as the server or an operator: slots must not be able to. */
  secrets?: readonly string[];
  /** Is told where there can be no sandbox and none is required. */
  log?: Log;
}

/** The first version of Landlock that can forbid TCP. */
const wholeVersion = 4;

/** What the loader, Node and a CUDA driver read. Nothing of /etc that says who may come in. */
const readable = [
  ...[
    '/usr',
    '/lib',
    '/lib32',
    '/lib64',
    '/bin',
    '/opt',
    '/sys',
    '/proc',
    '/run/nvidia-persistenced',
  ],
  ...['/etc/ld.so.cache', '/etc/ld.so.conf', '/etc/ld.so.conf.d', '/etc/nvidia', '/etc/OpenCL'],
  ...[
    '/etc/localtime',
    '/etc/ssl/openssl.cnf',
    '/etc/ssl/certs',
    '/etc/nsswitch.conf',
    '/etc/passwd',
    '/etc/group',
  ],
];
/** The loaders by which the kernel starts Node. */
const loaders = ['/lib64/ld-linux-x86-64.so.2', '/lib/ld-linux-aarch64.so.1'];
/** Where an MPS server listens, and devices that a driver or its libraries use. Some appear only later. */
const writable = [
  '/tmp/nvidia-mps',
  ...['null', 'zero', 'full', 'random', 'urandom', 'dri'].map((name) => `/dev/${name}`),
  ...['ctl', '-uvm', '-uvm-tools', '-modeset', '-caps'].map((name) => `/dev/nvidia${name}`),
];
/** Here NVIDIA's driver has events that processes share, and what MPS needs. No other driver needs it. */
const sharedMemory = '/dev/shm';
/** Devices of NVIDIA's, by name; /dev also has disks, the kernel's log and terminals. */
const isGpuDevice = (name: string) => /^(nvidia|nvhost|nvmap|nvgpu|nvsci|dxg$)/.test(name);

/** Null: none. Throws OB_SANDBOX where one is required and cannot be had, and OB_SANDBOX_SECRET. */
export function openSandbox(options: SandboxOptions): Sandbox | null {
  const { wanted, build, driver, modules, uploads, traces, secrets = [], log } = options;
  if (wanted === 'off') return null;
  const command = path.join(build, 'api-server', 'outboard-confine');
  const asked = existsSync(command)
    ? spawnSync(command, ['--version'], { encoding: 'utf8' })
    : { status: 1, stdout: '', stderr: `${command} is not built` };
  if (asked.status !== 0) {
    if (wanted === 'auto') {
      log?.warn({ why: asked.stderr.trim() }, 'there is no sandbox for the API server processes');
      return null;
    }
    throw new OutboardError('OB_SANDBOX', asked.stderr.trim());
  }
  const version = Number(/\d+/.exec(asked.stdout)?.[0]);
  if (wanted === 'required' && version < wholeVersion) {
    const lacks = `Landlock ${version} of this kernel leaves TCP open; ${wholeVersion} is needed`;
    throw new OutboardError('OB_SANDBOX', `${lacks} (Linux 6.7)`);
  }
  const loaded = (driver.env['LD_LIBRARY_PATH'] ?? '').split(':').filter(Boolean);
  const parts = ['build/programs', 'node_modules', 'proto', 'package.json'];
  const own = [...parts.map((part) => path.join(root, part)), build, path.dirname(driver.library)];
  // Landlock knows files, not the links that lead to them.
  const called = ['libcublas.so.13', 'libcublasLt.so.13'].map((name) =>
    path.join(options.libraries ?? '', name),
  );
  const libraries = [
    driver.library,
    path.join(build, 'api-server', 'executor.node'),
    ...(options.libraries ? called : []),
  ];
  const linked = libraries.filter(existsSync).map((one) => path.dirname(realpathSync(one)));
  const served = options.libraries ? [options.libraries] : [];
  const reads = [...readable, ...own, ...linked, ...loaded, ...served].filter((one) =>
    path.isAbsolute(one),
  );
  const pipes = driver.env['CUDA_MPS_PIPE_DIRECTORY'];
  const named = [modules?.folder, uploads?.folder, traces, pipes];
  const gpus = readdirSync('/dev').filter(isGpuDevice);
  const writes = [
    ...writable,
    ...gpus.map((name) => `/dev/${name}`),
    ...(driver.kind === 'software' ? [] : [sharedMemory]),
    ...named.filter((one) => typeof one === 'string'),
  ];
  keepFrom([...reads, ...writes], secrets);
  const args = [
    ...(driver.kind === 'software' ? [] : ['--threads']),
    ...reads.flatMap((one) => ['--read', one]),
    ...writes.flatMap((one) => ['--write', one]),
    ...[process.execPath, ...loaders].flatMap((one) => ['--run', one]),
    '--',
    process.execPath,
  ];
  return { command, args, what: asked.stdout.trim() };
}

function keepFrom(open: readonly string[], secrets: readonly string[]) {
  const folders = open.filter(existsSync).map((one) => realpathSync(one));
  for (const secret of secrets.map((one) => path.resolve(one))) {
    const folder = path.dirname(secret);
    const place = existsSync(folder) ? realpathSync(folder) : folder;
    // It may be a link into another one.
    const places = existsSync(secret) ? [place, realpathSync(secret)] : [place];
    const around = folders.find((one) => places.some((it) => `${it}/`.startsWith(`${one}/`)));
    if (around !== undefined) throw new OutboardError('OB_SANDBOX_SECRET', secret, around);
  }
}
