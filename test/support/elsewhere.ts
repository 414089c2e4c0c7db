// Programs of test/programs that are no part of the backbone.

// Run by bad-input.test.ts, claims.test.ts, empty-cubins.test.ts, faults.test.ts, freed-shared.test.ts, hidden-memory.test.ts, long-waits.test.ts,
// moving.test.ts, peers.test.ts, release.test.ts, several-devices.test.ts and shares.test.ts.
export const elsewhere = [
  ...[
    'busy-kernels',
    'claims',
    'endless-copy',
    'endless-kernel',
    'endless-launch',
    'endless-peers',
    'freed-shared',
    'full-behind',
    'large-stacks',
    'leftover-heap',
    'leftovers',
    'long-waits',
    'lost-callbacks',
    'machine-code',
    'machine-code-ptx',
    'moved-steps',
  ],
  'releases',
  ...['peer-limit', 'peer-managed', 'peer-memory', 'peer-variable'],
  ...['several-devices', 'several-managed'],
];
