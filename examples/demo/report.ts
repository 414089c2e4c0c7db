// The words and figures of the demonstration.
import type { GuestStats } from '../../monitor/src/run/stats.js';
import type { Outcome } from './program.js';

/** Where two outputs differ first, in words; null when they are the same. */
export function difference(what: string, one: Buffer, other: Buffer): string | null {
  if (one.equals(other)) return null;
  const shorter = Math.min(one.length, other.length);
  let at = 0;
  while (at < shorter && one[at] === other[at]) at++;
  if (at === shorter) return `${what}: ${one.length} bytes natively, ${other.length} remotely`;
  return `${what}: byte ${at} is ${one[at]} natively, ${other[at]} remotely`;
}

function milliseconds(value: number): string {
  return value < 100 ? `${value.toFixed(1)} ms` : `${(value / 1000).toFixed(2)} s`;
}

export function grouped(count: number): string {
  return count.toLocaleString('en-US');
}

export function costs(native: Outcome, remote: Outcome, stats: GuestStats): [string, string][] {
  const { attachNs, calls, commands, roundTrips, bytesSent, bytesReceived } = stats;
  const both = (pick: (outcome: Outcome) => number | undefined) => {
    const [here, there] = [pick(native), pick(remote)];
    if (here === undefined || there === undefined) return '–';
    return `${milliseconds(here)} natively, ${milliseconds(there)} through Outboard`;
  };
  return [
    ['attach', milliseconds(attachNs / 1e6)],
    ['whole program', both(({ wall }) => wall)],
    ['its device part', both(({ laps }) => laps['device'])],
    ['calls made', `${grouped(calls)} calls of the driver API`],
    ['calls sent', `${grouped(commands)} commands`],
    ['round trips', `${grouped(roundTrips)}, attaching included`],
    ['bytes to the server', grouped(bytesSent)],
    ['bytes from the server', grouped(bytesReceived)],
  ];
}

export function table(rows: [string, string][]): string {
  const width = Math.max(...rows.map(([name]) => name.length));
  return rows.map(([name, value]) => `  ${name.padEnd(width)}  ${value}`).join('\n');
}
