// A network link of a given rate, a process of its own: passes on at most so many bytes per second
// each way, from a port of its own to another.
import { connect, createServer, type Socket } from 'node:net';
import { relayOptions } from '../../monitor/src/network/relay.js';

const [to = '', megabits = ''] = process.argv.slice(2);
const bytesPerMs = (Number(megabits) * 1e6) / 8 / 1000;
/** What a network card sends in one go; timers are no finer. */
const burstMs = 2;

function pace(from: Socket, onto: Socket) {
  // When the last byte that was passed on is out.
  let out = 0;
  from.on('data', (chunk) => {
    const now = performance.now();
    out = Math.max(out, now) + chunk.length / bytesPerMs;
    const room = onto.write(chunk);
    const wait = out - now;
    if (wait <= burstMs && room) return;
    from.pause();
    const late = new Promise((done) => setTimeout(done, wait > burstMs ? wait : 0));
    const drained = room ? null : new Promise((done) => onto.once('drain', done));
    Promise.all([late, drained]).then(() => from.resume());
  });
  from.on('end', () => onto.end()).on('error', () => onto.destroy());
}

const server = createServer({ ...relayOptions, noDelay: true }, (socket) => {
  const onward = connect({ host: '127.0.0.1', port: Number(to), ...relayOptions });
  onward.setNoDelay(true);
  pace(socket, onward);
  pace(onward, socket);
});
server.listen(0, '127.0.0.1', () => {
  const address = server.address();
  console.log(typeof address === 'object' ? address?.port : address);
});
process.stdin.on('end', () => process.exit(0)).resume();
