// Every error a user can meet, in one table: its code, the sentence (%s are filled in), what to do,
// and the CUresult that the program's CUDA call returns where the error ends an attach. Codes are
// never used again for something else. docs/errors.md is made from this table.
import { format } from 'node:util';
import type { Refusal } from '../../../api-server/src/control.js';

/** The CUresults used here, by their names in the driver API. */
const results = {
  CUDA_ERROR_INVALID_VALUE: 1,
  CUDA_ERROR_OUT_OF_MEMORY: 2,
  CUDA_ERROR_DEVICE_UNAVAILABLE: 46,
  CUDA_ERROR_INVALID_DEVICE: 101,
  CUDA_ERROR_NOT_PERMITTED: 800,
  CUDA_ERROR_SYSTEM_NOT_READY: 802,
  CUDA_ERROR_SYSTEM_DRIVER_MISMATCH: 803,
} as const;

interface Entry {
  sentence: string;
  remedy: string;
  /** Absent: no CUDA program ever sees it. */
  result?: keyof typeof results;
}

const table = {
  // A connection that is not, or not yet, a session.
  OB_NOT_OUTBOARD: {
    sentence: 'this port speaks the Outboard protocol, and what arrived does not: it began with %s',
    remedy:
      'Point OUTBOARD_SERVER at an `outboard serve`, and whatever else connects here somewhere else.',
    result: 'CUDA_ERROR_SYSTEM_NOT_READY',
  },
  OB_VERSION: {
    sentence: 'the guest library speaks version %s of the protocol, this server version %s',
    remedy: 'Install the same release of Outboard on both machines.',
    result: 'CUDA_ERROR_SYSTEM_DRIVER_MISMATCH',
  },
  OB_HELLO_TOO_LONG: {
    sentence: 'the Hello announces %s bytes; the most is %s',
    remedy: 'Install the same release of Outboard on both machines.',
    result: 'CUDA_ERROR_SYSTEM_DRIVER_MISMATCH',
  },
  OB_HELLO_MALFORMED: {
    sentence: 'the Hello cannot be decoded: %s',
    remedy: 'Install the same release of Outboard on both machines.',
    result: 'CUDA_ERROR_SYSTEM_DRIVER_MISMATCH',
  },
  OB_HELLO_TRUNCATED: {
    sentence: 'the connection ended after %s bytes, in the middle of the Hello',
    remedy: 'See whether the program was ended, or a proxy in between closes connections.',
    result: 'CUDA_ERROR_SYSTEM_NOT_READY',
  },
  OB_HELLO_SLOW: {
    sentence: 'the Hello was not complete after %s seconds',
    remedy: 'Look at the network in between, or allow more with `outboard serve --hello-timeout`.',
    result: 'CUDA_ERROR_SYSTEM_NOT_READY',
  },
  OB_HELLO_VALUE: {
    sentence: 'the Hello asks for something that does not exist: %s',
    remedy: 'Install the same release of Outboard on both machines.',
    result: 'CUDA_ERROR_INVALID_VALUE',
  },
  OB_TOO_EARLY: {
    sentence: 'the guest sent more than %s bytes before it was welcomed',
    remedy: 'Install the same release of Outboard on both machines.',
    result: 'CUDA_ERROR_SYSTEM_DRIVER_MISMATCH',
  },

  OB_CONNECTIONS: {
    sentence:
      '%s connections to this server have not said yet who they are, which is the most there may be',
    remedy:
      'Try again in some seconds. If it goes on, see the log for where they come from, or allow more with `outboard serve --hello-limit`.',
    result: 'CUDA_ERROR_DEVICE_UNAVAILABLE',
  },
  OB_CONNECTIONS_ADDRESS: {
    sentence:
      'the address %s has %s connections to this server that have not said yet who they are, which is the most of one address',
    remedy:
      'Look for what connects there and says nothing, or allow more with `outboard serve --hello-limit-per-address`.',
    result: 'CUDA_ERROR_DEVICE_UNAVAILABLE',
  },

  // Requests that this server can never satisfy.
  OB_TOO_MANY_GPUS: {
    sentence: 'the program asks for %s GPUs; it can have %s here',
    remedy: 'Ask for fewer with OUTBOARD_GPUS, or use a server with more.',
    result: 'CUDA_ERROR_INVALID_DEVICE',
  },
  OB_GPU_MODEL: {
    sentence: 'the program asks for a GPU whose name has "%s"; what it can have here is %s',
    remedy:
      'Ask for another with OUTBOARD_GPU_MODEL (`outboard run --gpu-model`), leave it out, or use another server.',
    result: 'CUDA_ERROR_INVALID_DEVICE',
  },
  OB_TOO_MUCH_MEMORY: {
    sentence:
      'the program asks for %s of device memory; the most that one session can get here is %s',
    remedy: 'Ask for less with OUTBOARD_MEMORY, or use a server with larger GPUs.',
    result: 'CUDA_ERROR_OUT_OF_MEMORY',
  },
  OB_SHARE: {
    sentence: 'the program asks for a share of %s of a GPU: %s',
    remedy:
      'Set OUTBOARD_SHARE to REQUEST or REQUEST:LIMIT, percent from 1 to 100, REQUEST <= LIMIT.',
    result: 'CUDA_ERROR_INVALID_VALUE',
  },
  OB_WINDOW: {
    sentence:
      'no range of addresses can be held for device memory by guest and server alike; tried %s',
    remedy:
      'Look for a library in the program that reserves very large ranges of addresses, such as a sanitizer.',
    result: 'CUDA_ERROR_OUT_OF_MEMORY',
  },
  OB_GRANULARITY: {
    sentence:
      "memory of this server's GPU comes in pieces of %s KiB, which the guest library is too old for",
    remedy: 'Use a guest library as new as the server.',
    result: 'CUDA_ERROR_SYSTEM_DRIVER_MISMATCH',
  },

  // A server that cannot serve now.
  OB_QUEUE_FULL: {
    sentence: '%s programs are waiting for a GPU already, which is the most that may wait',
    remedy: 'Try again later, or add servers.',
    result: 'CUDA_ERROR_DEVICE_UNAVAILABLE',
  },
  OB_QUEUE_TIMEOUT: {
    sentence: 'no GPU has become free for this program within %s seconds',
    remedy: 'Try again later, add servers, or allow more with `outboard serve --queue-timeout`.',
    result: 'CUDA_ERROR_DEVICE_UNAVAILABLE',
  },
  OB_KILLED: {
    sentence: 'an operator of the GPU server has ended this: %s',
    remedy: 'Ask the operator; the sentence says what they said.',
    result: 'CUDA_ERROR_DEVICE_UNAVAILABLE',
  },
  OB_KERNEL_SECONDS: {
    sentence:
      'a kernel has run for more than %s seconds, which is the most that the GPU server allows',
    remedy:
      'Divide the work into shorter kernels, or ask the operator for more: `outboard serve --max-kernel-seconds`, or `kernelSeconds` of the tenant.',
    result: 'CUDA_ERROR_DEVICE_UNAVAILABLE',
  },
  OB_IDLE_TIMEOUT: {
    sentence:
      'the program has used its GPU for nothing in %s seconds, and the GPU server gives it to others then',
    remedy:
      'Start the program again when there is work, or ask the operator for more: `outboard serve --idle-timeout`, or `idleSeconds` of the tenant.',
    result: 'CUDA_ERROR_DEVICE_UNAVAILABLE',
  },
  OB_RESUME: {
    sentence: 'the session of a program whose connection was cut is not there any more: %s',
    remedy:
      'Start the program again. For how long a session is kept is what `outboard serve --grace-disconnected` says.',
    result: 'CUDA_ERROR_DEVICE_UNAVAILABLE',
  },
  OB_DRAINING: {
    sentence: 'the server takes nobody new: an operator is emptying it',
    remedy: 'Name another server in OUTBOARD_SERVER, or wait until it is opened again.',
    result: 'CUDA_ERROR_DEVICE_UNAVAILABLE',
  },
  OB_TICKET: {
    sentence:
      'the GPU that this connection comes for is not kept for it: the ticket is unknown, or was used, or the %s seconds to use it are over',
    remedy:
      'Start the program again; if it comes to this again, see the log of the server, and allow more with `outboard serve --claim-timeout`.',
    result: 'CUDA_ERROR_DEVICE_UNAVAILABLE',
  },
  OB_SLOT_LOST: {
    sentence: '%s API server processes ended while they took over this program',
    remedy: "See the server's log for why they ended.",
    result: 'CUDA_ERROR_DEVICE_UNAVAILABLE',
  },
  OB_NO_SLOT: {
    sentence: 'no API server process can be started on the GPU machine: %s',
    remedy: "See the server's log, and `nvidia-smi` there for the state of the GPUs.",
    result: 'CUDA_ERROR_DEVICE_UNAVAILABLE',
  },
  OB_SHUTDOWN: {
    sentence: 'the server is being shut down',
    remedy: 'Start it again, or name another one in OUTBOARD_SERVER.',
    result: 'CUDA_ERROR_DEVICE_UNAVAILABLE',
  },
  OB_INTERNAL: {
    sentence: 'the server met an error of its own: %s',
    remedy: "Report it, with the server's log.",
    result: 'CUDA_ERROR_SYSTEM_NOT_READY',
  },

  // Who may come in.
  OB_TOKEN_MISSING: {
    sentence: 'this server serves its tenants only, and the program brings no token',
    remedy:
      'Set OUTBOARD_TOKEN_FILE to the file with the access token of `outboard tenant add`, or OUTBOARD_TOKEN to the token.',
    result: 'CUDA_ERROR_NOT_PERMITTED',
  },
  OB_TOKEN_UNKNOWN: {
    sentence: 'no tenant of this server has the token that the program brings',
    remedy:
      'See OUTBOARD_TOKEN and OUTBOARD_TOKEN_FILE; a new access token comes from `outboard tenant rotate` on the server.',
    result: 'CUDA_ERROR_NOT_PERMITTED',
  },
  OB_TOKEN_OPERATORS: {
    sentence:
      'the token that the program brings is that of the operator %s, and programs bring one of a tenant',
    remedy:
      'It is for commands, as `outboard status --token-file FILE`. Set OUTBOARD_TOKEN or OUTBOARD_TOKEN_FILE to the access token of `outboard tenant add NAME`, without --operator.',
    result: 'CUDA_ERROR_NOT_PERMITTED',
  },
  OB_TOKEN_EXPIRED: {
    sentence: 'the access token of tenant %s expired at %s',
    remedy: 'Get a new one, from `outboard tenant rotate` on the server.',
    result: 'CUDA_ERROR_NOT_PERMITTED',
  },
  OB_CERTIFICATE_MISSING: {
    sentence: 'this address asks for a client certificate, and none came',
    remedy: 'Start `outboard agent` with --cert and --key.',
    result: 'CUDA_ERROR_NOT_PERMITTED',
  },
  OB_CERTIFICATE_REFUSED: {
    sentence: 'the client certificate is not accepted: %s',
    remedy:
      'See --cert of `outboard agent`: its dates, and that an authority of the server signed it.',
    result: 'CUDA_ERROR_NOT_PERMITTED',
  },
  OB_CERTIFICATE_UNKNOWN: {
    sentence: 'no tenant of this server has the client certificate of %s',
    remedy: 'Add the name to `certificates:` of a tenant, or bring an access token.',
    result: 'CUDA_ERROR_NOT_PERMITTED',
  },
  OB_TENANT_EXPIRED: {
    sentence: 'tenant %s was admitted until %s',
    remedy: 'Ask the operator for a new date (`expires:` in the tenants file).',
    result: 'CUDA_ERROR_NOT_PERMITTED',
  },
  OB_TENANT_SESSIONS: {
    sentence:
      'tenant %s may have %s, one for each GPU of a program; %s run and wait already, and this would be %s more',
    remedy: 'Wait until one ends, or ask the operator for more.',
    result: 'CUDA_ERROR_DEVICE_UNAVAILABLE',
  },
  OB_TENANT_QUEUE: {
    sentence:
      '%s programs of tenant %s are waiting for a GPU already, which is the most of one tenant',
    remedy:
      'Wait until one has its GPU, or allow more with `outboard serve --queue-limit-per-tenant`.',
    result: 'CUDA_ERROR_DEVICE_UNAVAILABLE',
  },
  OB_TENANT_MEMORY: {
    sentence:
      'tenant %s may have %s of device memory; its sessions have %s, and this one asks for %s',
    remedy: 'Ask for less with OUTBOARD_MEMORY, wait until a session ends, or ask the operator.',
    result: 'CUDA_ERROR_OUT_OF_MEMORY',
  },
  OB_TENANT_SHARE: {
    sentence:
      'tenant %s may be promised %s percent of GPU time; its sessions have %s, and this one asks for %s',
    remedy: 'Ask for less with OUTBOARD_SHARE, wait until a session ends, or ask the operator.',
    result: 'CUDA_ERROR_DEVICE_UNAVAILABLE',
  },
  OB_QUOTA: {
    sentence: 'session %s cannot have a share of %s percent: %s',
    remedy:
      'Say REQUEST or REQUEST:LIMIT, the limit from 1 to 100 and not below the request; `outboard sessions` shows what the other sessions of its GPU are promised.',
  },
  OB_QUOTA_TENANT: {
    sentence:
      'session %s cannot be promised %s percent: tenant %s may be promised %s, and its other sessions are promised %s',
    remedy:
      'Promise less, raise what the tenant may have with `outboard tenant set NAME --share PERCENT`, or go beyond it for this session with --beyond-limit (`beyondLimit` in the API).',
  },
  OB_TENANT_GPUS: {
    sentence: 'tenant %s may use the GPUs %s, and this server has none of them',
    remedy: 'Use another server, or ask the operator for other GPUs.',
    result: 'CUDA_ERROR_INVALID_DEVICE',
  },
  OB_TENANT_CLASS: {
    sentence: 'tenant %s may not ask for the class %s; its class is %s',
    remedy: 'Leave OUTBOARD_CLASS out, or ask the operator.',
    result: 'CUDA_ERROR_NOT_PERMITTED',
  },
  OB_TENANTS_FILE: {
    sentence: '%s',
    remedy:
      'Correct the tenants file, or let this user read it (chown, chmod); `outboard tenant list --tenants FILE` says whether it is right.',
  },
  OB_TENANTS_WRITE: {
    sentence: 'the tenants file %s cannot be written: %s',
    remedy:
      'Name a file with --tenants in a folder that is there, as a user who may write to it; `mkdir -p` makes a folder.',
  },
  OB_TENANTS_MISSING: {
    sentence: 'there is no tenants file %s',
    remedy:
      'Name the file that is meant with --tenants, or make one: `outboard tenant add NAME --tenants FILE`.',
  },
  OB_TENANTS_NEEDED: {
    sentence:
      'others than this machine itself can reach %s, and without tenants all could use the GPUs',
    remedy:
      'Name a tenants file with --tenants (`outboard tenant add` makes one), or listen on 127.0.0.1 or a Unix socket.',
  },
  OB_OPERATORS_NEEDED: {
    sentence:
      'the HTTP API on %s would answer nobody: %s names tenants, and no operator with an access token',
    remedy:
      'Add one with `outboard tenant add NAME --operator act`, or name a Unix socket with --http unix:PATH, or say --http none.',
  },
  OB_TENANT_EXISTS: {
    sentence: '%s names %s already',
    remedy:
      'Change its limits with `outboard tenant set NAME`, get a new access token with `outboard tenant rotate NAME`, or choose another name.',
  },
  OB_TENANT_KIND: {
    sentence: '%s is %s, which has no %s',
    remedy: 'See `outboard tenant list` for which of them are tenants, and which operators.',
  },
  OB_TENANT_NOT_THERE: {
    sentence: '%s names no %s',
    remedy: 'See `outboard tenant list`.',
  },

  // TLS, and the local agent that speaks it for the guest.
  OB_TLS_FILES: {
    sentence: 'the certificate cannot be used: %s',
    remedy: 'Name PEM files that go together: certificate with its chain, its key, authorities.',
  },
  OB_AGENT_LISTEN: {
    sentence:
      'others than this machine itself could reach %s, and use the credentials of the agent',
    remedy: 'Listen on a Unix socket or a loopback address.',
  },
  OB_AGENT_TOKEN: {
    sentence: 'the access token cannot be read: %s',
    remedy: 'Name a file that holds the access token and nothing else with --token-file.',
    result: 'CUDA_ERROR_SYSTEM_NOT_READY',
  },
  OB_AGENT_UNREACHABLE: {
    sentence: 'the local agent cannot connect to the GPU server %s: %s',
    remedy:
      'See --server of `outboard agent`, the network, and whether `outboard serve` runs there.',
    result: 'CUDA_ERROR_SYSTEM_NOT_READY',
  },
  OB_AGENT_CERTIFICATE: {
    sentence: 'the certificate of the GPU server %s is not accepted: %s',
    remedy:
      'See --ca and --server-name of `outboard agent`, and the dates and names of the certificate.',
    result: 'CUDA_ERROR_SYSTEM_NOT_READY',
  },
  OB_AGENT_TLS: {
    sentence: 'the GPU server %s ended the connection before it answered: %s',
    remedy: "See whether --server is the server's --tls-listen, and the server's log.",
    result: 'CUDA_ERROR_SYSTEM_NOT_READY',
  },

  // A server that cannot start.
  OB_NOT_BUILT: {
    sentence: '%s does not exist',
    remedy: 'Run `npm run build` in the checkout, or name the build folder with --build.',
  },
  OB_PRELOAD_PATH: {
    sentence: '%s cannot be preloaded: the loader takes the space or colon in its path for an end',
    remedy: 'Move the checkout to a path without spaces and colons.',
  },
  OB_DRIVER_LIBRARY: {
    sentence: 'the driver library %s cannot be used: %s',
    remedy:
      'Name another one with --device, or use --device software. In a container: has it the GPU (`docker run --gpus all`, with the container toolkit of NVIDIA)?',
  },
  OB_LIBRARIES: {
    sentence: 'cuBLAS in %s cannot be served: %s',
    remedy:
      'Name the folder that has libcublas.so.13 and libcublasLt.so.13 of CUDA 13 with `outboard serve --libraries`, or say `none`.',
  },
  OB_SOFTWARE_DEVICE: {
    sentence: 'the software device cannot be used: %s',
    remedy:
      'Correct its settings in the environment of the server (SOFTWARE_DEVICE_...): software-device/README.md lists them.',
  },
  OB_DRIVER_TRAITS: {
    sentence: 'SOFTWARE_DEVICE_TRAITS is set to %s, and the driver library %s has no traits',
    remedy: 'Unset it, or serve the software device, with --device software.',
  },
  OB_DEVICE_COUNT: {
    sentence: '--gpus asks for %s GPUs, and %s has %s',
    remedy: 'Ask for fewer with --gpus, or see CUDA_VISIBLE_DEVICES.',
  },
  OB_DEVICE_HELD: {
    sentence: 'GPU %s is in exclusive-process mode, and another process has it',
    remedy:
      'End that process (`nvidia-smi` lists it), or set the mode back: `nvidia-smi -i GPU -c 0`. It is tried again from time to time.',
  },
  OB_DEVICE_PROHIBITED: {
    sentence: '%s is in prohibited mode, in which no process may use it',
    remedy: 'Set the mode back, `nvidia-smi -i GPU -c 0`, and start the server again.',
  },
  OB_DEVICE_GONE: {
    sentence: 'GPU %s is not there any more: %s',
    remedy:
      'See `nvidia-smi -L` for what there is, and `dmesg` for a GPU that is lost (Xid), which wants a reset or a restart of the machine. An instance that was made anew is another one: start the server again to serve it.',
  },
  OB_MIG_EMPTY: {
    sentence: '%s is in MIG mode and has no instances',
    remedy:
      'Make some (`nvidia-smi mig -cgi PROFILES -C`), or end MIG mode (`nvidia-smi -mig 0`), and start the server again.',
  },
  OB_MIG_UNKNOWN: {
    sentence: 'CUDA_VISIBLE_DEVICES names %s, and this machine has other instances: %s',
    remedy:
      'Name instances by the UUIDs (MIG-...) that `nvidia-smi -L` lists, or unset CUDA_VISIBLE_DEVICES to serve all.',
  },
  OB_DEVICE_OPEN: {
    sentence: 'GPU %s cannot be opened: %s',
    remedy:
      'See whether other programs use up its memory; serve fewer slots with --servers-per-gpu.',
  },
  OB_DEVICE_FULL: {
    sentence: 'GPU %s has too little free memory for one more process: %s',
    remedy:
      'See whether programs that are not of Outboard use up its memory (`nvidia-smi` lists them) and end them, or serve fewer slots with --servers-per-gpu. A server that is running tries again by itself.',
  },
  OB_GPU_LOST: {
    sentence: 'GPU %s has worked and does no longer: %s',
    remedy:
      'See `nvidia-smi` and the log of the kernel (`dmesg`, Xid) on the GPU machine: a GPU that is lost wants a reset or a restart of the machine. The server tries again by itself.',
  },
  OB_SLOT_START: {
    sentence: 'the process of slot %s cannot be started: %s',
    remedy:
      'Give the service of the server more descriptors, tasks or memory: LimitNOFILE, TasksMax, MemoryMax.',
  },
  OB_DESCRIPTORS: {
    sentence:
      'no file descriptors are left (%s): who connects is not heard, no process can be started',
    remedy:
      'Raise LimitNOFILE of the service (`ulimit -n` of a shell), or lower --hello-limit and --queue-limit.',
  },
  OB_PAGEABLE: {
    sentence:
      'kernels on GPU %s reach all memory of the process that they run for (%s), so that a tenant could take that process over',
    remedy:
      'Turn heterogeneous memory management off (`options nvidia-uvm uvm_disable_hmm=1` in /etc/modprobe.d, then load the module again), or accept it with `--pageable-access allow`, best with `--sandbox required --new-process tenant`.',
  },
  OB_SANDBOX: {
    sentence: 'the API server processes cannot be kept in a sandbox: %s',
    remedy:
      'Use a kernel with seccomp and Landlock (6.7 or later, `landlock` in the boot parameter `lsm=`), or do without: `--sandbox auto` or `off`.',
  },
  OB_SANDBOX_SECRET: {
    sentence: '%s lies in %s, which the API server processes can read in their sandbox',
    remedy:
      'Put it elsewhere, as into /run/outboard or /etc/outboard, or do without: `--sandbox off`.',
  },
  OB_DEVICE_SMALL: {
    sentence: 'GPU %s has %s free, too little for %s sessions at a time',
    remedy: 'Serve fewer slots with --servers-per-gpu.',
  },
  OB_CONFIG: {
    sentence: '%s',
    remedy: 'Correct the file; `outboard serve --check-config` says whether it is right.',
  },
  OB_MOVE: {
    sentence: 'session %s is not moved: %s',
    remedy:
      'It goes on where it is. `outboard sessions` shows what hinders it (HINDERED), docs/moving.md says what that means.',
  },
  OB_NO_SESSION: {
    sentence: 'there is no session %s',
    remedy: 'See `outboard sessions` for those that run and wait.',
  },
  OB_FUNCTIONS_FILE: {
    sentence: '%s',
    remedy:
      'Correct the functions file, or leave --functions and --admission out; docs/policies.md shows what can be said in it.',
  },
  OB_ADMISSION: {
    sentence: 'this server does not admit it: %s',
    remedy:
      "Its objective (slo) is shorter than what it takes alone (solo) in the server's functions file: ask the operator to correct that, or use a faster GPU.",
  },
  OB_NO_GPU: {
    sentence: 'there is no GPU %s, only 0 to %s',
    remedy: 'See `outboard status` for the GPUs and their numbers.',
  },
  OB_MAX_BLOCKS: {
    sentence: '--max-blocks has %s numbers, and %s GPUs are served',
    remedy:
      'Give one number for all GPUs, or one for each, in the order of `outboard status`; each MIG instance counts as a GPU.',
  },
  OB_NO_DECISIONS: {
    sentence: 'nothing is known of a session %s',
    remedy:
      'See `outboard sessions` for those that run and wait. Of those that have gone, the last 256 are remembered, and only since the server was started; `outboard logs` may have more.',
  },
  OB_LISTEN: {
    sentence: 'cannot listen on %s: %s',
    remedy:
      'See what listens there (`ss -ltnp`): it may be the same server, which runs already. Else choose another address with --listen or --tls-listen; port 0 takes any free port.',
  },
  OB_LISTEN_FOLDER: {
    sentence: 'cannot listen on %s: %s',
    remedy:
      'Make the folder of the socket (`mkdir -p`), with rights to write there for the user of this server, or name a socket in another one.',
  },

  // The HTTP API, and the commands that ask it.
  OB_API_PATH: {
    sentence: 'there is no %s %s here',
    remedy: 'See /v1/openapi.json for what there is.',
  },
  OB_API_PAGE: {
    sentence: 'the web page is not built here',
    remedy:
      'Build it with `npm run build` and start the server again. `outboard top` shows the same in a terminal, and /v1/openapi.json lists what the API has.',
  },
  OB_API_REQUEST: {
    sentence: 'the request is not understood: %s',
    remedy: 'See /v1/openapi.json for what it takes.',
  },
  OB_API_TOKEN: {
    sentence: "the request carries no operator's access token that is valid here",
    remedy:
      'Send `Authorization: Bearer TOKEN`; commands read it from the file that --token-file or OUTBOARD_OPERATOR_TOKEN_FILE names, and through a Unix socket PATH from PATH.token by themselves.',
  },
  OB_API_GONE: {
    sentence: 'the request came on a connection that was reset before it was answered',
    remedy: 'Keep the connection until the answer has come.',
  },
  OB_API_RIGHTS: {
    sentence: 'operator %s may look, and not act',
    remedy: 'Use the access token of an operator who may act.',
  },
  OB_API_PEER: {
    sentence: 'requests from %s are not answered: without operators only this machine itself is',
    remedy:
      'Configure operators with access tokens, or ask on the GPU machine, for example through ssh.',
  },
  OB_API_ORIGIN: {
    sentence: "the request comes from a web page of %s, which is not this server's own",
    remedy: 'Open the page that this server itself serves, at the address the request goes to.',
  },
  OB_API_HOST: {
    sentence: 'the request is for %s, which is no name of this machine itself',
    remedy: 'Use localhost or 127.0.0.1 in the address, or configure operators with access tokens.',
  },
  OB_API_BUSY: {
    sentence: '%s programs follow this server live already, which is the most',
    remedy: 'Close some, or ask /v1/state from time to time.',
  },
  OB_API_LISTEN: {
    sentence: 'the HTTP API cannot listen on %s: %s',
    remedy: 'Choose another address with --http; port 0 takes any free port.',
  },
  OB_API_REACH: {
    sentence: 'no outboard server answers at %s: %s',
    remedy: 'Start `outboard serve` there, or name its HTTP API with --api or OUTBOARD_API.',
  },
  OB_API_ANSWER: {
    sentence: 'what answers at %s is no outboard server of this kind: %s',
    remedy: 'Name the HTTP API of an `outboard serve` with --api, of the same release.',
  },
  OB_TOKEN_FILE: {
    sentence: "the operator's access token cannot be read from %s: %s",
    remedy:
      'Name a file that holds the access token and nothing else in OUTBOARD_OPERATOR_TOKEN_FILE.',
  },
  OB_NOT_READY: {
    sentence: 'no sessions are taken now: %s',
    remedy: 'See `outboard status` and the log of the server.',
  },
  OB_NO_TERMINAL: {
    sentence: 'a live screen needs a terminal on standard input and output',
    remedy: 'Use `outboard top --once` or `outboard status`, both also with --json.',
  },
  OB_TRACE_FILE: {
    sentence: '%s cannot be read as a trace: %s',
    remedy:
      'Give a file that `outboard run --trace` or `outboard serve --trace-dir` wrote, of the same release.',
  },
  OB_MODULE_CACHE: {
    sentence: 'modules cannot be kept in %s: %s',
    remedy:
      'Name a folder of the server alone with `outboard serve --module-cache`, or say `none`.',
  },
  OB_UPLOAD_CACHE: {
    sentence: 'uploads cannot be kept in %s: %s',
    remedy:
      'Name a folder of the server alone with `outboard serve --upload-cache`, or say `none`.',
  },
  OB_TRACE_DIR: {
    sentence: 'sessions cannot be recorded in %s: %s',
    remedy: 'Name a folder that the server may write to with `outboard serve --trace-dir`.',
  },
  OB_READY_FILE: {
    sentence: 'the ready file %s cannot be written: %s',
    remedy: 'Name a file in a folder that is there and can be written to with --ready-file.',
  },
  OB_TRACE_PAIR: {
    sentence: 'the two files do not belong together: %s',
    remedy:
      'Give the file of a guest and that of its session on the server; its number is in both logs.',
  },
  OB_TRACE_WRITE: {
    sentence: '%s cannot be written: %s',
    remedy: 'Name another file with --output.',
  },
} as const satisfies Record<string, Entry>;

