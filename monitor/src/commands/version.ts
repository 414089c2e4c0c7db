import { wire } from '../../../api-server/src/control.js';
import { version as number } from '../../../api-server/src/version.js';
import { command, exitCodes } from '../cli/command.js';
import { print, printJson } from '../cli/table.js';
import { yesNo } from '../options/options.js';

export const version = command({
  name: 'version',
  summary: 'print the version of Outboard and of its protocol',
  about: 'Prints the version of Outboard and of the protocol that guest and server speak.',
  options: {
    json: yesNo('OUTBOARD_JSON', 'write JSON, whose form is stable, for programs'),
  },
  async run({ json }) {
    if (json) printJson({ version: number, protocol: wire.protocol });
    else print([`outboard ${number}, protocol ${wire.protocol}`]);
    return exitCodes.ok;
  },
});
