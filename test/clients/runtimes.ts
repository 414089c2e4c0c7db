// The CUDA runtimes that tests go through, in one program (runtimes/): loaded by path or linked,
// one by one and together, with the legacy and the per-thread default stream.
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync } from 'node:fs';
import path from 'node:path';
import { sharedRuntime, staticRuntime } from '../../scripts/setup/runtimes.mjs';
import { build, cudartFolder, root } from '../support/paths.js';

export interface RuntimeRun {
  name: string;
  program: string;
  args: string[];
  /** How many runtimes there are in the process. */
  runtimes: number;
}

const sources = path.join(root, 'test', 'clients', 'runtimes');
const programs = path.join(build, 'runtimes', 'programs');

function compile(name: string, files: string[], linked?: string): string {
  mkdirSync(programs, { recursive: true });
  const program = path.join(programs, name);
  const code = files.map((file) => path.join(sources, file));
  const runtime = linked ? ['-DLINKED', linked] : [];
  const flags = ['-std=gnu11', '-O1', '-Wall', '-Wextra', '-Werror', '-o', program];
  // What is linked comes last: it is needed by what stands before.
  execFileSync('cc', [...flags, ...code, ...runtime, '-ldl', '-lpthread', '-lrt']);
  return program;
}

/** What looks functions up in the driver, without a runtime. */
export function compileLookups(): string {
  return compile('lookups', ['lookups.c']);
}

function bothStreams(run: RuntimeRun): RuntimeRun[] {
  const perThread = { ...run, name: `${run.name}, per-thread default stream` };
  return [run, { ...perThread, args: ['--per-thread', ...run.args] }];
}

const parts = ['runtimes.c', 'load.c'];

/** Each by itself, shared and, where there is such a library, linked; then several at once. */
export function allRuntimeRuns(versions: string[]): RuntimeRun[] {
  const loading = compile('runtimes', parts);
  const paths = new Map(versions.map((version) => [version, sharedRuntime(version) ?? '']));
  const runs: RuntimeRun[] = [];
  for (const [version, args] of paths) {
    runs.push(
      ...bothStreams({ name: `${version} shared`, program: loading, args: [args], runtimes: 1 }),
    );
    const library = staticRuntime(version);
    if (!library) continue;
    const program = compile(`runtimes-${version}`, parts, library);
    runs.push(...bothStreams({ name: `${version} linked`, program, args: [], runtimes: 1 }));
  }
  const chosen = ['11.8', '12.0', '12.9', '13.5'].flatMap((version) => paths.get(version) ?? []);
  const together = { program: loading, args: chosen, runtimes: chosen.length };
  return [...runs, ...bothStreams({ name: '11.8, 12.0, 12.9 and 13.5 together', ...together })];
}

/** An old one, shared. */
export function oldRuntimeRun(): RuntimeRun {
  const old = sharedRuntime('11.8') ?? '';
  return { name: '11.8 shared', program: compile('runtimes', parts), args: [old], runtimes: 1 };
}

/** An old one, and the toolkit's own, linked and shared. */
export function fewRuntimeRuns(): RuntimeRun[] {
  const old = sharedRuntime('11.8') ?? '';
  const own = path.join(cudartFolder, 'libcudart.so.13');
  const linked = path.join(cudartFolder, 'libcudart_static.a');
  const args = existsSync(own) ? [old, own] : [old];
  return [
    oldRuntimeRun(),
    ...bothStreams({
      name: 'one linked, beside 11.8 and the toolkit’s own',
      program: compile('runtimes-own', parts, linked),
      args,
      runtimes: args.length + 1,
    }),
  ];
}

/** What is missing in what the program said, for a person; nothing if all is there. */
export function missingInRuntimeRun({ runtimes }: RuntimeRun, said: string): string[] {
  const all = runtimes > 1 ? runtimes * 2 : 1;
  const expected: [RegExp, number][] = [
    [/^cudaLaunchKernel: 0 wrong, the last is 2998$/gm, runtimes],
    [/^cudaLaunchKernelExC: 0 wrong, the last is 2997$/gm, runtimes],
    [/^1 4996, 1 call$/gm, all],
    [/^time passed: 1$/gm, all],
    [/^1010101$/gm, all],
    [/^4 nodes, 6 6$/gm, all],
    [/^0, there is a context: 1$/gm, runtimes],
    [
      new RegExp(`^all together: ${2 ** runtimes - 1} ${2 ** runtimes - 1}$`, 'gm'),
      runtimes > 1 ? 1 : 0,
    ],
  ];
  return expected
    .filter(([pattern, times]) => (said.match(pattern) ?? []).length !== times)
    .map(([pattern, times]) => `${pattern.source} ${times} times`);
}
