// docs/papers.md: each figure of a paper beside ours, with the difference and the reason for it.
import { holds, type Row } from './row.js';

const order: readonly Row['paper'][] = ['Dilu', 'SMORE', 'PROTEAN', 'HAS-GPU', 'DGSF'];

const about: Record<Row['paper'], string> = {
  Dilu: "Lv et al., ASPLOS 2025. Data: the authors' event lists (sigserverless/Dilu).",
  SMORE: 'TPDS 2025. Data: what is drawn in the figures (arctanln2/smore).',
  PROTEAN: 'Middleware 2024. No data and no code are published.',
  'HAS-GPU':
    "Euro-Par 2025. Data: logs of the authors' runs (KontonGu/HAS-GPU) and the RaPP table.",
  DGSF: `Fingler et al., IPDPS 2022. Data: Table 1 and section 7.5. Measured, in the form of its Fig. 4: what warm contexts, warm
handles, descriptors and batching save programs that call cuBLAS, each added to those before it
([library-steps.md](../bench/results/library-steps.md)).`,
};

export function papersPage(rows: readonly Row[]): string {
  const papers = order.filter((paper) => rows.some((row) => row.paper === paper));
  return `# The papers' figures beside ours

Made by \`npm run simulate -- papers --data DIR\`; [simulator](../simulator/README.md) says what DIR has to hold.
Everything here is simulated or recomputed from published data, and nothing was measured on a GPU. A row says *holds* or
*differs* where a bound was set for it beforehand; the others are shown for what they are. Times depend on the machine.

${papers.map((paper) => section(paper, rows)).join('\n\n')}
`;
}

function section(paper: Row['paper'], rows: readonly Row[]): string {
  const own = rows.filter((row) => row.paper === paper);
  return `## ${paper}

${about[paper]}

| where | what | unit | paper | ours | difference | | why |
|---|---|---|---|---|---|---|---|
${own.map(line).join('\n')}`;
}

function line(row: Row): string {
  const { where, what, unit, theirs, ours, most, within, why } = row;
  const difference = theirs !== null && ours !== null ? signed(ours - theirs) : '-';
  const bound =
    most !== undefined ? ` (at most ${most})` : within !== null ? ` (within ${within})` : '';
  const judged = holds(row);
  const verdict = judged === null ? '' : judged ? `holds${bound}` : `**differs**${bound}`;
  const cells = [where, what, unit, figure(theirs), figure(ours), difference, verdict, why];
  return `| ${cells.join(' | ')} |`;
}

function figure(value: number | null): string {
  return value === null ? '-' : String(Number(value.toPrecision(4)));
}

function signed(value: number): string {
  const text = figure(value);
  return value > 0 ? `+${text}` : text;
}
