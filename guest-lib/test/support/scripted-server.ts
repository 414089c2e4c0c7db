// A server that does to a guest what a test says: no Outboard server at all, or a strange one.
import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import {
  type Answer,
  decodeHello,
  encodeAnswer,
  type Hello,
  wire,
} from '../../../api-server/src/control.js';

export interface ScriptedServer {
  /** For OUTBOARD_SERVER. */
  address: string;
  /** Connections so far. */
  connections(): number;
  /** Hellos so far. */
  hellos: Hello[];
  stop(): Promise<void>;
}

/** What it does with a connection; `hello` resolves with the guest's Hello. */
export type Script = (socket: Socket, hello: Promise<Hello>) => unknown;

/** On loopback, or on a Unix socket at `path`. */
export async function scriptedServer(script: Script, path?: string): Promise<ScriptedServer> {
  const hellos: Hello[] = [];
  const sockets = new Set<Socket>();
  let connections = 0;
  const server = createServer((socket) => {
    connections++;
    sockets.add(socket);
    socket.on('error', () => {}).once('close', () => sockets.delete(socket));
    script(socket, readHello(socket, hellos));
  });
  server.listen(path === undefined ? { port: 0, host: '127.0.0.1' } : { path });
  await once(server, 'listening');
  const port = () => (server.address() as AddressInfo).port;
  return {
    address: path === undefined ? `127.0.0.1:${port()}` : `unix:${path}`,
    connections: () => connections,
    hellos,
    async stop() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}

function readHello(socket: Socket, hellos: Hello[]): Promise<Hello> {
  return new Promise((resolve) => {
    let bytes = Buffer.alloc(0);
    socket.on('data', (part: Buffer) => {
      bytes = Buffer.concat([bytes, part]);
      if (bytes.length < wire.prefaceBytes) return;
      const length = bytes.readUInt32LE(12);
      if (bytes.length < wire.prefaceBytes + length) return;
      const hello = decodeHello(bytes.subarray(wire.prefaceBytes, wire.prefaceBytes + length));
      hellos.push(hello);
      resolve(hello);
    });
  });
}

/** An answer as a server of another protocol version would send it. */
export function encodeAnswerOf(version: number, answer: Answer): Buffer {
  const bytes = encodeAnswer(answer);
  bytes.writeUInt32LE(version, 8);
  return bytes;
}

/** A Welcome that makes sense, with one device. */
export function welcome(hello: Hello) {
  const attributes = Array.from({ length: 143 }, (_, index) => index);
  return {
    session: 1n,
    driverVersion: 13000,
    devices: [
      {
        name: 'Test device',
        uuid: Buffer.alloc(16, 5),
        totalMemory: 1n << 34n,
        attributes,
        limits: [1024n],
        leastPriority: 0,
        greatestPriority: -5,
        pciBusId: '0000:01:00.0',
      },
    ],
    windowBase: hello.windowBases[0] ?? 0n,
    windowSize: hello.windowSize,
    memoryLimit: 1n << 30n,
    serverVersion: 'test',
  };
}
