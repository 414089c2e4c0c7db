// Stands in for a supervisor: asks a guest to release its session, and leads a program line by line.
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Test } from 'tap';

/** Short: the path of a Unix socket has at most 107 bytes. */
export function shortFolder(t: Test): string {
  const folder = mkdtempSync(path.join(tmpdir(), 'outboard-'));
  t.teardown(() => rmSync(folder, { recursive: true }));
  return folder;
}

export function socketOf(folder: string, child: ChildProcess): string {
  return path.join(folder, String(child.pid));
}

/** What the guest answers, without its line's end. */
export async function ask(socket: string, what: string): Promise<string> {
  const connection = connect(socket);
  await once(connection, 'connect');
  connection.end(`${what}\n`);
  let said = '';
  for await (const text of connection.setEncoding('utf8')) said += text;
  return said.trimEnd();
}

export interface Steps {
  /** Waits until the program has printed that line. */
  until(line: string): Promise<void>;
  /** Lets it go on, and waits for the next such line. */
  next(line: string): Promise<void>;
  /** Lets it go on, for good. */
  go(): void;
}

/** A program that waits for a line of input after some of those that it prints. */
export function lineByLine(child: ChildProcess): Steps {
  let unread = '';
  let over = false;
  let wake = () => {};
  child.stdout?.on('data', (text: string) => {
    unread += text;
    wake();
  });
  child.once('close', () => {
    over = true;
    wake();
  });
  child.stdin?.on('error', () => {});
  const until = async (line: string) => {
    for (;;) {
      const at = `\n${unread}`.indexOf(`\n${line}\n`);
      if (at >= 0) {
        unread = unread.slice(at + line.length + 1);
        return;
      }
      if (over) throw new Error(`the program ended without printing ${line}; unread: ${unread}`);
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
    }
  };
  return {
    until,
    async next(line) {
      child.stdin?.write('go on\n');
      await until(line);
    },
    go: () => child.stdin?.end('go on\n'),
  };
}
