import type { Logger } from '../model/logger.ts'
import type { Setback } from './consumption.ts'

/** What keeps a loop from consuming. Logged when it begins or changes, not at each try. */
export class Setbacks {
  readonly #logger: Logger
  readonly #fields: Readonly<Record<string, unknown>>
  #current: Setback | undefined

  constructor(logger: Logger, fields: Readonly<Record<string, unknown>>) {
    this.#logger = logger
    this.#fields = fields
  }

  get current(): Setback | undefined {
    return this.#current
  }

  begin(setback: Setback): void {
    const { state, reason } = setback
    const isNew = this.#current?.state !== state || this.#current.reason !== reason
    this.#current = setback
    if (isNew) this.#logger.warn({ ...this.#fields, ...setback }, 'consuming nothing now')
  }

  /** Answers what is over; undefined when there was nothing. */
  end(): Setback | undefined {
    const before = this.#current
    this.#current = undefined
    if (before !== undefined) this.#logger.info(this.#fields, 'consuming again')
    return before
  }
}
