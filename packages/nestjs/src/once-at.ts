import { ConfigurationError } from '@onceward/core'
import { type KnownNames, refuseUnknownNames } from '@onceward/core/adapter'
import { mark, parameter } from './decorators.ts'
import type { HandlerOptions } from './options.ts'

/** The payload of a tick. */
export interface TickPayload {
  /** When it was scheduled, as `Date.toISOString` writes it. */
  readonly tick: string
}

type Options = HandlerOptions<TickPayload>

/** The options of a guard that are for ticks. */
export interface OnceAtOptions
  extends Pick<Options, 'consumer' | 'inbox' | 'leases' | 'deadlineMs' | 'claimWaitMs'>,
    Pick<Options, 'leaseMs' | 'dedupWindowMs' | 'afterCommit' | 'observe' | 'logger'> {}

const NAMES: KnownNames<OnceAtOptions> = {
  ...{ consumer: true, inbox: true, leases: true, leaseMs: true, deadlineMs: true },
  ...{ claimWaitMs: true, dedupWindowMs: true, afterCommit: true, observe: true, logger: true },
}

type Method = (...given: unknown[]) => unknown

/** A method with `@OnceAt`. */
interface TickingMethod {
  /** As the application wrote it. */
  readonly written: Method
  /** By the provider whose method it is. */
  readonly runs: WeakMap<object, () => Promise<unknown>>
}

const TICKING = 'onceward:ticking'

const tickingOf = (method: object): TickingMethod | undefined =>
  Reflect.getMetadata(TICKING, method) as TickingMethod | undefined

/**
 * Lets a method with `@Cron` of @nestjs/schedule run once for each tick among all processes of the application, in one
 * transaction with the row of the tick. The other processes wait: if the one that runs dies or fails, the next one runs it.
 * What the method sends with `@Send()` leaves with the commit.
 *
 * The tick is the scheduled time, so it does not matter how late a process is, or that clocks differ. Give `@Cron` a
 * `timeZone` if processes may have different ones. A tick at which no process is alive does not run: call the method when the
 * application has started, and the last tick runs unless it has run.
 *
 * @param options - `consumer` is the name of the job, and `deadlineMs` bounds a run.
 *
 * @example
 * ```ts
 * import { Cron } from '@nestjs/schedule'
 * import { OnceAt, Tick, Tx } from '@onceward/nestjs'
 * import type { EntityManager } from 'typeorm'
 *
 * class Reports {
 *   @Cron('0 3 * * *', { timeZone: 'UTC' })
 *   @OnceAt({ consumer: 'nightly-report', deadlineMs: 600_000 })
 *   async write(@Tick() tick: Date, @Tx() tx: EntityManager) {
 *     await tx.query('insert into reports (day) values ($1)', [tick])
 *   }
 * }
 * ```
 */
export function OnceAt(options: OnceAtOptions): MethodDecorator {
  refuseUnknownNames('@OnceAt', options, NAMES)
  return (target: object, key: string | symbol, descriptor: PropertyDescriptor): void => {
    const runs: TickingMethod['runs'] = new WeakMap()
    const written: Method = descriptor.value
    function ticking(this: object, ...given: unknown[]): unknown {
      const run = runs.get(this)
      if (run !== undefined) return run()
      // A unit test calls the method by itself. The scheduler gives it nothing.
      if (given.some((each) => each !== undefined)) return written.apply(this, given)
      throw new ConfigurationError(
        `${String(key)} has @OnceAt: it needs OncewardModule in the imports of the application, and a provider that is not request-scoped.`,
      )
    }
    copyMetadata(written, ticking)
    Reflect.defineMetadata(TICKING, { written, runs } satisfies TickingMethod, ticking)
    descriptor.value = ticking
    Object.defineProperty(target, key, descriptor)
    // The guard of a queue would find the key so, and a test delivers a tick.
    const eventKey = ({ payload }: { readonly payload: TickPayload }) => payload.tick
    mark({ broker: undefined, options: { ...options, eventKey }, isBatch: false })(
      ...[target, key, descriptor],
    )
  }
}

function copyMetadata(from: object, to: object): void {
  for (const key of Reflect.getMetadataKeys(from)) {
    Reflect.defineMetadata(key, Reflect.getMetadata(key, from), to)
  }
}

/** The method as the application wrote it, with the guards, pipes and interceptors of all its decorators. */
export function writtenMethod(method: object): object {
  const ticking = tickingOf(method)
  if (ticking === undefined) return method
  copyMetadata(method, ticking.written)
  return ticking.written
}

/** From now on calls of the method of this provider are those of `run`. */
export function replaceRun(method: object, provider: object, run: () => Promise<unknown>): void {
  tickingOf(method)?.runs.set(provider, run)
}

/** The scheduled time of the run, for methods with `@OnceAt`. */
export const Tick: () => ParameterDecorator = parameter('Tick', ({ event }) => {
  const { tick } = Object(event.payload) as Partial<TickPayload>
  if (tick !== undefined) return new Date(tick)
  throw new ConfigurationError('@Tick() is for methods with @OnceAt.')
})
