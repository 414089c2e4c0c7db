// Bounds the connections of one address of the API, from one machine and in all. Where there are as many as may
// be, the next one replaces the oldest that asks for nothing, or for nothing that it may have. So an operator gets
// in, even if somebody, perhaps a process of this machine, holds very many connections.
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';

export interface ConnectionsMost {
  all: number;
  ofMachine: number;
}

interface Connection {
  machine: string;
  /** Requests on it that are being answered to somebody who may ask. */
  asked: number;
}

const connections = new WeakMap<Duplex, Connection>();

export class Connections {
  readonly #most: ConnectionsMost;
  /** Oldest first. */
  readonly #all = new Map<Socket, Connection>();

  constructor(most: ConnectionsMost) {
    this.#most = most;
  }

  get size(): number {
    return this.#all.size;
  }

  /** Adds a connection. Where there are too many, another is closed, or this one if all others are in use. */
  enter(socket: Socket, machine: string) {
    let own = 0;
    for (const one of this.#all.values()) if (one.machine === machine) own++;
    const tooMany = own >= this.#most.ofMachine;
    if ((tooMany || this.#all.size >= this.#most.all) && !this.#makeWay(tooMany ? machine : null)) {
      socket.destroy();
      return;
    }
    const connection = { machine, asked: 0 };
    this.#all.set(socket, connection);
    connections.set(socket, connection);
    socket.once('close', () => this.#all.delete(socket));
  }

  /** Of one machine; null: of any. */
  #makeWay(machine: string | null): boolean {
    for (const [socket, one] of this.#all) {
      if (one.asked > 0 || (machine !== null && one.machine !== machine)) continue;
      this.#all.delete(socket);
      socket.destroy();
      return true;
    }
    return false;
  }
}

/** Until `over` is closed the connection is not replaced, because one who may ask is being answered on it. */
export function keep(
  { socket }: IncomingMessage,
  over: { once(name: 'close', f: () => void): void },
) {
  const connection = connections.get(socket);
  if (!connection) return;
  connection.asked++;
  over.once('close', () => connection.asked--);
}
