// The ten groups, in order of worth: a day that is cut has what matters most.
import type { Group } from '../day.js';
import { facts } from './facts.js';
import { faults } from './faults.js';
import { figures } from './figures.js';
import { frameworks } from './frameworks.js';
import { memory } from './memory.js';
import { probes } from './probes.js';
import { features, programs } from './programs.js';
import { serving } from './serving.js';
import { waiting } from './waiting.js';

export const allGroups = (): Group[] => [
  facts,
  probes,
  serving,
  programs(),
  waiting,
  faults,
  memory,
  features(),
  frameworks(),
  figures,
];
