import type { CheckedAnswer } from '../answer/answer.ts'
import type { HttpRequest } from './request.ts'

/** Whose key it is, and which. */
export interface Identity {
  readonly key: string
  readonly tenant?: string | undefined
  /** In place of the header, which says another one. */
  readonly contentType?: string | undefined
}

/** One request on its way through the guard. It travels as `raw` of its delivery. */
export interface Exchange extends Identity {
  readonly request: HttpRequest
  /** Path and query, as the guard compares them. */
  readonly target: string
  readonly contentType: string | undefined
  /** How the bytes of the request are compressed. */
  readonly contentEncoding?: string | undefined
  /** The answer was decided by an earlier run, whose writes were rolled back. The handler does not run again. */
  readonly decided?: CheckedAnswer | undefined
}
