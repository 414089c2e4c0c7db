// What a run cost, for people.

import { bytes, type Column, table } from '../cli/table.js';
import type { CallStats, GuestStats } from './stats.js';
import { phaseNames } from './stats.js';

const shownCalls = 20;

export function statsPage(stats: GuestStats): string[] {
  const phases = phaseNames.map((name) => ({ name, ...stats.phases[name] }));
  const all = { name: 'all', ...stats };
  const dearest = [...stats.byCall].sort((a, b) => b.ns - a.ns);
  const left = dearest.length - shownCalls;
  return [
    `${stats.calls} driver calls became ${stats.commands} commands and ${stats.roundTrips} round trips` +
      ` (attached in ${(stats.attachNs / 1e6).toFixed(1)} ms)` +
      (stats.unsupported ? `; ${stats.unsupported} calls are not served` : ''),
    ...(stats.cachedParts
      ? [`the server had ${bytes(stats.cachedBytes)} of uploads, which were not sent`]
      : []),
    '',
    ...table(phaseColumns, [...phases, all]),
    '',
    ...table(callColumns, dearest.slice(0, shownCalls)),
    ...(left > 0 ? [`and ${left} calls that took less`] : []),
  ];
}

type Row = { name: string } & GuestStats['phases']['steady'];

const phaseColumns: Column<Row>[] = [
  { title: 'phase', text: ({ name }) => name },
  { title: 'calls', right: true, text: ({ calls }) => String(calls) },
  { title: 'commands', right: true, text: ({ commands }) => String(commands) },
  { title: 'round trips', right: true, text: ({ roundTrips }) => String(roundTrips) },
  { title: 'sent', right: true, text: ({ bytesSent }) => bytes(bytesSent) },
  { title: 'received', right: true, text: ({ bytesReceived }) => bytes(bytesReceived) },
];

const callColumns: Column<CallStats>[] = [
  { title: 'call', text: ({ name }) => name },
  { title: 'count', right: true, text: ({ count }) => String(count) },
  { title: 'time', right: true, text: ({ ns }) => `${(ns / 1e6).toFixed(3)} ms` },
  { title: 'each', right: true, text: ({ ns, count }) => `${(ns / count / 1e3).toFixed(1)} us` },
  { title: 'round trips', right: true, text: ({ roundTrips }) => String(roundTrips) },
  { title: 'sent', right: true, text: ({ bytesSent }) => bytes(bytesSent) },
  { title: 'received', right: true, text: ({ bytesReceived }) => bytes(bytesReceived) },
];
