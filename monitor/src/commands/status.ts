import { ApiClient, apiOptions } from '../api/client.js';
import { command, exitCodes } from '../cli/command.js';
import { gpuLines, headLines, queueLines, sessionLines, sorted } from '../cli/screen.js';
import { colours, print, printJson } from '../cli/table.js';

const queueShown = 10;

export const status = command({
  name: 'status',
  summary: 'show the GPUs, sessions and queue of a server',
  about: 'Shows on one screen what a server has and does: its GPUs, sessions and queue.',
  options: apiOptions,
  async run(values) {
    const view = await new ApiClient(values).state();
    if (values.json) {
      printJson(view);
      return exitCodes.ok;
    }
    const paint = colours(process.stdout, process.env);
    const queue = queueLines(view.queue, queueShown, view.queue.length, paint);
    print([
      ...headLines(view, paint),
      '',
      ...gpuLines(view.gpus, paint),
      '',
      ...sessionLines(sorted(view.sessions, 'id'), paint),
      ...(queue.length > 0 ? ['', ...queue] : []),
    ]);
    return exitCodes.ok;
  },
});
