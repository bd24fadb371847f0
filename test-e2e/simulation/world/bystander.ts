import { createGuard, type Delivery, type Guard } from '@onceward/core'
import { memoryLeases } from '@onceward/core/memory'
import type { Audit } from '../judge/audit.ts'
import type { Dice } from './dice.ts'
import type { Life } from './process.ts'
import type { Scheduler } from './scheduler.ts'

const quietly = (): void => undefined
/** Messages that a bystander gets in one life. */
const MESSAGES = 4
const LONGEST_PAUSE_MS = 9_000

export interface BystanderOptions {
  readonly life: Life
  readonly scheduler: Scheduler
  readonly audit: Audit
  readonly dice: Dice
  /** Runs of all lives that kill their process. */
  readonly poison: { left: number }
  readonly kill: () => void
}

/**
 * Another guard in the same process: messages without a key and lease-only events, some of which kill the process. None
 * of its runs may take place beside an event that runs alone.
 */
export class Bystander {
  readonly #options: BystanderOptions
  readonly #guard: Guard
  readonly #stop = new AbortController()
  readonly #loop: Promise<void>
  #wake: (() => void) | undefined

  constructor(options: BystanderOptions) {
    this.#options = options
    const { runtime } = options.life
    this.#guard = createGuard(
      {
        consumer: 'bystander',
        leases: memoryLeases(runtime),
        runtime,
        logger: { debug: quietly, info: quietly, warn: quietly, error: quietly },
        onTakeover: 'retry',
        onMissingKey: 'unguarded',
      },
      (_, { signal }) => this.#run(signal),
    )
    this.#loop = this.#deliver()
  }

  async drain(): Promise<void> {
    this.#stop.abort()
    this.#wake?.()
    await Promise.all([this.#loop, this.#guard.close()])
  }

  async #deliver(): Promise<void> {
    const { dice, life } = this.#options
    for (let n = 0; n < MESSAGES && !this.#stop.signal.aborted; n += 1) {
      await this.#pause(dice.below(LONGEST_PAUSE_MS))
      if (this.#stop.signal.aborted) return
      const headers: Record<string, string> =
        n % 2 === 0 ? {} : { 'idempotency-key': `${life.name}-${n}` }
      await this.#guard.process(toDelivery(headers))
    }
  }

  async #run(signal: AbortSignal): Promise<void> {
    const { audit, kill, life, poison, scheduler } = this.#options
    // Past its deadline a run holds nothing, although it still runs.
    const ended = audit.runs(life, 'bystander')
    signal.addEventListener('abort', ended)
    const isPoison = poison.left > 0
    if (isPoison) poison.left -= 1
    await new Promise<void>((resolve) => {
      scheduler.add(life, 'bystander', () => {
        if (isPoison) kill()
        resolve()
      })
    })
    ended()
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const cancel = this.#options.life.runtime.setTimer(resolve, ms)
      this.#wake = () => {
        cancel()
        resolve()
      }
    })
  }
}

function toDelivery(headers: Readonly<Record<string, string>>): Delivery {
  const source = { broker: 'simulated', queue: 'bystander' }
  return { body: new TextEncoder().encode('{}'), headers, source }
}
