// Packages on PyPI whose libraries carry PTX: the kernels that real programs run.
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync } from 'node:fs';
import path from 'node:path';

/** As pip takes them, for one kind of machine, so that all machines get the same files. */
export const packages = [
  'cupy-cuda13x==14.2.0',
  'nvidia-cublas==13.*',
  'nvidia-cudnn-cu13==9.*',
  'onnxruntime-gpu==1.16.3',
  'onnxruntime-gpu==1.24.4',
] as const;

const target = [
  ...['--only-binary=:all:', '--python-version', '3.11', '--implementation', 'cp'],
  ...['--platform', 'manylinux_2_28_x86_64', '--platform', 'manylinux_2_27_x86_64'],
  ...['--platform', 'manylinux2014_x86_64', '--platform', 'manylinux_2_17_x86_64'],
];

export interface Unpacked {
  /** Name and version, as in the name of the wheel. */
  name: string;
  libraries: string[];
}

/** Downloads a package unless it is there, and unpacks it. Without what it depends on. */
export function fetchPackage(wanted: string, folder: string): Unpacked {
  const wheels = path.join(folder, wanted.replace(/[^\w.-]/g, '_'));
  mkdirSync(wheels, { recursive: true });
  if (findWheel(wheels) === undefined) {
    const pip = ['-m', 'pip', 'download', '--quiet', '--disable-pip-version-check', '--no-deps'];
    execFileSync('python3', [...pip, ...target, '--dest', wheels, wanted], { stdio: 'inherit' });
  }
  const wheel = findWheel(wheels);
  if (wheel === undefined) throw new Error(`pip has downloaded no wheel for ${wanted}`);
  const files = path.join(wheels, 'files');
  if (!existsSync(files)) {
    execFileSync('python3', ['-m', 'zipfile', '-e', path.join(wheels, wheel), files]);
  }
  return { name: wheel.split('-').slice(0, 2).join(' '), libraries: librariesIn(files) };
}

function findWheel(folder: string): string | undefined {
  return readdirSync(folder).find((file) => file.endsWith('.whl'));
}

export function librariesIn(folder: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && /\.so(\.\d+)*$/.test(entry.name))
    .map((entry) => path.join(entry.parentPath, entry.name))
    .sort();
}
