// The forms in which people write values, on the command line and in the environment. Each parser
// throws a BadValue whose message completes "... is not understood: ".
import { BadValue } from './options.js';

/** Bytes in the path of a Unix socket: the kernel has room for no more. */
export const unixPathMost = 107;

export interface Address {
  host: string;
  port: number;
}

/** Where `outboard serve` and what belongs to it listen unless they are told otherwise. */
export const usualPorts = { guests: 4460, http: 4461, tls: 4462 } as const;

/** HOST:PORT or [IPV6]:PORT; with a usual port, also without `:PORT`. */
export function parseAddress(text: string, leastPort = 1, usualPort?: number): Address {
  const match = /^(?:\[([0-9a-fA-F:.]+)\]|([^:[\]\s]+))(?::(\d{1,5}))?$/.exec(text);
  const [, six, name, digits] = match ?? [];
  const host = six ?? name;
  const port = digits === undefined ? usualPort : Number(digits);
  if (host === undefined || port === undefined) {
    const bare = text.split(':').length > 2 && !text.startsWith('[');
    const without = usualPort === undefined ? '' : `; without a port it is ${usualPort}`;
    throw new BadValue(
      bare
        ? 'an IPv6 address stands in brackets, as in [::1]:4460'
        : `expected HOST:PORT or [IPV6]:PORT, as in 127.0.0.1:4460${without}`,
    );
  }
  if (port < leastPort || port > 65535) {
    throw new BadValue(`a port is a number from ${leastPort} to 65535`);
  }
  return { host, port };
}

export function formatAddress({ host, port }: Address): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
}

/**
 * HOST:PORT, [IPV6]:PORT, tls:// and either of them, or unix:/PATH, several separated by commas, each without a port
 * at the usual one: as the guest library reads OUTBOARD_SERVER.
 */
export function parseServers(text: string): string {
  const servers = text.split(',');
  if (servers.length > 8) throw new BadValue('at most 8 servers can be named');
  return servers.map((server) => parseServer(server.trim())).join(',');
}

export const tlsScheme = 'tls://';

const servers = 'HOST:PORT, [IPV6]:PORT, tls://HOST:PORT or unix:/PATH';

function parseServer(text: string): string {
  if (text.replace(tlsScheme, '').includes('://')) throw new BadValue(`expected ${servers}`);
  if (text.startsWith(tlsScheme)) {
    const address = parseAddress(text.slice(tlsScheme.length), 1, usualPorts.tls);
    return `${tlsScheme}${formatAddress(address)}`;
  }
  // With the slash: a host may be called unix.
  if (!text.startsWith('unix:/')) return formatAddress(parseAddress(text, 1, usualPorts.guests));
  if (Buffer.byteLength(text) > 'unix:'.length + unixPathMost) {
    throw new BadValue(`the path of a Unix socket has at most ${unixPathMost} bytes`);
  }
  return text;
}

/** What a function or a program is called: as the guest library reads OUTBOARD_NAME. */
export function parseName(text: string): string {
  if (!/^[\x20-\x7e]{1,127}$/.test(text)) {
    throw new BadValue('expected 1 to 127 printable characters of ASCII');
  }
  return text;
}

/** Part of a GPU's name: as the guest library reads OUTBOARD_GPU_MODEL. */
export function parseGpuModel(text: string): string {
  if (!/^[\x20-\x7e]{1,95}$/.test(text)) {
    throw new BadValue('expected part of the name of a GPU, as in H100');
  }
  return text;
}

const units = { '': 0n, K: 10n, M: 20n, G: 30n, T: 40n } as const;

/** 4G, 4GB, 4 GiB, 1.5G, 512M, or bytes: powers of 1024. The guest library reads OUTBOARD_MEMORY so, too. */
export function parseBytes(text: string): bigint {
  const match = /^(\d+)(?:\.(\d{1,3}))?(?: ?(?:([KMGT])(?:i?B)?|B))?$/i.exec(text);
  const [, digits = '0', fraction, unit = ''] = match ?? [];
  const shift = units[unit.toUpperCase() as keyof typeof units];
  const thousandths = BigInt((fraction ?? '').padEnd(3, '0'));
  const bytes = (BigInt(digits) << shift) + (thousandths << shift) / 1000n;
  if (!match || (fraction !== undefined && unit === '') || bytes === 0n || bytes >= 1n << 64n) {
    throw new BadValue('expected a size, as in 4G, 1.5 GiB or 512MB');
  }
  return bytes;
}

export function parseCount(least: number, most: number, what = 'a number') {
  return (text: string): number => {
    const count = Number(text);
    if (!/^\d+$/.test(text) || count < least || count > most) {
      throw new BadValue(`expected ${what} from ${least} to ${most}`);
    }
    return count;
  };
}

/** REQUEST or REQUEST:LIMIT, percent. */
export function parseShare(text: string): string {
  const [request = 0, limit = request] = (/^\d+(:\d+)?$/.test(text) ? text.split(':') : []).map(
    Number,
  );
  if (request < 1 || limit > 100 || limit < request) {
    throw new BadValue(
      'expected percent of a GPU as REQUEST or REQUEST:LIMIT, from 1 to 100, the limit not below the request',
    );
  }
  return text;
}

export function parseChoice<T extends string>(...choices: T[]) {
  return (text: string): T => {
    const chosen = choices.find((choice) => choice === text);
    if (chosen === undefined) throw new BadValue(`expected one of ${choices.join(', ')}`);
    return chosen;
  };
}

const guestLogLevels = ['off', 'error', 'warn', 'info', 'debug', 'trace'];

/** LEVEL or LEVEL:FILE, as the guest library reads OUTBOARD_LOG. */
export function parseGuestLog(text: string): string {
  const level = text.split(':', 1)[0] ?? '';
  if (!guestLogLevels.includes(level)) {
    throw new BadValue(
      `expected one of ${guestLogLevels.join(', ')}, optionally followed by :FILE`,
    );
  }
  return text;
}

/** 1073741824 as "1 GiB": for people, rounded. */
export function formatBytes(bytes: bigint): string {
  let value = Number(bytes);
  for (const unit of ['bytes', 'KiB', 'MiB', 'GiB']) {
    if (value < 1024) return `${unit === 'bytes' ? value : Number(value.toFixed(1))} ${unit}`;
    value /= 1024;
  }
  return `${Number(value.toFixed(1))} TiB`;
}

/** The same, and in bytes where it was rounded: what two people may have to agree on. */
export function formatExactBytes(bytes: bigint): string {
  const text = formatBytes(bytes);
  const exact = bytes < 1024n || (bytes < 1n << 63n && parseBytes(text) === bytes);
  return exact ? text : `${text} (${bytes} bytes)`;
}
