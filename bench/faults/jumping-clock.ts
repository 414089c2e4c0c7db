// Loaded into the server's processes (NODE_OPTIONS=--import=...): every look at the wall clock is off
// by up to two days, back and forth. Whoever measures how long something takes with it is found out.
const Right = Date;
let looks = 0;

function jump(): number {
  looks++;
  return (((looks * 7919) % 4001) - 2000) * 86_400;
}

class JumpingDate extends Right {
  // biome-ignore lint/suspicious/noExplicitAny: Date has as many signatures as there are dates.
  constructor(...given: any[]) {
    if (given.length === 0) super(Right.now() + jump());
    else super(...(given as [number]));
  }

  static override now(): number {
    return Right.now() + jump();
  }
}

globalThis.Date = JumpingDate as DateConstructor;