export type ErrorCode = keyof typeof table;

const entries: Record<ErrorCode, Entry> = table;

export class OutboardError extends Error {
  override readonly name = 'OutboardError';
  readonly code: ErrorCode;
  readonly remedy: string;
  /** CUresult. */
  readonly result: number;

  constructor(code: ErrorCode, ...details: (string | number | bigint)[]) {
    const { sentence, remedy, result } = entries[code];
    super(format(sentence, ...details.map(String)));
    this.code = code;
    this.remedy = remedy;
    this.result = results[result ?? 'CUDA_ERROR_SYSTEM_NOT_READY'];
  }

  /** What the executor or an API server process says, in its own words; null: the code is not ours. */
  static relayed(code: string | null, sentence: string): OutboardError | null {
    if (!isErrorCode(code)) return null;
    const error = new OutboardError(code);
    error.message = sentence;
    return error;
  }

  get refusal(): Refusal {
    const { code, message: sentence, remedy, result } = this;
    return { code, sentence, remedy, result };
  }
}

function isErrorCode(code: string | null): code is ErrorCode {
  return code !== null && Object.hasOwn(table, code);
}

/** docs/errors.md. */
export function errorsPage(): string {
  const rows = Object.entries(entries).map(([code, { sentence, remedy, result }]) => {
    const cells = [`\`${code}\``, format(sentence.replaceAll('%s', '…')), remedy, result ?? '–'];
    return `| ${cells.join(' | ')} |`;
  });
  return `# Errors

Made from the table in \`monitor/src/base/errors.ts\`; after a change there: \`node build/js/monitor/src/base/errors-page.js\`.
The last column is what the program's CUDA call returns when the error ends its attach. Errors of a running session are
the CUDA driver's own.

| code | sentence | what to do | CUDA result |
|---|---|---|---|
${rows.join('\n')}
`;
}
