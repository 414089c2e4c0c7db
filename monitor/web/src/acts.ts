// What an operator may do, each asked for in a dialog.
import type { QueueView, SessionView, View } from '../../src/base/view.js';
import { api, token } from './api.js';
import { actForm, confirmAct, errorText, field, openDialog } from './dialog.js';
import { el } from './dom.js';
import { plural } from './format.js';
import type { ApiError } from './messages.js';
import { tell, tellError } from './notices.js';
import { sessionName } from './sessions.js';

const usualReason = 'ended by the operator';

export function askEnd(session: SessionView) {
  const reason = reasonField();
  const title = `End session ${session.id}?`;
  const whose = session.tenant ? ` of tenant ${session.tenant}` : '';
  confirmAct(
    title,
    `${sessionName(session)}${whose} on GPU ${session.gpu}. Its memory there is given up, and its program's next CUDA call fails.`,
    {
      label: 'End session',
      run: () => api.kill(session.id, reason.value.trim() || usualReason),
      done: () => tell(`Session ${session.id} is being ended.`),
    },
    [field('Reason, which the program is told', reason)],
  );
}

export function askRemove(waiting: QueueView) {
  const reason = reasonField();
  confirmAct(
    `Remove #${waiting.id} from the queue?`,
    `${sessionName(waiting)} has waited as number ${waiting.position}. Its program's CUDA call fails.`,
    {
      label: 'Remove',
      run: () => api.kill(waiting.id, reason.value.trim() || usualReason),
      done: () => tell(`#${waiting.id} is taken out of the queue.`),
    },
    [field('Reason, which the program is told', reason)],
  );
}

function reasonField() {
  return el('input', { type: 'text', value: usualReason, maxlength: 200, autocomplete: 'off' });
}

/** `queued`: how many wait. */
export function askDrain({ sessions }: View, queued: number) {
  const waiting = queued === 0 ? '' : `${plural(queued, 'program')} that wait are refused. `;
  const running =
    sessions.length === 0
      ? 'No session runs now.'
      : `${plural(sessions.length, 'session')} go on to their end.`;
  confirmAct('Drain this server?', `Nobody new is taken from now on. ${waiting}${running}`, {
    label: 'Drain',
    run: api.drain,
    done: () => tell('Draining: nobody new is taken.'),
  });
}

/** Takes nothing from anybody, so it is not asked twice. */
export async function resume() {
  try {
    await api.resume();
    tell('Programs are taken again.');
  } catch (error) {
    tellError(error as ApiError);
  }
}

/** `connect` is tried with the new token, and fails in words. */
export function askToken(why: ApiError, connect: () => void) {
  const input = el('input', { type: 'password', autocomplete: 'off', autofocus: true });
  const { form } = actForm(
    {
      label: 'Use token',
      run: async () => {
        token.set(input.value.trim());
        try {
          await api.state();
        } catch (error) {
          token.forget();
          input.select();
          throw error;
        }
      },
      done: connect,
    },
    [
      el('p', {}, ...(token.get() === null ? [] : errorText(why))),
      el('p', {}, 'This server asks operators for a token. It is kept in this tab only.'),
      field('Token', input),
    ],
  );
  return openDialog('Who are you?', [form]);
}
