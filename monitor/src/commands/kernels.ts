import { ApiClient, apiOptions } from '../api/client.js';
import { command, exitCodes } from '../command.js';
import { sessionOf } from '../session-word.js';
import { type Column, print, printJson, table } from '../table.js';
import type { KernelView } from '../view.js';

const columns: Column<KernelView>[] = [
  { title: 'GPU TIME', right: true, text: ({ seconds }) => `${seconds.toFixed(3)} s` },
  { title: 'LAUNCHES', right: true, text: ({ launches }) => String(launches) },
  { title: 'BLOCKS', right: true, text: ({ blocks }) => String(blocks) },
  { title: 'KERNEL', text: ({ name }) => name },
];

export const kernels = command({
  name: 'kernels',
  summary: "list what a session's kernels have cost",
  usage: 'SESSION',
  about: `Lists the kernels of a session that runs with the GPU time that their launches took, the dearest
first, at most 100. Launches of the last milliseconds may be missing.`,
  options: apiOptions,
  takes: { least: 1, most: 1, what: 'one SESSION' },
  async run(values, [word = '']) {
    const route = `/v1/sessions/${sessionOf(word)}/kernels`;
    const found = (await new ApiClient(values).ask('GET', route)) as KernelView[];
    if (values.json) printJson(found);
    else print(table(columns, found));
    return exitCodes.ok;
  },
});
