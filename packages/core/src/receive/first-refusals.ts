import type { Logger } from '../model/logger.ts'
import type { DeadLetterReason } from '../model/settlement.ts'
import type { RefusalLimit, Valve } from '../options/valve.ts'

/** Messages that are refused for one reason, after which a consumer that never had an event is paused. */
export const MOST_REFUSALS = 20

interface RefusingConsumer {
  readonly consumer: string
  readonly logger: Logger
  readonly valve: Pick<Valve, 'isOpen' | 'pause'>
}

export class FirstRefusals implements RefusalLimit {
  readonly #options: RefusingConsumer
  #reason: DeadLetterReason | undefined
  #count = 0
  /** Nothing is counted any more. */
  #isOver = false

  constructor(options: RefusingConsumer) {
    this.#options = options
  }

  async admit(
    reasons: readonly DeadLetterReason[],
    isProven: (() => Promise<boolean>) | undefined,
  ): Promise<number> {
    if (this.#isOver || isProven === undefined) return reasons.length
    for (const [index, reason] of reasons.entries()) {
      if (reason !== this.#reason) {
        this.#reason = reason
        this.#count = 0
      }
      if (this.#count < MOST_REFUSALS) {
        this.#count += 1
        continue
      }
      const isRight = await isProven().catch(() => true)
      // Another call has paused the consumer meanwhile.
      if (this.#isOver) return this.#options.valve.isOpen ? reasons.length : index
      this.#isOver = true
      if (isRight) return reasons.length
      this.#pause(reason)
      return index
    }
    return reasons.length
  }

  /** Once for each process: whoever resumes the consumer has decided. */
  #pause(reason: DeadLetterReason): void {
    const { consumer, logger, valve } = this.#options
    const why = `its first ${MOST_REFUSALS} messages were all refused (${reason}) and none was ever processed: check \`eventKey\`, \`decode\` and \`schema\`, then replay its dead letters`
    logger.error(
      { consumer, reason, refused: MOST_REFUSALS },
      'the first messages of this consumer were all refused for one reason, so it is paused: check `eventKey`, `decode` and `schema`, then resume it',
    )
    valve.pause({ source: 'guard', why })
  }
}
