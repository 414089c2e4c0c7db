// What ends the day, in a sentence, and what to do about it.
export class DayError extends Error {
  constructor(
    what: string,
    readonly remedy: string,
  ) {
    super(what);
  }

  get sentence(): string {
    return `${this.message}\n${this.remedy}`;
  }
}
