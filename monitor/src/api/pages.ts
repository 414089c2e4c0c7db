// The files of the web page, which its build has put into one folder. Nothing is served that does
// not lie in it.
import { createReadStream, realpathSync, statSync } from 'node:fs';
import path from 'node:path';
import type { FastifyReply } from 'fastify';
import { OutboardError } from '../base/errors.js';

const types: Record<string, string> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.json': 'application/json',
  '.map': 'application/json',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
  '.ico': 'image/x-icon',
  '.woff2': 'font/woff2',
  '.webmanifest': 'application/manifest+json',
};

/** The page loads nothing from elsewhere, runs no script but its own, and is in nobody's frame. */
export const policy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "font-src 'self'",
  "manifest-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

export function sendPage(reply: FastifyReply, root: string | null, url: string) {
  // A checkout that has only run the demo has none.
  if (root === null && url.split('?', 1)[0] === '/') throw new OutboardError('OB_API_PAGE');
  const file = root === null ? null : fileOf(root, url);
  if (file === null) throw new OutboardError('OB_API_PATH', 'page', url.slice(0, 200));
  const hashed = /-[\w-]{8,}\.\w+$/.test(file);
  return (
    reply
      .header('content-type', types[path.extname(file)] ?? 'application/octet-stream')
      .header('content-length', statSync(file).size)
      // Vite puts a hash of the content into the names of all but the page itself.
      .header('cache-control', hashed ? 'public, max-age=31536000, immutable' : 'no-cache')
      .send(createReadStream(file))
  );
}

function fileOf(root: string, url: string): string | null {
  try {
    const wanted = decodeURIComponent(url.split('?', 1)[0] ?? '');
    const folder = realpathSync(root);
    const file = realpathSync(
      path.join(folder, wanted.endsWith('/') ? `${wanted}index.html` : wanted),
    );
    return file.startsWith(folder + path.sep) && statSync(file).isFile() ? file : null;
  } catch {
    return null;
  }
}
