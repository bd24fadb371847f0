// Parts of request edges: callers that wait for the outcome of their own delivery. Not for users.
import '../support/node-version.ts'

export {
  afterAnswer,
  andThen,
  isPromise,
  isThenable,
  type MaybeAsync,
} from '../concurrency/maybe-async.ts'
export { createCallerGuard } from '../guard/guard.ts'
export { RESULT_LIMIT_BYTES } from '../handler/handler-result.ts'
export { type Decoded, decodeJson } from '../messages/decode.ts'
export { named } from '../messages/envelope-traits.ts'
export { toEventKey } from '../messages/event-key.ts'
export { describeError } from '../model/errors.ts'
export type { CallerRetries } from '../options/resolved-options.ts'
export { aFunction, brokenRules, standardSchema } from '../options/rules.ts'
