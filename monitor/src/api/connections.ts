// The connections of one address of the API: how many there may be, from one machine and in all. Where
// there are so many, the oldest that asks nothing, or nothing that it may, makes way for the next one:
// an operator gets in, whoever holds connections for nothing, be it a process of this machine.
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

  /** One more: another one is closed for it, or it is, where all others are asking something. */
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

/** It makes way for nobody, until `over` is closed: what is asked on it is asked by one who may. */
export function keep(
  { socket }: IncomingMessage,
  over: { once(name: 'close', f: () => void): void },
) {
  const connection = connections.get(socket);
  if (!connection) return;
  connection.asked++;
  over.once('close', () => connection.asked--);
}
