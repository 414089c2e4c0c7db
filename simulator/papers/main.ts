// npm run simulate -- papers --data DIR [--only PAPER,...] [--out FOLDER]
//
// Makes every figure of the papers that can be made, and writes docs/papers.md and bench/results/papers.json.
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { root } from '../../bin/paths.mjs';
import { dataIn } from './data.js';
import { dgsfRows } from './dgsf.js';
import { diluRows } from './dilu.js';
import { hasGpuRows } from './has-gpu.js';
import { papersPage } from './page.js';
import { proteanRows } from './protean.js';
import { type Data, holds, type Row } from './row.js';
import { smoreRows } from './smore.js';

const papers: Readonly<Record<string, (data: Data) => Row[]>> = {
  dilu: diluRows,
  smore: smoreRows,
  protean: proteanRows,
  'has-gpu': hasGpuRows,
  dgsf: dgsfRows,
};

/** Returns the exit code: 1 where a row is not as near as it has to be. Throws where arguments or data are wrong. */
export function papersMain(args: readonly string[]): number {
  const { values } = parseArgs({
    args: [...args],
    options: {
      data: { type: 'string' },
      only: { type: 'string' },
      out: { type: 'string' },
    },
  });
  const folder = values.data ?? process.env['PAPERS_DATA'];
  if (!folder) {
    throw new Error(
      "the papers' data are missing: give their folder as --data DIR or PAPERS_DATA=DIR; simulator/README.md says what it has to hold",
    );
  }
  const data = dataIn(path.resolve(folder));
  const names = values.only?.split(',') ?? Object.keys(papers);
  const rows: Row[] = [];
  for (const name of names) {
    const make = Object.hasOwn(papers, name) ? papers[name] : undefined;
    if (!make) {
      throw new Error(`no paper ${name}: expected some of ${Object.keys(papers).join(', ')}`);
    }
    const begun = performance.now();
    const made = make(data);
    rows.push(...made);
    const seconds = ((performance.now() - begun) / 1000).toFixed(1);
    console.log(`${name}: ${made.length} rows in ${seconds} s`);
  }
  for (const row of rows) {
    const judged = holds(row);
    const mark = judged === null ? '' : judged ? 'holds' : 'DIFFERS';
    console.log(
      `${row.paper}, ${row.where}: ${row.what}: ${row.theirs ?? '-'} / ${row.ours ?? '-'} ${row.unit} ${mark}`,
    );
  }
  // Only all of them are what the repository keeps.
  if (!values.only || values.out) write(rows, values.out);
  return rows.some((row) => holds(row) === false) ? 1 : 0;
}

function write(rows: readonly Row[], out: string | undefined) {
  const page = path.join(out ?? path.join(root, 'docs'), 'papers.md');
  const json = path.join(out ?? path.join(root, 'bench', 'results'), 'papers.json');
  for (const file of [page, json]) mkdirSync(path.dirname(file), { recursive: true });
  writeFileSync(page, papersPage(rows));
  const result = {
    date: new Date().toISOString(),
    rows: rows.map((row) => ({ ...row, holds: holds(row) })),
  };
  writeFileSync(json, `${JSON.stringify(result, null, 2)}\n`);
  console.log(
    `Written to ${path.relative(process.cwd(), page)} and ${path.relative(process.cwd(), json)}.`,
  );
}
