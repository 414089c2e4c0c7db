import { version } from '../../../api-server/src/version.js';
import { type Command, exitCodes } from '../cli/command.js';
import { print, printJson } from '../cli/table.js';
import {
  defaultOf,
  notesOf,
  type OptionTable,
  optionsHelp,
  readOptions,
  yesNo,
} from '../options/options.js';
import { exitMeanings } from './help.js';

const options = { json: yesNo('OUTBOARD_JSON', 'the commands and their options, for programs') };

export function man(everything: () => Promise<Command[]>): Command {
  return {
    name: 'man',
    summary: 'print the man page',
    help: `Usage: outboard man [OPTIONS]

Prints the man page outboard(1), made of what the commands say of themselves:
\`outboard man | man -l -\` shows it, \`outboard man > /usr/local/share/man/man1/outboard.1\`
installs it.

${optionsHelp(options)}
`,
    options,
    async run(args) {
      const { json } = readOptions(options, args, process.env);
      const commands = await everything();
      if (json) printJson(commands.map(plain));
      else print([page(commands)]);
      return exitCodes.ok;
    },
  };
}

function plain({ name, summary, words, options = {} }: Command) {
  return { name, summary, words: words ?? [], options: visible(options).map(plainOption) };
}

function plainOption([name, option]: ReturnType<typeof visible>[number]) {
  const { value, env, help } = option;
  return { name, value: value || null, env, help, default: defaultOf(option) };
}

function visible(options: OptionTable) {
  return Object.entries(options).filter(([, option]) => !option.hidden);
}

function page(commands: readonly Command[]): string {
  return [
    `.TH OUTBOARD 1 "" "Outboard ${escaped(version)}" "User Commands"`,
    // Names of options and variables are not broken at the end of a line.
    '.nh',
    '.SH NAME',
    'outboard \\- run CUDA programs on a GPU that is not in their machine',
    '.SH SYNOPSIS',
    '.B outboard',
    '.I COMMAND',
    '[OPTIONS]',
    '.SH DESCRIPTION',
    'Programs are run with Outboard in the place of the CUDA driver; their calls travel to a server',
    'that has the GPUs. One command is both: the server, what runs programs, and what operators use.',
    '.SH COMMANDS',
    ...commands.flatMap(section),
    '.SH ENVIRONMENT',
    'Every option has a name in the environment, which stands beside it above. The option comes first,',
    'then the environment, then the configuration file where there is one, then the default.',
    '.TP',
    '.B NO_COLOR',
    'Nothing is printed in colours when it is set.',
    '.SH "EXIT STATUS"',
    ...exitMeanings.flatMap(([code, meaning]) => ['.TP', `.B ${escaped(code)}`, text(meaning)]),
  ].join('\n');
}

function section({ name, summary, help, options = {} }: Command): string[] {
  const [usage = '', ...about] = help.trim().split('\n');
  const rows = visible(options);
  // The rows of options at the end of the help are said in the form of a man page instead.
  const cut = rows.length > 0 ? about.findIndex((line) => /^ {2}--/.test(line)) : -1;
  const told = cut < 0 ? about : about.slice(0, cut);
  const behind = cut < 0 ? [] : about.slice(cut).filter((line) => !line.startsWith(' '));
  return [
    `.SS ${escaped(name)}`,
    `.I ${escaped(usage.replace(/^Usage: /, ''))}`,
    '.PP',
    text(`${summary[0]?.toUpperCase()}${summary.slice(1)}.`),
    ...paragraphs(told),
    ...rows.flatMap(optionLines),
    ...paragraphs(behind),
  ];
}

function optionLines([name, option]: ReturnType<typeof visible>[number]) {
  const { value, help } = option;
  const flag = escaped(`--${name}`);
  return [
    '.TP',
    value ? `\\fB${flag}\\fR \\fI${escaped(value)}\\fR` : `\\fB${flag}\\fR`,
    text(`${help[0]?.toUpperCase()}${help.slice(1)} (${notesOf(option)}).`),
  ];
}

/** Paragraphs as they are; what is set in is kept line by line. */
function paragraphs(lines: readonly string[]): string[] {
  const out: string[] = [];
  let literal = false;
  for (const line of lines) {
    const wants = line.startsWith('  ');
    if (wants !== literal && line !== '') {
      out.push(wants ? '.PP\n.nf' : '.fi');
      literal = wants;
    }
    if (line !== '') out.push(text(line));
    else if (!literal && out.at(-1) !== '.PP') out.push('.PP');
  }
  if (literal) out.push('.fi');
  while (out.at(-1) === '.PP') out.pop();
  return out;
}

/** A line of text: one that begins with a control character would be an order to roff. */
function text(line: string): string {
  const safe = escaped(line);
  return /^[.']/.test(safe) ? `\\&${safe}` : safe;
}

function escaped(line: string): string {
  return line
    .replaceAll('\\', '\\e')
    .replaceAll('-', '\\-')
    .replaceAll('`', '\\(ga')
    .replaceAll("'", '\\(aq')
    .replaceAll('~', '\\(ti')
    .replaceAll('^', '\\(ha');
}
