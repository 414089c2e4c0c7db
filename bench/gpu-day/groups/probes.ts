// What the driver does where no page says it, without a server.
import type { Group, Step } from '../day.js';
import { probed } from '../day.js';
import type { Answers } from '../probe.js';

function step(name: string, more: string[] = []): Step {
  const seconds = 60;
  return { name, seconds, run: async (day) => probed(name, await day.probe(name, { more })) };
}

/** Of what two processes have got by the same calls in the same order, whether it lies at the same place. */
export function inTwoProcesses(first: Answers, second: Answers): Answers {
  const failed = [first, second].find(({ error }) => error !== undefined);
  if (failed) return failed;
  const { version, ...places } = first;
  const told = Object.entries(places).map(([name, place]) => {
    return [
      `${name}, in two processes`,
      place === second[name] ? 'at the same place' : 'elsewhere',
    ];
  });
  return { ...(version === undefined ? {} : { version }), ...Object.fromEntries(told) };
}

export const probes: Group = {
  name: 'probes',
  what: 'the driver by itself: addresses, mappings, modules, limits, queues, functions, events, odd arguments, places',
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
    step('answers'),
    step('table'),
    {
      name: 'addresses',
      seconds: 60,
      async run(day) {
        const first = await day.probe('addresses');
        return probed('addresses', inTwoProcesses(first, await day.probe('addresses')));
      },
    },
  ],
};
