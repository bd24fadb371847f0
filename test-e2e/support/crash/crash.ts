import type { CrashPoint, Word, WorkerConfig } from '../workers/protocol.ts'
import { reached } from '../workers/worker-channel.ts'

/** The process kills itself with SIGKILL at one point, for one event. */
export interface Crashes {
  /** The order whose processing kills this worker, or none. */
  readonly armed: readonly string[]
  /** Kills the process here, after the test has said `go`, if this is the crash point of one of these orders. */
  at(point: CrashPoint | undefined, ids: readonly string[]): Promise<void>
  isAt(point: CrashPoint | undefined, ids: readonly string[]): boolean
  /** The client is about to write this word for these orders. */
  expect(word: Word | undefined, ids: readonly string[]): void
  isExpected(word: Word): boolean
}

export function crashes({ crash }: Pick<WorkerConfig, 'crash'>): Crashes {
  const isAt: Crashes['isAt'] = (point, ids) =>
    crash !== undefined && crash.at === point && ids.includes(crash.id)
  let expected: Word | undefined
  return {
    armed: crash === undefined ? [] : [crash.id],
    isAt,
    at: async (point, ids) => {
      if (!isAt(point, ids)) return
      await reached(String(point))
      return die()
    },
    expect: (word, ids) => {
      if (isAt(word, ids)) expected = word
    },
    isExpected: (word) => word === expected,
  }
}

/** No signal handler, no `finally` and no flush runs: what the kernel does not have yet is lost. */
export function die(): Promise<never> {
  process.kill(process.pid, 'SIGKILL')
  return new Promise(() => undefined)
}
