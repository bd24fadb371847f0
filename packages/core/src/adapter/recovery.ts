import type { Logger } from '../model/logger.ts'
import type { Outage } from './consumption.ts'

/** What keeps a loop from consuming. Logged when it begins or changes, not at each try. */
export class Recovery {
  readonly #logger: Logger
  readonly #fields: Readonly<Record<string, unknown>>
  #current: Outage | undefined

  constructor(logger: Logger, fields: Readonly<Record<string, unknown>>) {
    this.#logger = logger
    this.#fields = fields
  }

  get current(): Outage | undefined {
    return this.#current
  }

  begin(setback: Outage): void {
    const { state, reason } = setback
    const isNew = this.#current?.state !== state || this.#current.reason !== reason
    this.#current = setback
    if (isNew) this.#logger.warn({ ...this.#fields, ...setback }, 'consuming nothing now')
  }

  /** Answers what is over; undefined when there was nothing. */
  end(): Outage | undefined {
    const before = this.#current
    this.#current = undefined
    if (before !== undefined) this.#logger.info(this.#fields, 'consuming again')
    return before
  }
}
