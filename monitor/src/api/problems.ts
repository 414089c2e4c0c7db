// Errors as HTTP answers.
import type { FastifyReply } from 'fastify';
import type { ErrorCode, OutboardError } from '../base/errors.js';
import type { ProblemView } from './schemas.js';

/** What is not here is a conflict with the state of the server: 409. */
const statuses: Partial<Record<ErrorCode, number>> = {
  OB_API_REQUEST: 400,
  OB_SHARE: 400,
  OB_QUOTA: 400,
  OB_API_GONE: 400,
  OB_API_TOKEN: 401,
  OB_API_PEER: 403,
  OB_API_RIGHTS: 403,
  OB_API_ORIGIN: 403,
  OB_API_HOST: 403,
  OB_API_PATH: 404,
  OB_API_PAGE: 404,
  OB_NO_SESSION: 404,
  OB_NO_GPU: 404,
  OB_NO_DECISIONS: 404,
  OB_INTERNAL: 500,
  OB_API_BUSY: 503,
  OB_NOT_READY: 503,
};

export function statusOf({ code }: OutboardError): number {
  return statuses[code] ?? 409;
}

export function problemOf({ code, message, remedy }: OutboardError): ProblemView {
  return { code, message, remedy };
}

export function sendProblem(reply: FastifyReply, error: OutboardError, status = statusOf(error)) {
  if (status === 401) reply.header('www-authenticate', 'Bearer');
  return reply
    .code(status)
    .type('application/json')
    .send(JSON.stringify(problemOf(error)));
}
