// What is ours in a program's process keeps out of the program's way: descriptors lie above 2
// (driver-abi/src/abi_descriptor.h), threads take no signals (driver-abi/src/abi_signals.h). That it
// works is for test/programs to show (closed-descriptors, signals); this finds a place that was
// forgotten.
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { root } from '../../bin/paths.mjs';

/** What is loaded into programs. */
const folders = ['driver-abi', 'guest-lib/src', 'nvml', 'software-device/src', 'proto/wire'];

const openers = [
  'accept4?',
  'creat',
  'dup',
  'epoll_create1?',
  'eventfd',
  'fopen',
  'freopen',
  'inotify_init1?',
  'memfd_create',
  'mko?stemp',
  'open(?:at)?(?:64)?',
  'opendir',
  'perf_event_open',
  'pidfd_open',
  'pipe2?',
  'popen',
  'shm_open',
  'signalfd',
  'socket(?:pair)?',
  'timerfd_create',
  'tmpfile',
  'userfaultfd',
].join('|');

/** The source with comments and texts as blanks, so that places stay what they are. */
function code(source: string): string {
  const blank = (text: string) => text.replace(/[^\n]/g, ' ');
  return source.replace(
    /\/\/[^\n]*|\/\*[\s\S]*?\*\/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])'/g,
    blank,
  );
}

/** The names of the calls whose arguments the place lies in, innermost first. */
function around(text: string, place: number): string[] {
  const names: string[] = [];
  for (let at = place - 1, closed = 0; at >= 0 && !/[;{}]/.test(text.charAt(at)); at--) {
    if (text.charAt(at) === ')') closed++;
    if (text.charAt(at) !== '(' || closed-- > 0) continue;
    closed = 0;
    names.push(/(\w+)\s*$/.exec(text.slice(0, at))?.[1] ?? '');
  }
  return names;
}

/** Whether what stands before a name makes it a declaration, or the name of something of ours. */
function isAnother(before: string): boolean {
  if (/(?:\.|->|\w::|>::)\s*$/.test(before)) return true;
  const word = /(\w+|[>*&])\s+$/.exec(before)?.[1];
  return word !== undefined && !/^(?:return|else|do|case|co_return|[*&])$/.test(word);
}

interface Found {
  wrapped: number;
  /** Those that are not, by line. */
  bare: string[];
}

function find(source: string): Found {
  const text = code(source);
  const line = (at: number) => `${text.slice(0, at).split('\n').length}`;
  const found: Found = { wrapped: 0, bare: [] };
  const note = (at: number, good: boolean, what: string) => {
    if (good) found.wrapped++;
    else found.bare.push(`${line(at)}: ${what}`);
  };
  for (const match of text.matchAll(new RegExp(`\\b(${openers})\\s*\\(`, 'g'))) {
    const before = text.slice(0, match.index);
    if (isAnother(before.replace(/(?<![\w>])::$/, ''))) continue;
    note(match.index, around(text, match.index).includes('descriptor_above'), `${match[1]}`);
  }
  for (const match of text.matchAll(/\b(?:SYS|__NR)_(\w+)/g))
    if (new RegExp(`^(?:${openers})$`).test(match[1] ?? ''))
      note(match.index, around(text, match.index).includes('descriptor_above'), match[0]);
  for (const match of text.matchAll(/\bF_DUPFD\w*\s*,\s*(\w+)(.*)/g))
    note(
      match.index,
      match[1] === 'ABI_DESCRIPTOR_LEAST' || /^\s*\+\s*1\b/.test(match[2] ?? ''),
      match[0],
    );
  // What others send is put where there is room, too.
  for (const match of text.matchAll(/\brecvm?msg\s*\(/g))
    if (/\bSCM_RIGHTS\b/.test(text))
      note(match.index, /\bdescriptor_above\b/.test(text), 'recvmsg');
  return found;
}

const sources = folders.flatMap((folder) =>
  readdirSync(path.join(root, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && /\.(c|cc|cpp|h|inc)$/.test(entry.name))
    .map((entry) => path.relative(root, path.join(entry.parentPath, entry.name)))
    .filter((file) => !/(^|\/)test\//.test(file) && !file.endsWith('/abi_descriptor.h')),
);

t.test('it tells what opens from what does not', async (t) => {
  const bare = (source: string) => find(source).bare.length;
  t.equal(bare('int fd = open(path, O_RDONLY);'), 1);
  t.equal(bare('int fd = descriptor_above(open(path, O_RDONLY));'), 0);
  t.equal(bare('int fd = descriptor_above(flag ? dup(2) : ::open(path(1), 0));'), 0);
  t.equal(bare('return ::open(path, 0);'), 1);
  t.equal(bare('x = descriptor_above(y); z = eventfd(0, 0);'), 1);
  t.equal(bare('if (pipe2(ends, O_CLOEXEC)) return;'), 1);
  t.equal(bare('f(g(1), socket(AF_UNIX, 0, 0));'), 1);
  t.equal(bare('fd = (int)syscall(SYS_memfd_create, "x", 0);'), 1);
  t.equal(bare('fcntl(fd, F_DUPFD_CLOEXEC, 0);'), 1);
  t.equal(bare('fcntl(fd, F_DUPFD_CLOEXEC, ABI_DESCRIPTOR_LEAST);'), 0);
  t.equal(bare('std::unique_ptr<FILE, int (*)(FILE *)> file(fopen(path, "r"), fclose);'), 1);
  t.equal(bare('if (head->cmsg_type == SCM_RIGHTS) recvmsg(fd, &message, 0);'), 1);
  t.equal(bare('// opens: open(2), and "\nlog("open(%s)", x); bool open(const char *path);'), 0);
  t.equal(
    bare('TimeSlices::open(x); trace::open(y); file.open(z); static std::unique_ptr<T> open(int);'),
    0,
  );
});

t.test('descriptors of ours lie above 2', async (t) => {
  let wrapped = 0;
  const bare: string[] = [];
  for (const file of sources) {
    const found = find(readFileSync(path.join(root, file), 'utf8'));
    wrapped += found.wrapped;
    bare.push(...found.bare.map((where) => `${file}:${where}`));
  }
  t.ok(wrapped > 25, `places that open something are found: ${wrapped}`);
  t.same(
    bare,
    [],
    'descriptor_above (driver-abi/src/abi_descriptor.h) takes each where it belongs',
  );
});

t.test('threads of ours are started where signals are blocked', async (t) => {
  const starts = /\bpthread_create\s*\(|\bstd::j?thread\s*\(|= Engine::create\s*\(/g;
  let found = 0;
  const wrong: string[] = [];
  for (const file of sources) {
    const text = code(readFileSync(path.join(root, file), 'utf8'));
    for (const match of text.matchAll(starts)) {
      found++;
      // In the same function.
      const before = text.slice(Math.max(0, text.lastIndexOf('\n}', match.index)), match.index);
      if (!/\babi_signals_block\s*\(|\bSignalsBlocked\s+\w+\s*;/.test(before))
        wrong.push(`${file}: ${match[0]}`);
    }
  }
  t.ok(found >= 4, `places that start a thread are found: ${found}`);
  t.same(wrong, [], 'abi_signals_block (driver-abi/src/abi_signals.h) comes first');
});
