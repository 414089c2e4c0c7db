// What programs take over longer and narrower networks, measured and expected, as an SVG.

export interface Line {
  name: string;
  points: { x: number; measured: number; expected: number }[];
}

const width = 360;
const height = 220;
const margin = { left: 52, top: 30, bottom: 40 };
const colours = ['#0072b2', '#e69f00', '#009e73', '#cc79a7', '#56b4e9', '#d55e00', '#8a7f00'];

interface Chart {
  title: string;
  axis: string;
  lines: readonly Line[];
}

export function plot(charts: readonly Chart[]): string {
  const step = width + margin.left + 24;
  const legend = charts[0]?.lines ?? [];
  const tall = margin.top + height + margin.bottom + 18 * Math.ceil(legend.length / 4) + 8;
  const names = legend.map(({ name }, i) => {
    const x = margin.left + (i % 4) * 170;
    const y = margin.top + height + margin.bottom + 12 + 18 * Math.floor(i / 4);
    return `<path d="M${x} ${y - 4}h18" stroke="${colours[i % colours.length]}" stroke-width="2"/><text x="${x + 24}" y="${y}">${name}</text>`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="Time of programs over networks" viewBox="0 0 ${step * charts.length} ${tall}" font-family="sans-serif" font-size="11">
<title>Time of programs over networks: points are measured, lines expected</title>
<rect width="100%" height="100%" fill="#fff"/>
${charts.map((chart, i) => draw(chart, i * step + margin.left)).join('\n')}
${names.join('\n')}
</svg>
`;
}

/** Both axes are logarithmic. */
function draw({ title, axis, lines }: Chart, left: number): string {
  const all = lines.flatMap(({ points }) => points);
  const xs = all.map(({ x }) => x);
  const ys = all.flatMap(({ measured, expected }) => [measured, expected]);
  const x = scale(Math.min(...xs), Math.max(...xs), left, left + width);
  const y = scale(
    10 ** Math.floor(Math.log10(Math.min(...ys))),
    10 ** Math.ceil(Math.log10(Math.max(...ys))),
    margin.top + height,
    margin.top,
  );
  const ticks = [...new Set(xs)].map(
    (value) =>
      `<text x="${x(value)}" y="${margin.top + height + 14}" text-anchor="middle" fill="#555">${value}</text>`,
  );
  const from = Math.floor(Math.log10(Math.min(...ys)));
  const to = Math.ceil(Math.log10(Math.max(...ys)));
  const grid = Array.from({ length: to - from + 1 }, (_, i) => 10 ** (from + i)).map(
    (value) =>
      `<path d="M${left} ${y(value)}h${width}" stroke="#ddd"/><text x="${left - 5}" y="${Number(y(value)) + 4}" text-anchor="end" fill="#555">${value} s</text>`,
  );
  const drawn = lines.flatMap(({ points }, i) => {
    const colour = colours[i % colours.length];
    const path = points.map((p, n) => `${n ? 'L' : 'M'}${x(p.x)} ${y(p.expected)}`).join('');
    return [
      `<path d="${path}" fill="none" stroke="${colour}" stroke-width="1.4"/>`,
      ...points.map((p) => `<circle cx="${x(p.x)}" cy="${y(p.measured)}" r="3" fill="${colour}"/>`),
    ];
  });
  return [
    `<text x="${left}" y="${margin.top - 12}" font-size="12" fill="#222">${title}</text>`,
    ...grid,
    ...ticks,
    `<text x="${left + width / 2}" y="${margin.top + height + 30}" text-anchor="middle" fill="#555">${axis}</text>`,
    ...drawn,
  ].join('\n');
}

function scale(from: number, to: number, start: number, end: number) {
  const span = Math.log(to / from) || 1;
  return (value: number) => (start + (Math.log(value / from) / span) * (end - start)).toFixed(1);
}
