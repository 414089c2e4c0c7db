// What one sample is, read from its CMakeLists.txt.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { type Command, Evaluator, parse } from './cmake.js';

export interface Sample {
  /** "matrixMul" */
  name: string;
  /** "0_Introduction/matrixMul" */
  place: string;
  folder: string;
  sources: string[];
  includes: string[];
  /** As CMake calls them, without `CUDA::`: cublas, cuda_driver, OpenMP. */
  libraries: string[];
  /** Device code that the program reads from a file, compiled beside it. */
  deviceFiles: { kind: '-ptx' | '-fatbin'; source: string; output: string }[];
  /** Files and folders that the program finds beside it. */
  copies: { from: string; to: string }[];
  /** Packages it asks for that no test machine needs to have, with what they are. */
  missing: string[];
}

const GRAPHICS = ['OpenGL', 'GLUT', 'GLEW', 'X11', 'EGL', 'GLES', 'Vulkan', 'Direct3D'];
const AVAILABLE = ['CUDAToolkit', 'CUDA', 'OpenMP', 'Threads'];

export function isGraphics(name: string): boolean {
  return GRAPHICS.includes(name);
}

/** Every folder below `root` that builds a program, in order of place. */
export function findSamples(root: string, toolkitIncludes: string): Sample[] {
  const samples: Sample[] = [];
  const visit = (folder: string) => {
    const list = path.join(folder, 'CMakeLists.txt');
    if (existsSync(list)) {
      const commands = parse(readFileSync(list, 'utf8'));
      // The lists of a whole group name folders only.
      if (commands.some(({ name }) => name === 'add_executable')) {
        samples.push(readSample(root, folder, commands, toolkitIncludes));
      }
    }
    for (const entry of readdirSync(folder, { withFileTypes: true })) {
      if (entry.isDirectory()) visit(path.join(folder, entry.name));
    }
  };
  visit(path.join(root, 'Samples'));
  return samples.sort((a, b) => (a.place < b.place ? -1 : 1));
}

function readSample(
  root: string,
  folder: string,
  commands: Command[],
  toolkitIncludes: string,
): Sample {
  const name = path.basename(folder);
  const sample: Sample = {
    name,
    place: path.relative(path.join(root, 'Samples'), folder),
    folder,
    sources: [],
    includes: [],
    libraries: [],
    deviceFiles: [],
    copies: [],
    missing: [],
  };
  const evaluator = new Evaluator();
  const { variables } = evaluator;
  variables.set('CMAKE_CURRENT_SOURCE_DIR', folder);
  variables.set('CMAKE_SOURCE_DIR', folder);
  variables.set('PROJECT_SOURCE_DIR', folder);
  variables.set('CMAKE_CURRENT_BINARY_DIR', '<out>');
  variables.set('CMAKE_BINARY_DIR', '<out>');
  variables.set('PROJECT_BINARY_DIR', '<out>');
  variables.set('CMAKE_SYSTEM_NAME', 'Linux');
  variables.set('CMAKE_SYSTEM_PROCESSOR', 'x86_64');
  variables.set('CMAKE_COMMAND', 'cmake');
  variables.set('CMAKE_CUDA_COMPILER', 'nvcc');
  variables.set('CUDAToolkit_INCLUDE_DIRS', toolkitIncludes);
  variables.set('CUDA_INCLUDE_DIR', toolkitIncludes);
  variables.set('UNIX', '1');
  variables.set('PROJECT_NAME', name);
  evaluator.run(commands, ({ name: command, args }) => {
    const rest = args.slice(1).filter((arg) => !/^(PUBLIC|PRIVATE|INTERFACE)$/.test(arg));
    switch (command) {
      case 'project':
        variables.set('PROJECT_NAME', args[0] ?? name);
        break;
      case 'find_package':
        if (AVAILABLE.includes(args[0] ?? '')) {
          variables.set(`${args[0]}_FOUND`, 'TRUE');
          if (args[0] === 'OpenMP') variables.set('OpenMP_CXX_FOUND', 'TRUE');
        } else if (args[0] && !sample.missing.includes(args[0])) {
          sample.missing.push(args[0]);
        }
        break;
      case 'add_executable':
        // Only the first: a few samples add helpers for other systems.
        if (sample.sources.length === 0) {
          sample.sources = rest
            .filter((file) => /\.(cu|cpp|cc|c)$/.test(file))
            .map((file) => path.resolve(folder, file));
        }
        break;
      case 'include_directories':
      case 'target_include_directories':
        for (const each of command === 'include_directories' ? args : rest) {
          if (each.includes('$<')) continue;
          const absolute = path.resolve(folder, each);
          if (existsSync(absolute)) sample.includes.push(absolute);
        }
        break;
      case 'target_link_libraries':
        for (const each of rest) {
          const library = each.replace(/^CUDA::/, '').replace(/^OpenMP::.*/, 'OpenMP');
          if (!sample.libraries.includes(library)) sample.libraries.push(library);
        }
        break;
      case 'add_custom_command':
        customCommand(sample, args);
        break;
    }
  });
  return sample;
}

/** Device code compiled to a file, and files copied beside the program. */
function customCommand(sample: Sample, args: string[]) {
  const out = (file: string) =>
    file.replace(/^\$<TARGET_FILE_DIR:[^>]*>/, '<out>').replace(/^<out>\/?/, '');
  for (let i = 0; i < args.length; i++) {
    if (args[i] !== 'COMMAND') continue;
    let end = i + 1;
    while (end < args.length && !/^(COMMAND|DEPENDS|COMMENT|VERBATIM)$/.test(args[end] ?? ''))
      end++;
    const words = args.slice(i + 1, end);
    const kind = words.find((word) => word === '-ptx' || word === '-fatbin');
    if (words[0] === 'nvcc' && kind) {
      const source = words[words.indexOf(kind) + 1] ?? '';
      const output = words[words.indexOf('-o') + 1] ?? '';
      if (source) {
        sample.deviceFiles.push({
          kind: kind as '-ptx' | '-fatbin',
          source: path.resolve(sample.folder, source),
          output: out(output),
        });
      }
    }
    const copy = words.findIndex((word) => /^(copy|copy_if_different|copy_directory)$/.test(word));
    if (words[0] === 'cmake' && copy > 0) {
      const files = words.slice(copy + 1);
      const to = out(files.pop() ?? '');
      for (const file of files) {
        const from = path.resolve(sample.folder, file);
        const target = words[copy] === 'copy_directory' ? to : copyTarget(to, from);
        sample.copies.push({ from, to: target });
      }
    }
  }
}

/** `copy` takes a folder or a new name as its target. */
function copyTarget(to: string, from: string): string {
  if (to === '' || to.endsWith('/') || !path.extname(to)) return path.join(to, path.basename(from));
  return to;
}
