// Which of several servers gave a ticket: that one keeps the places for a program's other GPUs, so the
// connections that bring its tickets have to go there.
import type { Socket } from 'node:net';
import { decodeAnswer, wire } from '../../../api-server/src/control.js';
import type { Address } from '../options/values.js';

export class TicketServers {
  readonly #servers = new Map<string, Address>();

  /** The server that gave the ticket; undefined: it is not known here. */
  serverOf(ticket: string): Address | undefined {
    return this.#servers.get(ticket);
  }

  /** Reads along until the Welcome. Its tickets are known until the connection ends. */
  watch(server: Socket, address: Address) {
    let bytes = Buffer.alloc(0);
    const read = (chunk: Buffer) => {
      bytes = Buffer.concat([bytes, chunk]);
      for (;;) {
        const answer = take(bytes);
        if (answer === 'more') return;
        if (answer === 'other') break;
        bytes = bytes.subarray(answer.end);
        if (answer.queued) continue;
        this.#keep(answer.tickets, server, address);
        break;
      }
      server.off('data', read);
    };
    server.on('data', read);
  }

  #keep(tickets: readonly string[], server: Socket, address: Address) {
    for (const ticket of tickets) this.#servers.set(ticket, address);
    server.once('close', () => {
      for (const ticket of tickets) this.#servers.delete(ticket);
    });
  }
}

/** The answer that `bytes` begin with, and where it ends. other: none that we know. */
function take(bytes: Buffer) {
  if (bytes.length < wire.prefaceBytes) return 'more';
  const length = bytes.readUInt32LE(12);
  const known = bytes.readUInt32LE(8) === wire.protocol && length <= wire.controlMax;
  if (!known) return 'other';
  const end = wire.prefaceBytes + length;
  if (bytes.length < end) return 'more';
  try {
    const answer = decodeAnswer(bytes.subarray(wire.prefaceBytes, end));
    const tickets = 'welcome' in answer ? (answer.welcome.tickets ?? []) : [];
    return { end, queued: 'queued' in answer, tickets };
  } catch {
    return 'other';
  }
}
