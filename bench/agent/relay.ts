// A relay without TLS, a process of its own, where agent or front would be: from the first address
// to the second, both a port or a path.
import { connect, createServer } from 'node:net';
import { relay, relayOptions } from '../../monitor/src/network/relay.js';

const [from = '', to = ''] = process.argv.slice(2);
const at = (address: string) =>
  /^\d+$/.test(address) ? { host: '127.0.0.1', port: Number(address) } : { path: address };
const server = createServer({ ...relayOptions, noDelay: true }, (socket) => {
  const onward = connect({ ...at(to), ...relayOptions });
  onward.setNoDelay(true);
  relay(socket, onward);
});
server.listen(at(from), () => {
  const address = server.address();
  console.log(typeof address === 'object' ? address?.port : address);
});
process.stdin.on('end', () => process.exit(0)).resume();
