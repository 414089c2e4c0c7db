// Where this machine has cuBLAS and cuBLASLt for CUDA 13, which sessions may call whole (libraries/).
import { existsSync, readdirSync } from 'node:fs';
import path from 'node:path';

/** Both, as the loader names them: they belong together. */
const names = ['libcublas.so.13', 'libcublasLt.so.13'];

/** Whether the folder has all of them. */
export function hasLibraries(folder: string): boolean {
  return names.every((name) => existsSync(path.join(folder, name)));
}

/** Folders of that kind in one, newest version first; none where it cannot be read. */
function versions(folder: string, name: RegExp): string[] {
  try {
    const found = readdirSync(folder).filter((one) => name.test(one));
    const sorted = found.sort((a, b) => b.localeCompare(a, 'en', { numeric: true }));
    return sorted.map((one) => path.join(folder, one));
  } catch {
    return [];
  }
}

/** Folders in which they are looked for, in this order: the first that has them is taken. */
export function libraryFolders(env: NodeJS.ProcessEnv): string[] {
  const listed = (env['LD_LIBRARY_PATH'] ?? '').split(':').filter(path.isAbsolute);
  const named = [env['CUDA_HOME'], env['CUDA_PATH']].filter((one) => one !== undefined);
  const toolkits = [...named, '/usr/local/cuda', ...versions('/usr/local', /^cuda-13/)]
    .filter(path.isAbsolute)
    .flatMap((one) => [path.join(one, 'lib64'), path.join(one, 'targets/x86_64-linux/lib')]);
  const system = ['/usr/lib/x86_64-linux-gnu', '/usr/lib/aarch64-linux-gnu', '/usr/lib64'];
  // PyPI's nvidia-cublas, where the active environment or the system's Python has it.
  const roots = [env['VIRTUAL_ENV'], '/usr/local', '/usr'].filter((one) => one !== undefined);
  const packages = roots
    .flatMap((root) => versions(path.join(root, 'lib'), /^python3/))
    .flatMap((python) => ['site-packages', 'dist-packages'].map((one) => path.join(python, one)))
    .map((folder) => path.join(folder, 'nvidia/cu13/lib'));
  return [...listed, ...toolkits, ...system, ...packages];
}

/** The folder that `auto` means; null where none has them. */
export function findLibraries(env: NodeJS.ProcessEnv): string | null {
  return libraryFolders(env).find(hasLibraries) ?? null;
}
