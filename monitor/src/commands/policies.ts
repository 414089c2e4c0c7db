import type { Parameter, PolicyKind, Source } from '../../policies/cluster/policy.js';
import { type AnyClusterPolicy, clusterPolicies } from '../../policies/cluster/registry.js';
import {
  admissionPolicies,
  migrationPolicies,
  placementPolicies,
  queuePolicies,
  quotaPolicies,
} from '../../policies/index.js';
import { drain } from '../../policies/migration/drain.js';
import { command, exitCodes } from '../cli/command.js';
import { type Column, print, printJson, table } from '../cli/table.js';
import { didYouMean } from '../options/nearest.js';
import { UsageError, yesNo } from '../options/options.js';

interface Row {
  name: string;
  kind: PolicyKind | 'admission' | 'migration';
  /** live: `outboard serve` does as it decides. simulated: nothing but a simulation does. */
  runs: 'live' | 'simulated';
  /** What a quota policy of a server counts; null: nothing, or it is none. */
  unit: string | null;
  periodMs: number | null;
  summary: string;
}

const columns: Column<Row>[] = [
  { title: 'NAME', text: ({ name }) => name },
  { title: 'KIND', text: ({ kind }) => kind },
  { title: 'RUNS', text: ({ runs }) => runs },
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
  usage: '[NAME]',
  about: `Lists the policies there are. Those that run live \`outboard serve\` can be told to use: which GPU
a session is placed on, whose turn it is, who may join whom, which sessions are moved, and how GPU time is shared. PERIOD is how often shares are decided anew.
Those that are simulated decide for a whole cluster, and nobody but a simulation does as they say.

\`outboard policies NAME\` explains the policies of that name: what one that runs live is good for and how it
is chosen; of one that is simulated what it has from which paper, its parameters, and without what others it makes no
sense.`,
  takes: { least: 0, most: 1, what: 'nothing, or the name of a policy' },
  options: {
    json: yesNo('OUTBOARD_JSON', 'write JSON, whose form is stable, for programs'),
  },
  async run({ json }, [name]) {
    const all = rows();
    if (name === undefined) {
      if (json) printJson(all);
      else print(table(columns, all));
      return exitCodes.ok;
    }
    const named = all.filter((row) => row.name === name);
    if (named.length === 0) {
      const names = [...new Set(all.map((row) => row.name))];
      throw new UsageError(`no policy ${name}${didYouMean(name, names)}`, 'outboard policies');
    }
    const explained = named.map((row) => ({ ...row, ...origin(row) }));
    if (json) printJson(explained);
    else print(explained.flatMap(explain));
    return exitCodes.ok;
  },
});

function rows(): Row[] {
  const none = { unit: null, periodMs: null };
  const placement = [...placementPolicies.values()].map(({ name, summary }): Row => {
    return { name, kind: 'placement', runs: 'live', ...none, summary };
  });
  const queue = [...queuePolicies.values()].map(({ name, summary }): Row => {
    return { name, kind: 'queue', runs: 'live', ...none, summary };
  });
  const admission = [...admissionPolicies.values()].map(({ name, summary }): Row => {
    return { name, kind: 'admission', runs: 'live', ...none, summary };
  });
  const migration = [...migrationPolicies.values()].map(({ name, summary }): Row => {
    return { name, kind: 'migration', runs: 'live', ...none, summary };
  });
  const quota = [...quotaPolicies.values()].map(({ name, unit, periodMs, summary }): Row => {
    const counted = unit === 'none' ? none : { unit, periodMs };
    return { name, kind: 'quota', runs: 'live', ...counted, summary };
  });
  const simulated = clusterPolicies.map(({ name, kind, summary }): Row => {
    return { name, kind, runs: 'simulated', ...none, summary };
  });
  return [...placement, ...queue, ...admission, ...migration, ...quota, ...simulated];
}

const live: Partial<Record<Row['kind'], ReadonlyMap<string, { about?: string }>>> = {
  placement: placementPolicies,
  queue: queuePolicies,
  admission: admissionPolicies,
  migration: migrationPolicies,
  quota: quotaPolicies,
};

/** How a server is told to go by a policy of that kind. */
const chosenBy: Partial<Record<Row['kind'], string>> = {
  placement: '--placement',
  queue: '--queue-policy',
  admission: '--admission',
  migration: '--migration',
  quota: '--quota',
};

interface Origin {
  /** What it is good for; null: of a cluster's policies, whose papers tell. */
  about: string | null;
  /** What tells a server to go by it; null: nothing does. */
  option: string | null;
  /** Of a cluster's policies. */
  source: Source | null;
  parameters: Readonly<Record<string, Parameter>>;
  needs: AnyClusterPolicy['needs'];
}

function origin({ name, kind, runs }: Row): Origin {
  if (runs === 'live') {
    const about = live[kind]?.get(name)?.about ?? null;
    const option = name === drain.name ? null : `${chosenBy[kind]} ${name}`;
    return { about, option, source: null, parameters: {}, needs: {} };
  }
  const found = clusterPolicies.find((policy) => policy.kind === kind && policy.name === name);
  const { source = null, parameters = {}, needs = {} } = found ?? {};
  return { about: null, option: null, source, parameters, needs };
}

function explain(row: Row & Origin): string[] {
  const { name, kind, runs, summary, about, option, source, parameters, needs = {} } = row;
  const lines = [`${kind} ${name} (${runs}): ${summary}`];
  if (about) lines.push(`  ${about}`);
  if (option) lines.push(`  chosen with: outboard serve ${option}`);
  if (source) lines.push(`  from ${source.paper}, ${source.section}`);
  for (const [other, names] of Object.entries(needs)) {
    lines.push(`  needs ${other} ${names.join(' or ')}`);
  }
  for (const [parameter, about] of Object.entries(parameters)) {
    const range = `${about.least} to ${about.most}`;
    const from = `${about.source.paper}, ${about.source.section}`;
    lines.push(`  ${parameter} = ${about.default} (${range}): ${about.summary}; from ${from}`);
  }
  return lines;
}
