// One program that is moved to and fro between two software GPUs, and beside it, in turn, a plain copy of as many bytes.
import type { ChildProcess } from 'node:child_process';
import { request } from 'node:http';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { build } from '../../bin/paths.mjs';
import type { MoveView, View } from '../../monitor/src/base/view.js';
import { deviceUnderTest } from '../../test/support/device.js';
import { Loaded } from '../load/serving.js';
import { startProcess } from '../src/serving.js';

/** One pair, measured one right after the other; in milliseconds. */
export interface Pair {
  plain: number;
  /** For how long the session's commands were not carried out. */
  stopped: number;
  /** For how long the program waited for one of its calls. */
  seen: number;
  /** From the wish to the answer. */
  whole: number;
}

export interface Moved {
  bytes: number;
  pairs: Pair[];
}

const bytesBeside = 1 << 30;

export async function moved(bytes: number, pairs: number): Promise<Moved> {
  const gpuMemory = { SOFTWARE_DEVICE_MEMORY: String(bytes + bytesBeside) };
  const server = await Loaded.start(2, 1, [], gpuMemory);
  const plain = new Answering('bench-plain', bytes, {
    ...{ ...gpuMemory, SOFTWARE_DEVICE_GPUS: '2' },
    LD_LIBRARY_PATH: path.dirname(deviceUnderTest().library),
  });
  const program = new Answering('bench-moved', bytes, {
    LD_LIBRARY_PATH: path.join(build, 'guest-lib'),
    OUTBOARD_SERVER: `127.0.0.1:${server.address.port}`,
  });
  try {
    await Promise.all([plain.ready(), program.ready()]);
    const result: Pair[] = [];
    for (let i = 0; i < pairs; i++) {
      const copied = Number(await plain.ask());
      await program.ask();
      const { stoppedSeconds, seconds } = await move(server.http);
      const seen = Number(await program.ask());
      result.push({
        plain: copied,
        stopped: 1000 * stoppedSeconds,
        seen,
        whole: 1000 * seconds,
      });
    }
    for (const one of [plain, program]) {
      const last = await one.end();
      if (last !== 'right') throw new Error(`the bytes are not what they were: ${last}`);
    }
    return { bytes, pairs: result };
  } finally {
    plain.kill();
    program.kill();
    await server.stop();
  }
}

/** The one session, to the other GPU, once a process is there for it. */
async function move(http: string): Promise<MoveView> {
  const { sessions } = JSON.parse((await ask(`${http}v1/state`)).text) as View;
  for (;;) {
    const { status, text } = await ask(`${http}v1/sessions/${sessions[0]?.id}/place`, '{}');
    if (status === 200) return JSON.parse(text) as MoveView;
    if (!text.includes('no free slot')) throw new Error(text);
  }
}

/** By a connection of its own: one that is kept may be closed while a program fills its memory. */
function ask(url: string, body?: string): Promise<{ status: number | undefined; text: string }> {
  return new Promise((answered, failed) => {
    const headers = body === undefined ? {} : { 'content-type': 'application/json' };
    const method = body === undefined ? 'GET' : 'PUT';
    request(url, { method, headers, agent: false }, (response) => {
      text(response).then((text) => answered({ status: response.statusCode, text }), failed);
    })
      .on('error', failed)
      .end(body);
  });
}

/** A program that answers each line with a line. */
class Answering {
  readonly #child: ChildProcess;
  readonly #first: Promise<string>;
  readonly #lines: AsyncIterator<string>;

  constructor(name: string, bytes: number, env: Record<string, string>) {
    const { child, line } = startProcess([path.join(build, 'bench', name), String(bytes)], env);
    this.#child = child;
    this.#first = line;
    const lines = createInterface({ input: child.stdout as NodeJS.ReadableStream });
    this.#lines = lines[Symbol.asyncIterator]();
  }

  async ready() {
    await this.#first;
    await this.#next();
  }

  ask(): Promise<string> {
    this.#child.stdin?.write('\n');
    return this.#next();
  }

  end(): Promise<string> {
    this.#child.stdin?.end();
    return this.#next();
  }

  kill() {
    this.#child.kill('SIGKILL');
  }

  async #next(): Promise<string> {
    const { value, done } = await this.#lines.next();
    if (done) throw new Error('a program of the measurement has ended');
    return String(value);
  }
}
