// Launches behind a function of the program that sleeps, and what waits for nothing but a place.
import type { Group } from '../day.js';
import { probed } from '../day.js';

export const waiting: Group = {
  name: 'waiting',
  what: 'a function that sleeps 100 ms with 5,000 launches behind it; then a kernel used for the first time',
  seconds: 150,
  steps: [
    {
      name: 'natively',
      seconds: 60,
      async run(day) {
        if (day.driver.exclusive) await day.noServer();
        return probed(
          'launches behind a function, natively',
          await day.probe('behind'),
          'natively: ',
        );
      },
    },
    {
      name: 'remoted',
      seconds: 60,
      run: async (day) =>
        probed('launches behind a function, remoted', await day.remoteProbe('behind'), 'remoted: '),
    },
    {
      name: 'functions, remoted',
      seconds: 60,
      run: async (day) =>
        probed(
          'functions of four streams, remoted',
          await day.remoteProbe('functions'),
          'remoted: ',
        ),
    },
  ],
};
