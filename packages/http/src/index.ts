export type { HttpAnswer } from './answer/answer.ts'
export { AnswerError } from './answer/answer-error.ts'
export type { GivenHeaders } from './answer/headers.ts'
export { HttpProblem, type HttpProblemOptions } from './answer/problem.ts'
export { createHttpGuard, type HttpGuard, type HttpHealth } from './http-guard.ts'
export {
  type Answered,
  type CommonHttpOptions,
  DEFAULTS,
  type HttpEvent,
  type HttpGuardOptions,
  type HttpHandler,
  type HttpTakeover,
  type InboxHttpOptions,
  type LeaseHttpOptions,
} from './options.ts'
export type { HttpRequest } from './request/request.ts'
