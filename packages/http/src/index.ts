export type { HttpAnswer } from './answer.ts'
export { AnswerError } from './answer-error.ts'
export type { GivenHeaders } from './headers.ts'
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
export { HttpProblem, type HttpProblemOptions } from './problem.ts'
export type { HttpRequest } from './request.ts'
