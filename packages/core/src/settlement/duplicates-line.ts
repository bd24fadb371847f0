import { LINES, notice } from '../model/logger.ts'
import type { DuplicatesLog, ResolvedOptions } from '../options/resolved-options.ts'
import { hashKey } from './key-hash.ts'

/** Pause between two lines, ms. */
const LINE_MS = 60_000

/**
 * Duplicates are routine, and a line for each would hide everything else. The first one is told at once, and those that
 * follow as a number, with the next one after a minute or when the guard is closed. It needs no timer.
 */
export function duplicatesLog({
  consumer,
  logger,
  logKeys,
  runtime,
}: Pick<ResolvedOptions, 'consumer' | 'logger' | 'logKeys' | 'runtime'>): DuplicatesLog {
  let duplicates = 0
  let nextAtMs = Number.NEGATIVE_INFINITY
  let last: Parameters<DuplicatesLog['note']>[0] | undefined
  const write = (): void => {
    if (duplicates === 0) return
    const { eventId, key, secret } = last ?? {}
    const keyHash = key === undefined || secret === undefined ? undefined : hashKey(secret, key)
    const fields = { consumer, duplicates, eventId, keyHash }
    notice(logger, logKeys && key !== undefined ? { ...fields, key } : fields, LINES.duplicates)
    duplicates = 0
  }
  return {
    note: (event) => {
      duplicates += 1
      last = event
      const nowMs = runtime.monotonic()
      if (nowMs < nextAtMs) return
      nextAtMs = nowMs + LINE_MS
      write()
    },
    write,
  }
}
