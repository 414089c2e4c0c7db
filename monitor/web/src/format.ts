// Figures as people read them. Every figure on the page comes through here.

const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'] as const;

/** 1610612736 as "1.5 GiB": at most three digits. */
export function bytes(count: number): string {
  let unit = 0;
  let value = count;
  while (value >= 1023.5 && unit < units.length - 1) {
    value /= 1024;
    unit++;
  }
  const digits = unit === 0 || value >= 99.95 ? 0 : 1;
  return `${Number(value.toFixed(digits))} ${units[unit]}`;
}

/** Two amounts in the unit of the larger: "1.5 of 24 GiB". */
export function bytesOf(part: number, whole: number): string {
  let unit = 0;
  while (whole / 1024 ** unit >= 1023.5 && unit < units.length - 1) unit++;
  const number = (value: number) => {
    const scaled = value / 1024 ** unit;
    // What is there must not read as nothing.
    if (scaled > 0 && scaled < 0.05) return '<0.1';
    return String(Number(scaled.toFixed(scaled >= 99.95 ? 0 : 1)));
  };
  return `${number(part)} of ${number(whole)} ${units[unit]}`;
}

/** Null: it is not known. */
export function percent(value: number | null): string {
  if (value === null) return '–';
  if (value > 0 && value < 0.5) return '<1 %';
  return `${Math.round(value)} %`;
}

export function count(value: number): string {
  return value.toLocaleString('en-US');
}

/** "12 programs", "1 program". */
export function plural(number: number, one: string, many = `${one}s`): string {
  return `${count(number)} ${number === 1 ? one : many}`;
}

/** Whole seconds up to a minute, then the two largest units: "3 min 20 s", "2 d 4 h". */
export function duration(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds));
  if (whole < 60) return `${whole} s`;
  const parts: [number, string][] = [
    [Math.floor(whole / 86400), 'd'],
    [Math.floor(whole / 3600) % 24, 'h'],
    [Math.floor(whole / 60) % 60, 'min'],
    [whole % 60, 's'],
  ];
  const first = parts.findIndex(([value]) => value > 0);
  return parts
    .slice(first, first + 2)
    .filter(([value]) => value > 0)
    .map(([value, unit]) => `${value} ${unit}`)
    .join(' ');
}

/** Short waits to the millisecond, for those who look at attach times. */
export function wait(seconds: number): string {
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  return duration(seconds);
}

/** An amount of device time given in nanoseconds. */
export function deviceTime(nanoseconds: number | null): string {
  return nanoseconds === null ? 'not measured' : wait(nanoseconds / 1e9);
}

/** Of the reader's own time zone. */
export function clock(time: number | string): string {
  return new Date(time).toLocaleTimeString('en-GB');
}

export function dateTime(time: number | string): string {
  return new Date(time).toLocaleString('en-GB', { dateStyle: 'medium', timeStyle: 'medium' });
}

export function date(time: number | string): string {
  return new Date(time).toLocaleDateString('en-GB', { dateStyle: 'medium' });
}

/** GPU-7f3a...: enough to tell GPUs apart. */
export function shortUuid(uuid: string): string {
  return uuid.length > 16 ? `${uuid.slice(0, 12)}…` : uuid;
}

/** "bytesIn" as "bytes in". */
export function words(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
}
