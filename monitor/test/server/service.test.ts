// What systemd hears, on a socket like its own: Python can open one, Node cannot.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import t from 'tap';
import { DescriptorLimit } from '../support/descriptors.js';
import { Guest } from '../support/guest.js';
import { Serving } from '../support/serving.js';

const listener = `
import socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind(sys.argv[1].replace('@', chr(0), 1) if sys.argv[1][0] == '@' else sys.argv[1])
print('bound', flush=True)
while True: print(s.recv(4096).decode().replace(chr(10), ' '), flush=True)
`;

for (const kind of ['a path', 'an abstract address']) {
  t.test(`ready, alive, stopping: ${kind}`, async (t) => {
    const folder = mkdtempSync(path.join(tmpdir(), 'outboard-'));
    t.teardown(() => rmSync(folder, { recursive: true }));
    const address = `${kind === 'a path' ? '' : '@'}${folder}/notify`;
    const child = spawn('python3', ['-c', listener, address], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    t.teardown(() => child.kill());
    const heard: string[] = [];
    let wake = () => {};
    const lines = createInterface({ input: child.stdout });
    await once(lines, 'line');
    lines.on('line', (line) => {
      heard.push(line);
      wake();
    });
    const hears = async (pattern: RegExp) => {
      while (!heard.some((line) => pattern.test(line))) {
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
    };
    const serving = await Serving.start(t, ['--servers-per-gpu', '1', '--grace', '3'], {
      NOTIFY_SOCKET: address,
      WATCHDOG_USEC: '200000',
    });
    await hears(/^READY=1 STATUS=listening on 127\.0\.0\.1:\d+$/);
    await hears(/^WATCHDOG=1$/);
    // It lives, also where it can open nothing.
    const descriptors = new DescriptorLimit(serving.child.pid);
    descriptors.leave(0);
    await serving.logged({ code: 'OB_DESCRIPTORS' });
    heard.length = 0;
    await hears(/^WATCHDOG=1$/);
    descriptors.reset();
    await serving.logged({ msg: 'there are file descriptors again' });
    const guest = Guest.hello(serving.address);
    await guest.welcome();
    serving.child.kill('SIGTERM');
    await hears(/^STOPPING=1 .* EXTEND_TIMEOUT_USEC=13000000$/);
    await guest.leave();
    t.equal(await serving.exit, 0);
  });
}
