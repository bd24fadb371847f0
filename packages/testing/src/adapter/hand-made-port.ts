import type { Delivery, EpochMs, Logger, Settlement } from '@onceward/core'
import {
  type Availability,
  attachPort,
  type Guard,
  type GuardPort,
  type GuardSettings,
  type Pause,
  type RunHooks,
} from '@onceward/core/adapter'
import { Clock } from './clock.ts'
import { deadLetterOf } from './dead-letter.ts'

export interface Logged {
  readonly level: keyof Logger
  readonly fields: Readonly<Record<string, unknown>>
  readonly text: string
}

/** One delivery that the guard was handed; the test settles it. */
export interface Handed {
  readonly delivery: Delivery
  settle(settlement: Settlement): void
}

const SETTINGS: GuardSettings = {
  consumer: 'billing',
  concurrency: 2,
  leaseMs: 30_000,
  deadlineMs: 60_000,
  dedupWindowMs: 15 * 86_400_000,
  maxAttempts: 5,
  retryMaxMs: 300_000,
  transaction: 'each',
  hasInbox: true,
  hasLeases: false,
  lanesAreUsers: false,
}

export interface HandMadeGuard {
  readonly guard: Guard
  readonly port: GuardPort
  readonly clock: Clock
  readonly logged: readonly Logged[]
  /** Every delivery so far, in order. */
  readonly handed: readonly Handed[]
  /** Sizes of the calls of `run`. */
  readonly batches: readonly number[]
  /** Of the calls of `run`. */
  readonly hooks: readonly RunHooks[]
  readonly publishers: ReadonlyMap<string, unknown>
  /** For the test to change. */
  readonly state: {
    availability: Availability
    open: () => Promise<void>
    publish: 'published' | 'already' | 'retry'
    /** Settles at once, without the test. */
    decide: ((delivery: Delivery) => Settlement) | undefined
  }
  /** Pauses the guard, as an operator does. Undefined: resumes it. */
  readonly pause: (pause: Pause | undefined) => void
}

/** A guard whose settlements the test decides, on a clock that the test moves. */
export function handMadeGuard(settings: Partial<GuardSettings> = {}): HandMadeGuard {
  const clock = new Clock()
  const logged: Logged[] = []
  const handed: Handed[] = []
  const batches: number[] = []
  const hooksSeen: RunHooks[] = []
  const publishers = new Map<string, unknown>()
  const state: HandMadeGuard['state'] = {
    ...{ availability: { kind: 'available' }, open: async () => undefined },
    ...{ publish: 'published', decide: undefined },
  }
  const closing = new AbortController()
  const valve = handMadeValve(clock)
  const port: GuardPort = {
    settings: { ...SETTINGS, ...settings },
    closing: closing.signal,
    runtime: clock.runtime,
    logger: loggerTo(logged),
    open: () => state.open(),
    claimPartition: () => Promise.reject(new Error('this port keeps no offsets')),
    availability: () => valve.availability() ?? state.availability,
    ...{ pause: valve.set, resume: () => valve.set(undefined), onPaused: valve.onPaused },
    outages: () => [],
    backlog: () => undefined,
    onDemand: () => async () => undefined,
    publishDeadLetter: async (_settlement, publish) => {
      if (state.publish === 'retry') return { kind: 'retry', cause: 'publishing-elsewhere' }
      if (state.publish === 'published')
        await publish(deadLetterOf(handed[0]?.delivery as Delivery))
      return { kind: state.publish }
    },
    registerPublisher: (source, publish) => {
      publishers.set(source.queue, publish)
      return () => publishers.delete(source.queue)
    },
    run: (deliveries, hooks) => {
      batches.push(deliveries.length)
      hooksSeen.push(hooks ?? {})
      return run(deliveries, hooks, { handed, decide: state.decide })
    },
  }
  const guard: Guard = {
    consumer: 'billing',
    process: () => Promise.reject(new Error('the port is what adapters use')),
    processBatch: () => Promise.reject(new Error('the port is what adapters use')),
    close: async () => closing.abort(),
  }
  attachPort(guard, port)
  const made = { guard, port, clock, logged, handed, batches }
  return { ...made, hooks: hooksSeen, publishers, state, pause: valve.set }
}

function loggerTo(logged: Logged[]): Logger {
  const log =
    (level: keyof Logger) =>
    (fields: object, text: string): void => {
      logged.push({ level, fields: fields as Logged['fields'], text })
    }
  return { debug: log('debug'), info: log('info'), warn: log('warn'), error: log('error') }
}

function handMadeValve({ runtime }: Clock) {
  const listeners = new Set<() => void>()
  let paused: Pause | undefined
  return {
    set: (pause: Pause | undefined): void => {
      paused = pause
      if (pause !== undefined) for (const listener of listeners) listener()
    },
    onPaused: (listener: () => void) => {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    availability: (): Availability | undefined => {
      if (paused === undefined) return undefined
      const retryAt = (runtime.now() + 1_000) as EpochMs
      return { kind: 'down', retryAt, error: new Error('the consumer is paused'), pause: paused }
    },
  }
}

function run(
  deliveries: readonly Delivery[],
  hooks: RunHooks | undefined,
  test: {
    readonly handed: Handed[]
    readonly decide: ((delivery: Delivery) => Settlement) | undefined
  },
): Promise<readonly Settlement[]> {
  const settling = deliveries.map(async (delivery, index): Promise<Settlement> => {
    const { promise, resolve } = Promise.withResolvers<Settlement>()
    test.handed.push({ delivery, settle: resolve })
    if (test.decide !== undefined) resolve(test.decide(delivery))
    const settlement = await promise
    hooks?.onSettlement?.(index, settlement)
    return settlement
  })
  return Promise.all(settling)
}
