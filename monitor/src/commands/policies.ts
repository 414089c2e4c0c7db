import { placementPolicies, quotaPolicies } from '../../policies/index.js';
import { command, exitCodes } from '../cli/command.js';
import { type Column, print, printJson, table } from '../cli/table.js';
import { yesNo } from '../options/options.js';

interface Row {
  name: string;
  kind: 'placement' | 'quota';
  /** What a quota policy counts; null: nothing, or it is for placement. */
  unit: string | null;
  periodMs: number | null;
  summary: string;
}

const columns: Column<Row>[] = [
  { title: 'NAME', text: ({ name }) => name },
  { title: 'KIND', text: ({ kind }) => kind },
  { title: 'UNIT', text: ({ unit }) => unit ?? '-' },
  {
    title: 'PERIOD',
    right: true,
    text: ({ periodMs }) => (periodMs === null ? '-' : `${periodMs} ms`),
  },
  { title: 'SUMMARY', text: ({ summary }) => summary },
];

export const policies = command({
  name: 'policies',
  summary: 'list the policies for placement and for GPU time',
  about: `Lists the policies that \`outboard serve\` can be told to use: which GPU a session is placed on,
and how GPU time is shared. PERIOD is how often shares are decided anew.`,
  options: {
    json: yesNo('OUTBOARD_JSON', 'write JSON, whose form is stable, for programs'),
  },
  async run({ json }) {
    if (json) printJson(rows());
    else print(table(columns, rows()));
    return exitCodes.ok;
  },
});

function rows(): Row[] {
  const placement = [...placementPolicies.values()].map(({ name, summary }): Row => {
    return { name, kind: 'placement', unit: null, periodMs: null, summary };
  });
  const quota = [...quotaPolicies.values()].map(({ name, unit, periodMs, summary }): Row => {
    const counts = unit !== 'none';
    return {
      name,
      kind: 'quota',
      unit: counts ? unit : null,
      periodMs: counts ? periodMs : null,
      summary,
    };
  });
  return [...placement, ...quota];
}
