import { track } from '../concurrency/timeout.ts'
import type { EventId, OwnerToken } from '../model/brands.ts'
import type { DeadLetter, DeadLetterRef, Publish } from '../model/dead-letter.ts'
import type { Delivery } from '../model/delivery.ts'
import { describeError, isError } from '../model/errors.ts'
import type {
  DeadLetterAnswer,
  GuardOutage,
  GuardPort,
  PublisherSource,
} from '../model/guard-port.ts'
import type { DueEvent, InboxSession } from '../model/inbox.ts'
import type { DeferCause, Settlement } from '../model/settlement.ts'
import type { ResolvedOptions } from '../options/resolved-options.ts'
import { messageHash, withRaw } from '../support/adapter-registry.ts'
import { itemMark } from './item-mark.ts'
import type { Outcome } from './outcome.ts'
import { type CallEnd, PlaceCalls, PUBLISH_BUDGET_MS } from './place-calls.ts'

/**
 * The right to publish lasts longer than the call, ms: a call that the broker answers in time is never overtaken by
 * another process. A crash delays the dead letter by as much.
 */
const RIGHT_MS = 15_000

interface PendingDeadLetter<Kind extends Outcome = Outcome> {
  readonly delivery: Delivery
  readonly key: string | undefined
  readonly eventId: EventId | undefined
  readonly outcome: Kind
}

type Dead = Extract<Outcome, { kind: 'dead' }>
type Session = Pick<InboxSession<unknown>, 'takePublishing' | 'endPublishing' | 'secret'>

/** Publishes dead letters to the broker's dead-letter place, when the adapter settles or when the poller finds them. */
export interface DeadLetterPublisher {
  /** Remembers the dead letter of a settlement until the settlement is garbage-collected. */
  note(settlement: Settlement, note: PendingDeadLetter): void
  publish(
    settlement: Settlement,
    publish: Publish,
    session: Session | undefined,
  ): Promise<DeadLetterAnswer>
  register: GuardPort['registerPublisher']
  /**
   * Publishes a dead letter that no settlement has. It is made from the given delivery, because the row of one that is
   * too large has no body. Undefined without a publisher for its source: it is left to another guard. Never rejects.
   */
  publishDue(due: DueEvent, session: Session): Promise<DeadLetterAnswer | undefined>
  /** Why dead letters cannot be published, by place. */
  outages(): readonly GuardOutage[]
  /** Resolves when no dead letter is being published. */
  idle(): Promise<unknown>
}

/** @param closing - Aborted when the guard closes: late confirmations are not recorded any more. */
export function createDeadLetterPublisher(
  options: ResolvedOptions,
  closing: AbortSignal = new AbortController().signal,
): DeadLetterPublisher {
  const notes = new WeakMap<Settlement, PendingDeadLetter>()
  /** Several consumers of one source may run; the publisher of the latest is used. */
  const publishers = new Set<{ readonly source: PublisherSource; readonly publish: Publish }>()
  const places = new WeakMap<Publish, PlaceCalls>()
  const running = new Set<Promise<unknown>>()
  const shared = { options, closing, running }
  const placeOf = (publish: Publish): PlaceCalls => {
    const place = places.get(publish) ?? new PlaceCalls(publish, options.runtime)
    places.set(publish, place)
    return place
  }

  return {
    note: (settlement, note) => {
      if (settlement.kind === 'dead-letter') notes.set(settlement, note)
    },
    publish: async (settlement, publish, session) => {
      const note = notes.get(settlement)
      if (note?.outcome.kind !== 'dead') return { kind: 'already' }
      const { delivery, outcome } = note
      const place = placeOf(publish)
      // The dead letter is made from the delivery, not from the row. A refused message has no
      // attempts in its row, but without a key it may have run.
      const toWhole: ToWhole = (letter) => {
        const attempts = Math.max(letter.attempts, outcome.attempt)
        return { ...letter, delivery, attempts }
      }
      const attempt =
        session !== undefined && outcome.ref !== undefined
          ? publishRecorded({ ...shared, place, session, toWhole }, outcome.ref)
          : publishUnrecorded(options, place, { ...note, outcome })
      return track(running, attempt)
    },
    register: (source, publish) => {
      const registered = { source, publish }
      publishers.add(registered)
      return () => void publishers.delete(registered)
    },
    publishDue: async ({ delivery, ref }, session) => {
      const fit = [...publishers].filter((each) => isFrom(delivery.source, each.source))
      const { namespace } = delivery.source
      const registered = fit.findLast(({ source }) => source.namespace === namespace) ?? fit.at(-1)
      if (registered === undefined) return undefined
      const place = placeOf(registered.publish)
      const whole = restored(options, { delivery, ref })
      const toWhole: ToWhole = (letter) => ({ ...letter, delivery: whole })
      return track(running, publishRecorded({ ...shared, place, session, toWhole }, ref))
    },
    outages: () => {
      const distinct = new Set([...publishers].map(({ publish }) => publish))
      const all = [...distinct].map((publish) => places.get(publish))
      return all
        .filter((place) => place?.isDown === true)
        .map((place) => ({ dependency: 'dead-letters', error: place?.error }))
    },
    idle: () => Promise.allSettled(running),
  }
}

