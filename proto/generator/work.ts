// Which functions of the driver start work on the device, by their names. What matches must be
// described with `starts` (api.ts refuses it otherwise), so that the server takes it through the gate.

export const works = ['kernel', 'copy', 'set'] as const;
export type Work = (typeof works)[number];

const patterns: [RegExp, Work][] = [
  // A host function runs on the host.
  [/^cuLaunch(?!HostFunc)/, 'kernel'],
  [/^cuGraph(Launch|Exec.*Launch|Upload)/, 'kernel'],
  [/^cuMemcpy/, 'copy'],
  [/^cuMemPrefetch|^cuMemDiscard/, 'copy'],
  [/^cuMemset/, 'set'],
  [/^cuStream(WriteValue|BatchMemOp)/, 'set'],
];

/** What a function of that name starts; undefined: nothing. */
export function knownToStart(name: string): Work | undefined {
  return patterns.find(([pattern]) => pattern.test(name))?.[1];
}
