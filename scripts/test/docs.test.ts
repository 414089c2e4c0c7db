// docs/README.md is the list of all pages below docs/.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { root } from '../../bin/paths.mjs';

t.test('the index has each page once, and no other', async (t) => {
  const index = readFileSync(join(root, 'docs', 'README.md'), 'utf8');
  const listed = [...index.matchAll(/^\| \[(.+?)\]\((.+?)\) \| .+ \|$/gm)];
  for (const [, name, target] of listed) t.equal(name, target, 'a link says where it leads');
  const pages = readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.md') && file !== 'README.md')
    .sort();
  t.ok(pages.length > 20);
  t.same(listed.map(([, , target]) => target).sort(), pages);
});