/** The stored delivery with the client's message. */
const restored = (
  { logger }: ResolvedOptions,
  { delivery, ref }: Pick<DueEvent, 'delivery' | 'ref'>,
): Delivery =>
  withRaw(delivery, (error) =>
    logger.error(
      { err: describeError(error), id: ref.id },
      'a dead letter is published from its text columns, because its envelope cannot be read: update onceward',
    ),
  )

/** Whether the publisher of a source may publish dead letters of another delivery. */
const isFrom = ({ broker, queue, namespace }: PublisherSource, own: PublisherSource): boolean =>
  broker === own.broker &&
  queue === own.queue &&
  (namespace === undefined || own.namespace === undefined || namespace === own.namespace)

/** The dead letter with the delivery that is published. */
type ToWhole = (letter: DeadLetter) => DeadLetter

interface Publishing {
  readonly options: ResolvedOptions
  readonly place: PlaceCalls
  readonly session: Session
  readonly toWhole: ToWhole
  readonly closing: AbortSignal
  /** Closing waits for them. */
  readonly running: Set<Promise<unknown>>
}

/** Takes the right in a short transaction, calls the broker while nothing is locked, and records the confirmation. */
async function publishRecorded(
  publishing: Publishing,
  ref: DeadLetterRef,
): Promise<DeadLetterAnswer> {
  const { options, place, session, toWhole } = publishing
  const leave = await place.enter()
  if (leave === undefined) return notCalled(options, ref, place.error)
  try {
    const startedAtMs = options.runtime.monotonic()
    const right = await session.takePublishing(ref, RIGHT_MS)
    if (right.kind !== 'taken') return WITHOUT_RIGHT[right.kind]
    const { letter, token } = right
    // The right counts from before the call that took it. This process may have been frozen since.
    const leftMs = RIGHT_MS - (options.runtime.monotonic() - startedAtMs)
    if (leftMs < PUBLISH_BUDGET_MS) return again('publishing-elsewhere')
    const whole = toWhole(letter)
    const { consumer } = options
    const mark = itemMark({ consumer, secret: session.secret }, whole.delivery)
    const call = await place.call({ ...whole, itemMark: mark })
    return await recordAnswer(publishing, call, { ref, token })
  } catch (error) {
    return notPublished(options, ref, { cause: 'store-error', error })
  } finally {
    leave()
  }
}

const again = (cause: DeferCause): DeadLetterAnswer => ({ kind: 'retry', cause })

const WITHOUT_RIGHT = {
  already: { kind: 'already' },
  held: again('publishing-elsewhere'),
  gone: again('running-elsewhere'),
} as const satisfies Record<string, DeadLetterAnswer>

interface Right {
  readonly ref: DeadLetterRef
  readonly token: OwnerToken
}

