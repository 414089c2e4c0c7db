// The live connection: a View each second and log lines as they come. When it is lost it is tried
// again, later each time, and whoever looks can see that and when.
import type { LogLine, View } from '../../src/base/view.js';
import { api, liveSocket } from './api.js';
import { ApiError, type LiveMessage } from './messages.js';

export type ConnectionState =
  | { kind: 'connecting' }
  | { kind: 'live' }
  /** `at`: of the next attempt, by performance.now(). */
  | { kind: 'lost'; error: ApiError; at: number }
  | { kind: 'token'; error: ApiError };

interface Listener {
  state(state: ConnectionState): void;
  /** With the first View after each connect: what was missed. */
  /** `queued`: how many wait; the View may hold fewer. */
  view(view: View, queued: number): void;
  logs(lines: LogLine[], missed: number): void;
  /** Connected anew; `view` follows. */
  connected(): void;
}

const firstDelay = 500;
const longestDelay = 10_000;
/** The server sends a View each second. */
const silence = 6_000;

export class Connection {
  readonly #listener: Listener;
  #socket: WebSocket | null = null;
  #timer = 0;
  #attempts = 0;
  #state: ConnectionState = { kind: 'connecting' };
  /** Counts attempts, so that what belongs to an old one is ignored. */
  #generation = 0;

  constructor(listener: Listener) {
    this.#listener = listener;
    addEventListener('online', () => this.#retrySoon());
    document.addEventListener('visibilitychange', () => {
      if (!document.hidden) this.#retrySoon();
    });
  }

  get state(): ConnectionState {
    return this.#state;
  }

  /** Tries at once. */
  async connect() {
    const generation = this.#reset();
    this.#set({ kind: 'connecting' });
    try {
      // A WebSocket that is refused does not say why; a request does.
      const view = await api.state();
      if (generation !== this.#generation) return;
      this.#open(generation);
      this.#listener.view(view, view.queue.length);
    } catch (error) {
      if (generation === this.#generation) this.#failed(error as ApiError);
    }
  }

  #open(generation: number) {
    const socket = liveSocket();
    this.#socket = socket;
    const mine = (act: (event: MessageEvent) => void) => (event: Event) => {
      if (generation === this.#generation) act(event as MessageEvent);
    };
    this.#watch(generation);
    socket.addEventListener(
      'open',
      mine(() => {
        this.#attempts = 0;
        this.#set({ kind: 'live' });
        this.#listener.connected();
      }),
    );
    socket.addEventListener(
      'message',
      mine(({ data }) => {
        this.#watch(generation);
        const message = JSON.parse(data) as LiveMessage;
        if (message.type === 'view') this.#listener.view(message.view, message.queued);
        else if (message.type === 'logs') this.#listener.logs(message.lines, message.missed);
      }),
    );
    socket.addEventListener(
      'close',
      mine(() => this.#failed(lost('the server closed the connection'))),
    );
  }

  /** A connection over which nothing comes is none, whatever TCP believes. */
  #watch(generation: number) {
    clearTimeout(this.#timer);
    this.#timer = window.setTimeout(() => {
      if (generation === this.#generation) this.#failed(lost('nothing came for some seconds'));
    }, silence);
  }

  #failed(error: ApiError) {
    this.#reset();
    if (error.status === 401) return this.#set({ kind: 'token', error });
    const longest = Math.min(longestDelay, firstDelay * 2 ** this.#attempts++);
    // Not all pages at the same moment when a server comes back.
    const delay = longest * (0.75 + Math.random() / 4);
    this.#timer = window.setTimeout(() => this.connect(), delay);
    this.#set({ kind: 'lost', error, at: performance.now() + delay });
  }

  #retrySoon() {
    if (this.#state.kind === 'lost') this.connect();
  }

  #reset(): number {
    clearTimeout(this.#timer);
    this.#socket?.close();
    this.#socket = null;
    return ++this.#generation;
  }

  #set(state: ConnectionState) {
    this.#state = state;
    this.#listener.state(state);
  }
}

function lost(sentence: string) {
  return new ApiError(0, 'CONNECTION_LOST', sentence, 'It is tried again by itself.');
}
