// How single-pass is run, natively and remoted: often enough that blocks are seen to race, in
// bounded time; for each change only the short runs. Eight workers on fewer processors stop one another in the middle of things.
export const singlePass = [
  { workers: '2', disorder: '0', args: ['14', '150000', 'without-sorts'] },
  { workers: '8', disorder: '0', args: ['14', '150000', 'without-sorts'] },
  { workers: '2', disorder: '5', args: ['2', '100000'] },
  { workers: '8', disorder: '6', args: ['2', '100000'] },
]
  .filter(({ disorder }) => disorder !== '0' || process.env['NIGHTLY'])
  .map(({ workers, disorder, args }) => ({
    name: `${workers} workers, disorder ${disorder}`,
    args,
    env: { SOFTWARE_DEVICE_WORKERS: workers, SOFTWARE_DEVICE_DISORDER: disorder },
  }));
