// All memory that there is, then kernels that need more than was counted.
import type { Group } from '../day.js';
import { probed } from '../day.js';

export const memory: Group = {
  name: 'memory',
  what: 'allocation to the limit, then modules and kernels of large stacks',
  seconds: 120,
  steps: [
    {
      name: 'natively',
      seconds: 60,
      async run(day) {
        // What a server holds would be missing.
        await day.noServer();
        return probed('to the limit, natively', await day.probe('exhaust'), 'natively: ');
      },
    },
    {
      name: 'remoted',
      seconds: 60,
      async run(day) {
        // What fails there, too, once all is taken, is no fault of a server.
        await day.noServer();
        const natively = await day.probe('exhaust');
        const answers = await day.remoteProbe('exhaust');
        const found = probed('to the limit, remoted', answers, 'remoted: ');
        const bad = Object.entries(answers).filter(([name, value]) => {
          return `${value}`.startsWith('CUDA_ERROR') && value !== natively[name];
        });
        const differs = bad.map(([name, value]) => ({
          name: `within what the session was promised: ${name}`,
          how: `${value}`,
        }));
        return { ...found, differs: [...(found.differs ?? []), ...differs] };
      },
    },
  ],
};
