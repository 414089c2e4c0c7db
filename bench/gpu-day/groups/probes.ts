// What the driver does where no page says it, without a server.
import type { Group, Step } from '../day.js';
import { probed } from '../day.js';

function step(name: string, more: string[] = []): Step {
  const seconds = 60;
  return { name, seconds, run: async (day) => probed(name, await day.probe(name, { more })) };
}

export const probes: Group = {
  name: 'probes',
  what: 'the driver by itself: addresses, mappings, modules, limits, queues, functions, events',
  seconds: 240,
  steps: [
    step('reserve'),
    step('mapping'),
    step('modules'),
    step('limits'),
    step('queue'),
    step('functions'),
    {
      name: 'slices',
      seconds: 60,
      async run(day) {
        if (day.driver.exclusive)
          return { left: [{ name: 'slices', why: 'the GPU is in exclusive mode' }] };
        return probed('slices', await day.probe('slices', { more: [day.driver.library] }));
      },
    },
    step('events'),
    step('waiting', ['1']),
  ],
};
