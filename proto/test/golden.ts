// What the generator makes of the made-up API in data/, and what was committed. To accept what it
// makes now:  npx tsc && node build/js/proto/test/golden.js
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { readApi } from '../generator/api.js';
import { readFacts } from '../generator/facts.js';
import { root, texts } from '../generator/main.js';
import { readMoving } from '../generator/moving.js';

export const data = path.join(root, 'proto', 'test', 'data');
const committed = path.join(data, 'generated');

/** By its path in the repository: the text generated, and the text committed (null: none). */
export function goldenFiles(): { file: string; generated: string; expected: string | null }[] {
  const facts = readFacts(path.join(data, 'facts.json'));
  const api = readApi(path.join(data, 'api'), facts);
  const moving = readMoving(path.join(data, 'moving.yaml'), api);
  return [...texts(facts, api, {}, moving)].map(([file, generated]) => {
    const full = path.join(committed, file);
    return { file, generated, expected: existsSync(full) ? readFileSync(full, 'utf8') : null };
  });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  rmSync(committed, { recursive: true, force: true });
  for (const { file, generated } of goldenFiles()) {
    const full = path.join(committed, file);
    mkdirSync(path.dirname(full), { recursive: true });
    writeFileSync(full, generated);
  }
}
