// Bounds how many connections there may be that have not said who they are, from one address and in all.
// Such a connection ends with its Hello or its timeout, so very many silent ones keep others out for no longer
// than that; and those of one address keep out no other address.
import { isIPv6 } from 'node:net';
import ipaddr from 'ipaddr.js';
import { OutboardError } from '../base/errors.js';

export interface StrangersMost {
  all: number;
  ofAddress: number;
}

export interface Stranger {
  refusal: OutboardError | null;
  leave(): void;
}

export class Strangers {
  readonly #most: StrangersMost;
  readonly #of = new Map<string, number>();
  #all = 0;
  #turnedAway = 0;

  constructor(most: StrangersMost) {
    this.#most = most;
  }

  /**
   * Counts one more connection until `leave` is called. `refusal` not null: it is one too many, and is to be
   * told why. 'full': so many are being told already that this one has to be closed without a word.
   */
  enter(from: string): Stranger | 'full' {
    const address = machineOf(from);
    const refusal = this.#refusal(address);
    if (refusal) return this.#turnAway(refusal);
    this.#all++;
    this.#of.set(address, (this.#of.get(address) ?? 0) + 1);
    return { refusal: null, leave: once(() => this.#left(address)) };
  }

  #refusal(address: string): OutboardError | null {
    const { all, ofAddress } = this.#most;
    const own = this.#of.get(address) ?? 0;
    if (own >= ofAddress) return new OutboardError('OB_CONNECTIONS_ADDRESS', address, own);
    return this.#all >= all ? new OutboardError('OB_CONNECTIONS', all) : null;
  }

  #turnAway(refusal: OutboardError): Stranger | 'full' {
    if (this.#turnedAway >= this.#most.all) return 'full';
    this.#turnedAway++;
    return { refusal, leave: once(() => this.#turnedAway--) };
  }

  #left(address: string) {
    this.#all--;
    const left = (this.#of.get(address) ?? 0) - 1;
    if (left > 0) this.#of.set(address, left);
    else this.#of.delete(address);
  }
}

/**
 * What an address is counted as. An IPv6 address counts by its first half: the other half a machine chooses
 * for itself, as often as it likes. An IPv4 address that is written as an IPv6 one counts as IPv4.
 */
export function machineOf(address: string): string {
  const bare = address.replace(/^\[(.*)\]$/, '$1').replace(/%.*$/, '');
  if (!isIPv6(bare)) return address;
  const parsed = ipaddr.process(bare);
  if (!('parts' in parsed)) return parsed.toString();
  if (parsed.range() === 'loopback' || parsed.range() === 'unspecified') return address;
  const network = parsed.parts.slice(0, 4).map((group) => group.toString(16));
  return `${network.join(':')}::/64`;
}

/** HOST:PORT without its port: what all connections of one machine have in common. */
export function addressOf(peer: string): string {
  return peer.replace(/:\d+$/, '');
}

function once(act: () => void): () => void {
  let done = false;
  return () => {
    if (!done) act();
    done = true;
  };
}
