import { type Command, exitCodes } from '../cli/command.js';
import { print } from '../cli/table.js';
import { UsageError } from '../options/options.js';

const shells: Record<string, (commands: readonly Command[]) => string> = { bash, zsh, fish };
const names = Object.keys(shells);

export function completion(everything: () => Promise<Command[]>): Command {
  return {
    name: 'completion',
    summary: 'print the completion of commands and options for a shell',
    help: `Usage: outboard completion ${names.join('|')}

Prints a script for the shell, which completes commands, options and their values.

  bash: outboard completion bash > /usr/local/share/bash-completion/completions/outboard
  zsh:  outboard completion zsh > "\${fpath[1]}/_outboard"
  fish: outboard completion fish > ~/.config/fish/completions/outboard.fish
`,
    words: names,
    async run([shell, ...more]) {
      const write = shells[shell ?? ''];
      if (!write || more.length > 0) {
        throw new UsageError(`completion takes one shell: ${names.join(', ')}`);
      }
      print([write(await everything())]);
      return exitCodes.ok;
    },
  };
}

interface Flag {
  flag: string;
  /** What can stand behind it: words, a file, something else; null: nothing. */
  value: { words: string[] } | 'file' | 'any' | null;
  help: string;
}

function flagsOf({ options = {} }: Command): Flag[] {
  return Object.entries(options)
    .filter(([, option]) => !option.hidden)
    .map(([name, { value, help }]) => ({ flag: `--${name}`, value: kindOf(value), help }));
}

/** From how help writes it: a|b|c, FILE, DIR, or something else. */
function kindOf(value: string): Flag['value'] {
  if (value === '') return null;
  if (/^(FILE|DIR|PATH)$/.test(value)) return 'file';
  const words = value.split('|').filter((word) => /^[a-z][a-z0-9-]*$/.test(word));
  return words.length > 1 ? { words } : 'any';
}

function topics(command: Command, commands: readonly Command[]): readonly string[] {
  return command.name === 'help' ? commands.map(({ name }) => name) : (command.words ?? []);
}

function bash(commands: readonly Command[]): string {
  const cases = commands.map((command) => {
    const flags = flagsOf(command);
    const values = flags.flatMap(({ flag, value }) => {
      if (value === null) return [];
      if (value === 'file') return [`        ${flag}) compopt -o default; return ;;`];
      const words = value === 'any' ? '' : value.words.join(' ');
      return [`        ${flag}) words='${words}' ;;`];
    });
    const words = [...topics(command, commands), ...flags.map(({ flag }) => flag)].join(' ');
    const rest = command.name === 'run' ? ['compopt -o default'] : [];
    return [
      `    ${command.name})`,
      '      case $previous in',
      ...values,
      `        *) words='${words}'; ${rest.join('; ') || ':'} ;;`,
      '      esac ;;',
    ].join('\n');
  });
  return `# Completion of outboard for bash, made by \`outboard completion bash\`.
_outboard() {
  local current=\${COMP_WORDS[COMP_CWORD]} previous=\${COMP_WORDS[COMP_CWORD-1]} words=''
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W '${commands.map(({ name }) => name).join(' ')}' -- "$current"))
    return
  fi
  case \${COMP_WORDS[1]} in
${cases.join('\n')}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -F _outboard outboard`;
}

function zsh(commands: readonly Command[]): string {
  const list = commands.map(({ name, summary }) => `    ${quoted(`${name}:${summary}`)}`);
  const cases = commands.map((command) => {
    const flags = flagsOf(command).map(({ flag, value, help }) => {
      const said = help.replace(/[[\]:\\]/g, '\\$&');
      const action =
        value === null
          ? ''
          : value === 'file'
            ? ':file:_files'
            : `:value:${value === 'any' ? '' : `(${value.words.join(' ')})`}`;
      return quoted(`${flag}[${said}]${action}`);
    });
    const words = topics(command, commands);
    const first = words.length > 0 ? [quoted(`1:word:(${words.join(' ')})`)] : [];
    const rest = command.name === 'run' ? [quoted('*::program: _normal')] : [];
    const specs = [...flags, ...first, ...rest];
    const does = specs.length > 0 ? `_arguments ${specs.join(' ')}` : '_message "no arguments"';
    return `    ${command.name}) ${does} ;;`;
  });
  return `#compdef outboard
# Completion of outboard for zsh, made by \`outboard completion zsh\`.
_outboard() {
  local -a commands
  commands=(
${list.join('\n')}
  )
  if (( CURRENT == 2 )); then
    _describe command commands
    return
  fi
  local name=\${words[2]}
  shift words
  (( CURRENT-- ))
  case $name in
${cases.join('\n')}
  esac
}
_outboard "$@"`;
}

function fish(commands: readonly Command[]): string {
  const lines = commands.flatMap((command) => {
    const { name, summary } = command;
    const here = `-n ${quoted(`__fish_seen_subcommand_from ${name}`)}`;
    const words = topics(command, commands);
    return [
      `complete -c outboard -n __fish_use_subcommand -f -a ${name} -d ${quoted(summary)}`,
      ...(words.length > 0
        ? [`complete -c outboard ${here} -f -a ${quoted(words.join(' '))}`]
        : []),
      ...flagsOf(command).map(({ flag, value, help }) => {
        const takes =
          value === null
            ? ''
            : value === 'file'
              ? ' -r'
              : ` -x${value === 'any' ? '' : ` -a ${quoted(value.words.join(' '))}`}`;
        return `complete -c outboard ${here} -l ${flag.slice(2)}${takes} -d ${quoted(help)}`;
      }),
    ];
  });
  return `# Completion of outboard for fish, made by \`outboard completion fish\`.\n${lines.join('\n')}`;
}

/** In single quotes, as all three shells understand them. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
