// What every command of `outboard` is.

export interface Command {
  name: string;
  /** One line, for the list of commands. */
  summary: string;
  /** The whole text of `outboard help NAME`. */
  help: string;
  /** Resolves to the exit code. Throws UsageError and OutboardError. */
  run(args: string[]): Promise<number>;
}

export const exitCodes = {
  ok: 0,
  usage: 2,
  /** Cannot start or reach something. */
  unable: 3,
  /** As shells have it. */
  notExecutable: 126,
  notFound: 127,
} as const;