async function recordAnswer(
  { closing, options, running, session }: Publishing,
  call: CallEnd,
  { ref, token }: Right,
): Promise<DeadLetterAnswer> {
  switch (call.kind) {
    case 'confirmed': {
      const mark = await session.endPublishing(ref, token, 'published')
      // Somebody else decides about the dead letter now. The next delivery finds out.
      return mark === 'recorded' ? { kind: 'published' } : again('publishing-elsewhere')
    }
    case 'failed':
      await session.endPublishing(ref, token, 'failed')
      return placeDown(options, ref, call.error)
    case 'not-called':
      await session.endPublishing(ref, token, 'failed')
      return notCalled(options, ref, call.error)
    case 'late': {
      // The right is kept until its time is over, because the broker may still take the dead letter.
      const late = call.answer.then(async (isConfirmed) => {
        const end = isConfirmed ? 'published' : 'failed'
        if (!closing.aborted) await track(running, session.endPublishing(ref, token, end))
      })
      late.catch((error: unknown) => {
        const fields = { consumer: options.consumer, eventId: ref.id, err: describeError(error) }
        options.logger.debug(fields, 'the late end of publishing a dead letter was not recorded')
      })
      return placeDown(options, ref, call.error)
    }
    default:
      return call satisfies never
  }
}

/** Without an inbox the broker's dead-letter place is the only record. Copies of one message may publish it each. */
async function publishUnrecorded(
  options: ResolvedOptions,
  place: PlaceCalls,
  note: PendingDeadLetter<Dead>,
): Promise<DeadLetterAnswer> {
  const letter = unrecorded(options, note)
  const leave = await place.enter()
  if (leave === undefined) return notCalled(options, letter.ref, place.error)
  try {
    const call = await place.call(letter)
    if (call.kind === 'confirmed') return { kind: 'published' }
    const answer = call.kind === 'not-called' ? notCalled : placeDown
    return answer(options, letter.ref, call.error)
  } finally {
    leave()
  }
}

function placeDown(options: ResolvedOptions, ref: DeadLetterRef, error: Error): DeadLetterAnswer {
  return notPublished(options, ref, { cause: 'dead-letter-place-down', error })
}

/** The failed calls are logged as errors. While the place is down, most dead letters are not even tried. */
function notCalled(
  { consumer, logger }: ResolvedOptions,
  { id }: DeadLetterRef,
  error: Error,
): DeadLetterAnswer {
  const cause = 'dead-letter-place-down'
  const fields = { consumer, eventId: id, cause, err: describeError(error) }
  logger.debug(fields, 'a dead letter waits for the dead-letter place')
  return again(cause)
}

function notPublished(
  { consumer, logger }: ResolvedOptions,
  { id }: DeadLetterRef,
  { cause, error: thrown }: { readonly cause: DeferCause; readonly error: unknown },
): DeadLetterAnswer {
  const error = isError(thrown) ? thrown : new Error(describeError(thrown).message)
  logger.error(
    { consumer, eventId: id, cause, err: describeError(error) },
    'a dead letter could not be published and is retried: check the dead-letter queue',
  )
  return { kind: 'retry', cause, error }
}

function unrecorded(options: ResolvedOptions, note: PendingDeadLetter<Dead>): DeadLetter {
  const { consumer, runtime } = options
  const { delivery, eventId, key, outcome } = note
  const now = new Date(runtime.now())
  const error = outcome.error === undefined ? undefined : describeError(outcome.error).message
  // A conflict is another message than the event whose key it bears.
  const ref: DeadLetterRef =
    eventId === undefined || outcome.reason === 'fingerprint-mismatch'
      ? { kind: 'refused', id: messageHash(consumer, delivery) }
      : { kind: 'event', id: eventId }
  return {
    ref: outcome.ref ?? ref,
    consumer,
    key,
    reason: outcome.reason,
    error,
    attempts: outcome.attempt,
    firstFailedAt: now,
    lastFailedAt: now,
    delivery,
  }
}
