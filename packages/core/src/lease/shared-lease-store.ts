import { describeError, StoreUnavailableError } from '../model/errors.ts'
import type { Held, HeldAnswer, LeaseSession, WriteMarks } from '../model/lease-store.ts'
import type { Logger } from '../model/logger.ts'
import type { Runtime } from '../model/runtime.ts'
import { LateEnds } from './late-ends.ts'

/** A lease store that knows how its last call ended. */
export interface WatchedLeases extends LeaseSession {
  /** The error of the last call; undefined if it was answered. */
  outage(): { readonly error: unknown } | undefined
  /** Sends ends of claims that the store did not answer once more. Never rejects. */
  close(): Promise<void>
}

export interface Sharing {
  readonly logger: Logger
  readonly runtime: Runtime
  /** A claim without an answer is released, because the store may have granted it. */
  readonly releasesUnanswered: boolean
}

/**
 * The lease store, shared by all events of a guard. Calls that end claims at the same moment are combined into one
 * round trip, without waiting for more calls. Ends that the store does not answer are sent again, and before the next
 * claim of their events. An outage is logged once when it begins and once when it ends.
 */
export function sharedLeaseStore(
  session: LeaseSession,
  { logger, releasesUnanswered, runtime }: Sharing,
): WatchedLeases {
  const { watch, outage } = createWatch(logger)
  const late = new LateEnds(runtime)
  const ending = <One extends Held>(tell: Tell<One>): End<One> => {
    const tellNow = gather<One>(async (all, rememberMs) => {
      const answers = await watch(tell(all, rememberMs))
      late.told(all)
      return answers
    })
    return async (some, rememberMs) => {
      try {
        return await tellNow(some, rememberMs)
      } catch (error) {
        if (error instanceof StoreUnavailableError) {
          for (const one of some) late.add(one, () => tellNow([one], rememberMs))
        }
        throw error
      }
    }
  }
  const release = ending<Held>((held) => session.release(held))
  const fail = ending<Held & { readonly dueAtMs: number }>((failed) => {
    const nowMs = runtime.monotonic()
    const waits = failed.map(({ id, ownerToken, dueAtMs }) => {
      return { id, ownerToken, delayMs: Math.max(0, Math.ceil(dueAtMs - nowMs)) }
    })
    return session.fail(waits)
  })
  return {
    outage,
    ...(session.marks === undefined ? {} : { marks: watchedMarks(session, watch) }),
    close: () => late.close(),
    claim: async (claims) => {
      const telling = late.tell(claims)
      if (telling !== undefined) await telling
      try {
        return await watch(session.claim(claims))
      } catch (error) {
        for (const { id, ownerToken } of releasesUnanswered ? claims : []) {
          const held = { id, ownerToken }
          late.add(held, () => release([held]))
        }
        throw error
      }
    },
    renew: (held, leaseMs) => watch(session.renew(held, leaseMs)),
    complete: ending((done, rememberMs) => session.complete(done, rememberMs)),
    fail: (failed) => {
      const nowMs = runtime.monotonic()
      return fail(failed.map(({ delayMs, ...held }) => ({ ...held, dueAtMs: nowMs + delayMs })))
    },
    release,
    bury: ending((dead, rememberMs) => session.bury(dead, rememberMs)),
  }
}

interface Watch extends Pick<WatchedLeases, 'outage'> {
  watch<Answer>(answer: Promise<Answer>): Promise<Answer>
}

function createWatch(logger: Logger): Watch {
  let outage: { readonly error: unknown } | undefined
  return {
    outage: () => outage,
    watch: async (answer) => {
      try {
        const answered = await answer
        if (outage !== undefined) logger.info({}, 'the lease store answers again')
        outage = undefined
        return answered
      } catch (error) {
        if (outage === undefined) {
          logger.warn({ err: describeError(error) }, 'the lease store does not answer')
        }
        outage = { error }
        throw error
      }
    },
  }
}

/** What a history answers is always the same function, by which marks are written together. */
function watchedMarks(session: LeaseSession, watch: Watch['watch']): () => WriteMarks | undefined {
  const watched = new WeakMap<WriteMarks, WriteMarks>()
  return () => {
    const write = session.marks?.()
    if (write === undefined) return undefined
    const known = watched.get(write)
    if (known !== undefined) return known
    const made: WriteMarks = (done, rememberMs) => watch(write(done, rememberMs))
    watched.set(write, made)
    return made
  }
}

type Tell<One> = (all: readonly One[], rememberMs: number) => Promise<readonly HeldAnswer[]>
type End<One> = (some: readonly One[], rememberMs?: number) => Promise<readonly HeldAnswer[]>

interface Gathering<One> {
  readonly all: One[]
  readonly told: Promise<readonly HeldAnswer[]>
}

function gather<One>(tell: Tell<One>): End<One> {
  const open = new Map<number, Gathering<One>>()
  const begin = (rememberMs: number): Gathering<One> => {
    const all: One[] = []
    const told = Promise.resolve().then(() => {
      open.delete(rememberMs)
      return tell(all, rememberMs)
    })
    const gathering = { all, told }
    open.set(rememberMs, gathering)
    return gathering
  }
  return async (some, rememberMs = 0) => {
    const { all, told } = open.get(rememberMs) ?? begin(rememberMs)
    const from = all.length
    all.push(...some)
    return (await told).slice(from, from + some.length)
  }
}
