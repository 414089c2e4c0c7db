// Shares over time, as an SVG that any browser or code page shows.

export interface Series {
  name: string;
  points: [seconds: number, percent: number][];
  owed: [seconds: number, percent: number][];
}

const width = 760;
const height = 160;
const left = 36;
const gap = 44;
// Distinguishable also without red or green (Okabe and Ito).
const colours = [
  '#0072b2',
  '#e69f00',
  '#009e73',
  '#cc79a7',
  '#56b4e9',
  '#d55e00',
  '#8a7f00',
  '#555',
];

export function plot(charts: readonly { title: string; series: readonly Series[] }[]): string {
  const all = charts.map(({ title, series }, index) =>
    chart(title, series, index * (height + gap)),
  );
  const tall = charts.length * (height + gap) + 8;
  return `<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="Shares of GPU time" viewBox="0 0 ${width + left + 12} ${tall}" font-family="sans-serif" font-size="11">
<title>Shares of GPU time received and owed</title>
<rect width="100%" height="100%" fill="#fff"/>
${all.join('\n')}
</svg>
`;
}

function chart(title: string, series: readonly Series[], top: number): string {
  const end = Math.max(1, ...series.flatMap(({ points }) => points.map(([at]) => at)));
  const x = (seconds: number) => (left + (seconds / end) * width).toFixed(1);
  const y = (percent: number) => (top + 24 + height * (1 - percent / 100)).toFixed(1);
  const path = (points: readonly [number, number][]) =>
    points.map(([at, percent], i) => `${i ? 'L' : 'M'}${x(at)} ${y(percent)}`).join('');
  const lines = series.flatMap(({ name, points, owed }, i) => {
    const colour = colours[i % colours.length];
    return [
      `<path d="${path(owed)}" fill="none" stroke="${colour}" stroke-dasharray="4 3" opacity="0.6"/>`,
      `<path d="${path(points)}" fill="none" stroke="${colour}" stroke-width="1.6"><title>${name}</title></path>`,
    ];
  });
  const grid = [0, 25, 50, 75, 100].map(
    (percent) =>
      `<path d="M${left} ${y(percent)}H${left + width}" stroke="#ddd"/>` +
      `<text x="${left - 5}" y="${Number(y(percent)) + 4}" text-anchor="end" fill="#555">${percent}</text>`,
  );
  const text = title.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
  return [
    `<text x="${left}" y="${top + 15}" font-size="12" fill="#222">${text} (dashed: owed; ${end.toFixed(0)} s)</text>`,
    ...grid,
    ...lines,
  ].join('\n');
}
