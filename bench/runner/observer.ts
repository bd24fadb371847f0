import type { Logger, OutcomeRecord } from '@onceward/core'
import { heapBytes } from '@onceward/testing/heap'
import type { Stopwatch } from './stopwatch.ts'

const nothing = (): void => undefined

/** Without this, each message that a drain gives back would print a warning. Debug is off, as it is in pino by default. */
export const QUIET: Logger & { readonly isLevelEnabled: (level: string) => boolean } = {
  isLevelEnabled: (level) => level !== 'debug',
  debug: nothing,
  info: nothing,
  warn: nothing,
  error: (...args) => console.error(...args),
}

export type Observer = (record: OutcomeRecord) => void

/**
 * Counts deliveries that were settled as expected. Another outcome fails the round, which then measured something
 * else. Deferrals and duplicates are accepted and not counted, because messages may be redelivered.
 */
export function countingObserver(by: 'processed' | 'duplicate', watch: Stopwatch): Observer {
  return ({ settlement }) => {
    const how = settlement.kind === 'ack' ? settlement.by : settlement.kind
    if (how === by) watch.count()
    else if (how !== 'defer' && how !== 'duplicate') {
      watch.fail(new Error(`expected ${by}, got ${JSON.stringify(settlement)}`))
    }
  }
}

/** Measures the heap when half of the events are settled, and when all are. */
export function weighing(
  events: number,
  observe: Observer,
): { readonly observe: Observer; growth(): Readonly<Record<string, number>> } {
  const heaps: number[] = []
  let seen = 0
  return {
    observe: (record) => {
      seen += 1
      if (seen === events / 2 || seen === events) heaps.push(heapBytes())
      observe(record)
    },
    growth: () => {
      const [half = Number.NaN, all = Number.NaN] = heaps
      return {
        'heap MiB': half / 2 ** 20,
        'heap growth, bytes per event': (all - half) / (events / 2),
      }
    },
  }
}
