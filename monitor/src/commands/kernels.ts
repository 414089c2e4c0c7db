import { ApiClient, apiOptions } from '../api/client.js';
import { kernelNames } from '../base/kernel-name.js';
import type { KernelView } from '../base/view.js';
import { command, exitCodes } from '../cli/command.js';
import { type Column, print, printJson, table } from '../cli/table.js';
import { sessionOf } from '../options/session-number.js';

const columns: Column<KernelView & { called: string }>[] = [
  { title: 'GPU TIME', right: true, text: ({ seconds }) => gpuTime(seconds) },
  { title: 'LAUNCHES', right: true, text: ({ launches }) => String(launches) },
  { title: 'BLOCKS', right: true, text: ({ blocks }) => String(blocks) },
  { title: 'KERNEL', text: ({ called }) => called },
];

function gpuTime(seconds: number | null): string {
  return seconds === null ? '-' : `${seconds.toFixed(3)} s`;
}

export const kernels = command({
  name: 'kernels',
  summary: "list what a session's kernels have cost",
  usage: 'SESSION',
  about: `Lists the kernels of a session that runs with the GPU time that their launches took, the dearest
first, at most 100. Launches of the last milliseconds may be missing. -: not all of its launches were measured
(outboard serve --measure). Names are shown as C++ has them, without
parameters; with --json, as the module has them.`,
  options: apiOptions,
  takes: { least: 1, most: 1, what: 'one SESSION' },
  async run(values, [word = '']) {
    const route = `/v1/sessions/${sessionOf(word)}/kernels`;
    const found = (await new ApiClient(values).ask('GET', route)) as KernelView[];
    if (values.json) printJson(found);
    else {
      const names = kernelNames(found.map(({ name }) => name));
      print(
        table(
          columns,
          found.map((one, index) => ({ ...one, called: names[index] ?? '' })),
        ),
      );
    }
    return exitCodes.ok;
  },
});
