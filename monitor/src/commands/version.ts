import { wire } from '../../../api-server/src/control.js';
import { version as number } from '../../../api-server/src/version.js';
import { type Command, exitCodes } from '../command.js';
import { readOptions } from '../options.js';

export const version: Command = {
  name: 'version',
  summary: 'print the version of Outboard and of its protocol',
  help: 'Usage: outboard version\n\nPrints the version of Outboard and of the protocol that guest and server speak.\n',
  async run(args) {
    readOptions({}, args, {});
    process.stdout.write(`outboard ${number}, protocol ${wire.protocol}\n`);
    return exitCodes.ok;
  },
};
