// The Debian packages that Outboard is built and tested with: what each is for, and how to see
// without asking dpkg that its content is there. Looking for the things themselves is fast, and it
// also accepts a cmake or clang that came from elsewhere.

/**
 * @typedef {object} Package
 * @property {string} name Debian's (bookworm's) name for it
 * @property {string} why
 * @property {'build' | 'test' | 'night' | 'nvcc'} neededFor `build` is needed by everything; `night` by what is
 *   tested at night alone; `nvcc` only where the user has no nvcc of their own
 * @property {string[]} [commands] executables, all needed
 * @property {string[]} [headers] found in an include folder of the system, all needed
 * @property {string[]} [files] glob patterns, one match of any is enough
 */

/** @type {Package[]} */
export const packages = [
  {
    name: 'build-essential',
    why: 'C and C++ compilers (also the host compilers of nvcc)',
    neededFor: 'build',
    commands: ['gcc', 'g++', 'make'],
    headers: ['stdio.h'],
  },
  { name: 'cmake', why: 'configures the native build', neededFor: 'build', commands: ['cmake'] },
  {
    name: 'ccache',
    why: 'compiles nothing twice, in this checkout or another',
    neededFor: 'test',
    commands: ['ccache'],
  },
  { name: 'ninja-build', why: 'runs the native build', neededFor: 'build', commands: ['ninja'] },
  {
    name: 'libzstd-dev',
    why: 'unpacks the device code of CUDA 13 programs',
    neededFor: 'build',
    headers: ['zstd.h'],
  },
  {
    name: 'liblz4-dev',
    why: 'unpacks the device code of CUDA 12 programs',
    neededFor: 'build',
    headers: ['lz4.h'],
  },
  {
    name: 'libmd-dev',
    why: 'the hash of an answer that cudart checks',
    neededFor: 'build',
    headers: ['sha2.h'],
  },
  {
    name: 'libsodium-dev',
    why: 'hashes that name modules and uploads by their content',
    neededFor: 'build',
    headers: ['sodium.h'],
  },
  {
    name: 'libseccomp-dev',
    why: 'makes the filter of system calls for the processes of slots',
    neededFor: 'build',
    headers: ['seccomp.h'],
  },
  {
    name: 'libnanopb-dev',
    why: 'control messages in the guest library',
    neededFor: 'build',
    headers: ['pb.h'],
  },
  { name: 'libcmocka-dev', why: 'tests in C', neededFor: 'build', headers: ['cmocka.h'] },
  {
    name: 'nanopb',
    why: 'regenerates the C control messages, which a test compares with the committed ones',
    neededFor: 'test',
    commands: ['protoc', 'protoc-gen-nanopb'],
  },
  { name: 'clang', why: 'fuzz targets', neededFor: 'night', commands: ['clang', 'clang++'] },
  {
    name: 'libclang-rt-dev',
    why: 'libFuzzer and the sanitizers of clang',
    neededFor: 'night',
    files: [
      '/usr/lib/llvm-*/lib/clang/*/lib/*/libclang_rt.fuzzer*.a',
      '/usr/lib/clang/*/lib/*/libclang_rt.fuzzer*.a',
    ],
  },
  {
    name: 'clang-format',
    why: 'layout check of C and C++',
    neededFor: 'test',
    commands: ['clang-format'],
  },
  {
    name: 'shellcheck',
    why: 'check of shell scripts',
    neededFor: 'test',
    commands: ['shellcheck'],
  },
  {
    name: 'strace',
    why: 'shows that the guest library makes no system call in programs without CUDA',
    neededFor: 'test',
    commands: ['strace'],
  },
  { name: 'buildah', why: 'packs the image', neededFor: 'night', commands: ['buildah'] },
  { name: 'zip', why: 'packs the layer for AWS Lambda', neededFor: 'test', commands: ['zip'] },
  { name: 'zstd', why: 'packs Node for a day on a GPU', neededFor: 'test', commands: ['zstd'] },
  { name: 'unzip', why: 'unpacks that layer', neededFor: 'test', commands: ['unzip'] },
  {
    name: 'chromium',
    why: 'shows the web page to its tests',
    neededFor: 'test',
    commands: ['chromium'],
  },
  {
    name: 'prometheus',
    why: 'scrapes the metrics in a test, and checks the alert rules',
    neededFor: 'test',
    commands: ['prometheus', 'promtool'],
  },
  {
    name: 'systemd',
    why: "checks the service's units, and makes the user of the Debian package",
    neededFor: 'test',
    commands: ['systemd-analyze', 'systemd-sysusers', 'systemd-tmpfiles'],
  },
  {
    name: 'python3-venv',
    why: 'holds nvcc from PyPI, inside the build folder',
    neededFor: 'nvcc',
    commands: ['python3'],
    files: [
      '/usr/lib/python3*/ensurepip/__init__.py',
      '/usr/local/lib/python3*/ensurepip/__init__.py',
    ],
  },
];
