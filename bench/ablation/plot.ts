// Times without each decision over times with all, a group of bars for each round-trip time.
import type { Measured } from './page.js';

const height = 200;
const barWidth = 16;
const top = 28;
const left = 44;
const colours = ['#555', '#0072b2', '#e69f00', '#009e73', '#cc79a7', '#56b4e9', '#d55e00'];

/** Geometric means over the programs. */
export function slower(rows: readonly Measured[], setting: string, distance: number): number {
  const logs = rows
    .filter((row) => row.setting === setting)
    .map((row) => {
      const base = rows.find((one) => one.program === row.program && one.setting === 'as it is');
      return Math.log((row.seconds[distance] ?? 1) / (base?.seconds[distance] ?? 1));
    });
  return Math.exp(logs.reduce((sum, log) => sum + log, 0) / Math.max(1, logs.length));
}

export function plot(rows: readonly Measured[], roundTrips: readonly number[]): string {
  const settings = [...new Set(rows.map(({ setting }) => setting))];
  const group = settings.length * barWidth + 40;
  const values = roundTrips.map((_, i) => settings.map((setting) => slower(rows, setting, i)));
  const most = Math.max(2, ...values.flat());
  const y = (value: number) => top + height * (1 - Math.log(Math.max(1, value)) / Math.log(most));
  const grid = [1, 2, 5, 10, 20, 50, 100, 200]
    .filter((value) => value <= most)
    .map(
      (value) =>
        `<path d="M${left} ${y(value).toFixed(1)}h${group * roundTrips.length}" stroke="#ddd"/>` +
        `<text x="${left - 5}" y="${(y(value) + 4).toFixed(1)}" text-anchor="end" fill="#555">${value}x</text>`,
    );
  const bars = values.flatMap((of, i) => [
    ...of.map((value, s) => {
      const x = left + i * group + s * barWidth;
      const tall = Math.max(1, top + height - y(value));
      return `<rect x="${x}" y="${(top + height - tall).toFixed(1)}" width="${barWidth - 3}" height="${tall.toFixed(1)}" fill="${colours[s % colours.length]}"><title>${settings[s]}: ${value.toFixed(2)}x</title></rect>`;
    }),
    `<text x="${left + i * group}" y="${top + height + 16}" fill="#555">${roundTrips[i]} ms</text>`,
  ]);
  const legend = settings.map(
    (name, s) =>
      `<rect x="${left + (s % 4) * 150}" y="${top + height + 28 + Math.floor(s / 4) * 18}" width="10" height="10" fill="${colours[s % colours.length]}"/>` +
      `<text x="${left + (s % 4) * 150 + 15}" y="${top + height + 37 + Math.floor(s / 4) * 18}">${name}</text>`,
  );
  const wide = Math.max(left + group * roundTrips.length + 10, left + 620);
  return `<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="What each decision saves" viewBox="0 0 ${wide} ${top + height + 76}" font-family="sans-serif" font-size="11">
<title>Time of programs without one decision, over their time with all</title>
<rect width="100%" height="100%" fill="#fff"/>
<text x="${left}" y="16" font-size="12" fill="#222">time over the time as it is, by round-trip time</text>
${[...grid, ...bars, ...legend].join('\n')}
</svg>
`;
}
