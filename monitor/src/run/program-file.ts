// The file that a command will execute: where it is, and why the loader would not load the guest library
// into it.
import { closeSync, openSync, readSync, realpathSync, statSync } from 'node:fs';
import path from 'node:path';

/** Where execvp finds it; null: nowhere. */
function find(program: string, searched: string): string | null {
  if (program.includes('/')) return program;
  for (const folder of searched.split(':')) {
    const file = path.join(folder || '.', program);
    try {
      const { mode } = statSync(file);
      if ((mode & 0o111) !== 0 && (mode & 0o170000) === 0o100000) return file;
    } catch {
      // The next one.
    }
  }
  return null;
}

const headBytes = 4096;

const mostInterpreters = 4;

function head(file: string): Buffer {
  const fd = openSync(file, 'r');
  try {
    const bytes = Buffer.alloc(headBytes);
    return bytes.subarray(0, readSync(fd, bytes, 0, headBytes, 0));
  } finally {
    closeSync(fd);
  }
}

/** Machines that a guest library is built for, by ELF's e_machine. */
const machines: Record<string, number> = { x64: 62, arm64: 183 };

/** Why the library cannot be loaded; null: it can, or the file cannot be read, which the system will say. */
export function whyNotPreloaded(program: string, env: NodeJS.ProcessEnv): string | null {
  try {
    const file = find(program, env['PATH'] ?? '/usr/bin:/bin');
    return file === null ? null : problemOf(file, 0);
  } catch {
    return null;
  }
}

/** The words behind `#!`; null: it is no script. */
function firstLineOf(bytes: Buffer): string[] | null {
  const [, line] = /^#![ \t]*(\S[^\n]*)/.exec(bytes.toString('utf8', 0, 256)) ?? [];
  return line?.trim().split(/[ \t]+/) ?? null;
}

/**
 * The interpreter that executes a script in the end, with the arguments of its first line. `env` is followed,
 * and so is what pip and uv write where that line would be too long for the kernel. Null: it is no script.
 */
export function interpreterOf(program: string, env: NodeJS.ProcessEnv): string[] | null {
  try {
    const searched = env['PATH'] ?? '/usr/bin:/bin';
    const file = find(program, searched);
    return file === null ? null : throughLines(file, searched);
  } catch {
    return null;
  }
}

function throughLines(file: string, searched: string): string[] | null {
  let found: string[] | null = null;
  for (let depth = 0; depth < mostInterpreters; depth++) {
    const bytes = head(found?.[0] ?? file);
    const words = handedOn(bytes, file) ?? firstLineOf(bytes);
    if (!words) return found;
    found = path.basename(words[0] ?? '') === 'env' ? behindEnv(words, searched) : words;
    if (!found) return null;
  }
  return found;
}

/** The second line of such a script, which means something to the shell and nothing to Python. */
function handedOn(bytes: Buffer, file: string): string[] | null {
  const [, line = ''] =
    /^#!\/bin\/sh\n'''exec' ([^\n]*) "\$0" "\$@"\n/.exec(bytes.toString()) ?? [];
  const [, beside] = /^"\$\(dirname -- "\$\(realpath -- "\$0"\)"\)"\/'([^']+)'$/.exec(line) ?? [];
  if (beside !== undefined) return [path.join(path.dirname(realpathSync(file)), beside)];
  const [, quoted = line] = /^(?:"([^"]*)"|'([^']*)')$/.exec(line)?.filter(Boolean) ?? [];
  return quoted === '' ? null : [quoted];
}

/** The program that `env` executes, behind its options and variables. */
function behindEnv(words: string[], searched: string): string[] | null {
  const at = words.findIndex((word, index) => index > 0 && !/^-|=/.test(word));
  const file = at < 0 ? null : find(words[at] ?? '', searched);
  return file === null ? null : [file, ...words.slice(at + 1)];
}

function problemOf(file: string, depth: number): string | null {
  const bytes = head(file);
  const [interpreter] = firstLineOf(bytes) ?? [];
  if (interpreter !== undefined) {
    return depth < mostInterpreters ? problemOf(interpreter, depth + 1) : null;
  }
  if (bytes.length < 64 || bytes.toString('latin1', 0, 4) !== '\x7fELF') return null;
  const isolated = rightsOf(file);
  if (isolated !== null) return isolated;
  if (bytes[4] === 1) {
    return `${file} is a 32-bit program, for which there is no CUDA: build it for 64 bits`;
  }
  if (bytes.readUInt16LE(18) !== machines[process.arch]) {
    return `${file} is for another kind of processor than this machine's: build it for ${process.arch}`;
  }
  const loader = loaderOf(bytes);
  // The program may be the loader itself, which loads what its arguments name.
  if (loader === null && !/^ld[-.6]/.test(path.basename(file))) {
    return (
      `${file} is linked statically, so that no library can take the driver's place in it: ` +
      'link it dynamically (the CUDA runtime itself may be static)'
    );
  }
  if (loader?.includes('ld-musl')) {
    return (
      `${file} is linked with musl, and Outboard's library, like CUDA's own, needs glibc: ` +
      'use a build or an image with glibc, such as Debian or Ubuntu'
    );
  }
  return null;
}

/** With such a file the loader ignores the environment. */
function rightsOf(file: string): string | null {
  const { mode, uid, gid } = statSync(file);
  const user = (mode & 0o4000) !== 0 && uid !== process.getuid?.();
  const group = (mode & 0o2000) !== 0 && gid !== process.getgid?.();
  if (!user && !group) return null;
  return (
    `${file} runs with the rights of its ${user ? 'owner (setuid)' : 'group (setgid)'}, and the loader ` +
    'then ignores LD_PRELOAD and LD_LIBRARY_PATH: run what it would run itself, or `outboard run` behind it'
  );
}

const interpreterHeader = 3;

/** The dynamic loader that the file names; null: none, it is linked statically. */
function loaderOf(bytes: Buffer): string | null {
  const first = Number(bytes.readBigUInt64LE(32));
  const size = bytes.readUInt16LE(54);
  const end = first + bytes.readUInt16LE(56) * size;
  for (let at = first; at < end; at += size) {
    if (bytes.readUInt32LE(at) !== interpreterHeader) continue;
    const from = Number(bytes.readBigUInt64LE(at + 8));
    const length = Number(bytes.readBigUInt64LE(at + 32)) - 1;
    return bytes.toString('latin1', from, from + length);
  }
  return null;
}
