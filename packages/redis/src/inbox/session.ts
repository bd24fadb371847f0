import { StoreUnavailableError } from '@onceward/core'
import {
  type AttemptAnswer,
  type AttemptCommand,
  attemptStep,
  isBeingPublished,
  isConflict,
  messageHash,
} from '@onceward/core/adapter'
import type {
  BeginRequest,
  Begun,
  Burial,
  ConsumerRegistration,
  CountAnswer,
  CountedEvent,
  DeadLetterRef,
  DueEvent,
  EventId,
  Failure,
  IdentifiedEvent,
  InboxSession,
  Known,
  OwnerToken,
  ParkAnswer,
  PublishingEnd,
  PublishingRight,
  Refusal,
  Release,
  SweepStep,
  VerdictAnswer,
} from '@onceward/core/ports'
import type { InboxCalls } from './calls.ts'
import type { RedisTransaction } from './handle.ts'
import { type InboxKeys, nameOf, nameOfEvent, refOf } from './keys.ts'
import {
  errorText,
  headOfRun,
  knownOf,
  letterOf,
  type Reading,
  type Refused,
  readValue,
  storedDelivery,
  type TroubleDetails,
} from './record.ts'
import { type Decision, Records } from './records.ts'
import { doneOnly, dueEvent, firstDetails, isLetter, isTrouble, toClaims } from './states.ts'
import {
  CommitConflict,
  LOCK_MS,
  RedisInboxTransaction,
  type RowClaim,
  type TransactionParts,
} from './transaction.ts'

/** Between two looks at a lock that another transaction holds, ms. */
const LOOK_MS = 15
/** Looked at beyond those that are asked for, because others may have locked the first ones. */
const MORE_DUE = 50

const PARKED: ParkAnswer = { kind: 'parked' }
const NO_LOCK = '-'

export interface SessionParts {
  readonly calls: InboxCalls
  readonly keys: InboxKeys
  readonly hasJson: boolean
  readonly registration: ConsumerRegistration
  readonly secret: Uint8Array
}

interface StepDetails {
  readonly failed?: Partial<Pick<TroubleDetails, 'error' | 'lastFailedAtMs'>>
  /** Whose lock may be on an event that nobody runs. */
  readonly lockedBy?: string
}

/** An inbox in Redis as one guard uses it. */
export class RedisInboxSession implements InboxSession<RedisTransaction> {
  readonly concurrency: number
  readonly keepsSealed = 'troubled'
  readonly secret: Uint8Array
  readonly #parts: SessionParts
  readonly #records: Records

  constructor(parts: SessionParts) {
    const { calls, keys, registration, secret } = parts
    this.concurrency = registration.concurrency
    this.secret = secret
    this.#parts = parts
    this.#records = new Records(calls.call, keys, registration)
  }

  async identity(): Promise<string> {
    const { calls, keys } = this.#parts
    const answer = await calls.call({ script: 'identity', keys: [keys.settings], args: [] })
    return answer.join(':')
  }

  async begin(request: BeginRequest): Promise<Begun<RedisTransaction>> {
    const { calls, keys, registration } = this.#parts
    const claims = toClaims(request.claim, keys)
    const token = registration.runtime.uuid() as OwnerToken
    if (claims.length === 0) return this.#open({ claims, others: [] }, token, request)
    const call = {
      script: 'begin',
      keys: claims.flatMap(({ pair }) => pair),
      args: [
        ...[String(LOCK_MS), token],
        ...claims.map(({ counted }) => (counted === undefined ? '' : headOfRun(counted))),
      ],
    } as const
    const begun = await this.#waiting(request.waitMs, async () => {
      const answer = await calls.call(call)
      return answer[0] === 'held' ? undefined : answer
    })
    if (begun === undefined) return { kind: 'held' }
    const [kind, now, answers] = begun
    const list = Array.isArray(answers) ? answers : []
    if (kind === 'none') {
      if (request.claim.kind !== 'fresh') return { kind: 'none' }
      const known = list.map((value) => knownOf(readValue([value, 0]).stored, Number(now)))
      return { kind: 'none', done: known.map(doneOnly) }
    }
    const isClaimed = (_: RowClaim, index: number): boolean => Number(list[index]) === 1
    const others = claims.filter((claim, index) => !isClaimed(claim, index))
    return this.#open({ claims: claims.filter(isClaimed), others }, token, request)
  }

  #open(
    rows: Pick<TransactionParts, 'claims' | 'others'>,
    token: OwnerToken,
    { budgetMs }: BeginRequest,
  ): Begun<RedisTransaction> {
    const { calls, hasJson, keys, registration } = this.#parts
    const { consumer, dedupWindowMs, runtime } = registration
    const transaction = new RedisInboxTransaction({
      ...{ calls, keys, hasJson, runtime, consumer, dedupWindowMs, token, budgetMs },
      ...rows,
      fail: (failures) => this.#fail(failures, token),
    })
    return { kind: 'open', transaction, claimed: new Set(rows.claims.map(({ id }) => id)) }
  }

  async classify(events: readonly IdentifiedEvent[]): Promise<readonly Known[]> {
    const { all, nowMs } = await this.#records.read(events.map(({ id }) => nameOfEvent(id)))
    return all.map(({ stored }) => knownOf(stored, nowMs))
  }

  async suspect(
    events: readonly IdentifiedEvent[],
    waitMs: number,
  ): Promise<
    | { readonly kind: 'answered'; readonly counted: readonly (CountedEvent | undefined)[] }
    | { readonly kind: 'held' }
  > {
    const names = events.map(({ id }) => nameOfEvent(id))
    const counted = await this.#waiting(waitMs, async () => {
      const { all, nowMs } = await this.#records.read(names)
      if (all.some(({ isChanging }) => isChanging)) return undefined
      const steps = events.map((event, index) => {
        const reading = all[index] as Reading
        // One event twice in a call: the second has a row.
        if (names.indexOf(names[index] as string) !== index) return undefined
        return this.#step(event, reading, { kind: 'suspect', token: this.#newToken() }, nowMs)
      })
      const entries = names.map((name, index) => ({ name, head: '', change: steps[index]?.change }))
      const swapped = await this.#records.swap(entries, true)
      if (swapped.some((each) => each !== 'swapped')) return undefined
      return events.map((event, index) => {
        const answer = steps[index]?.answer
        if (answer?.kind !== 'counted') return undefined
        return { event, token: answer.token, attempt: answer.attempt }
      })
    })
    return counted === undefined ? { kind: 'held' } : { kind: 'answered', counted }
  }

  count(
    events: readonly IdentifiedEvent[],
    run: 'together' | 'alone',
  ): Promise<readonly CountAnswer[]> {
    const { registration } = this.#parts
    return this.#change(events, (reading, event, nowMs): Decision<CountAnswer> => {
      const held = { kind: 'held' } as const
      if (reading.isLocked && isTrouble(reading.stored)) return { answer: held }
      const { maxAttempts = registration.maxAttempts } = event
      const command = { kind: 'count', token: this.#newToken(), run, maxAttempts } as const
      return { ...this.#step(event, reading, command, nowMs), ifLocked: held }
    })
  }

  async park(events: readonly IdentifiedEvent[], waitMs: number): Promise<readonly ParkAnswer[]> {
    return Promise.all(events.map((event) => this.#park(event, waitMs)))
  }

  async #park(event: IdentifiedEvent, waitMs: number): Promise<ParkAnswer> {
    const parked = await this.#waiting(waitMs, async () => {
      const [answer] = await this.#change(
        [event],
        (reading, _, nowMs): Decision<ParkAnswer | undefined> => {
          const known = knownOf(reading.stored, nowMs)
          const isOther =
            known.kind !== 'absent' && isConflict(known.fingerprint, event.fingerprint)
          const command = { kind: 'park', isConflict: isOther } as const
          const { answer, change } = this.#step(event, reading, command, nowMs)
          if (answer === 'known' && known.kind !== 'absent') {
            return { answer: { kind: 'known', known } }
          }
          return reading.isLocked ? { answer: undefined } : { answer: PARKED, change }
        },
      )
      return answer
    })
    return parked ?? { kind: 'held' }
  }

  fail(failures: readonly Failure[]): Promise<readonly VerdictAnswer[]> {
    return this.#fail(failures, NO_LOCK)
  }

  #fail(failures: readonly Failure[], lockedBy: string): Promise<readonly VerdictAnswer[]> {
    return this.#conclude(failures, lockedBy, (failure) => ({ ...failure, kind: 'fail' }))
  }

  bury(burials: readonly Burial[]): Promise<readonly VerdictAnswer[]> {
    return this.#conclude(burials, NO_LOCK, (burial) => ({ ...burial, kind: 'bury' }))
  }

  /** @param lockedBy - Whose lock may be on an event whose run was clean. */
  #conclude<Verdict extends Failure | Burial>(
    verdicts: readonly Verdict[],
    lockedBy: string,
    commandOf: (verdict: Verdict) => AttemptCommand<'fail' | 'bury'>,
  ): Promise<readonly VerdictAnswer[]> {
    const events = verdicts.map(({ event }) => event)
    return this.#change(events, (reading, event, nowMs, index): Decision<VerdictAnswer> => {
      const verdict = verdicts[index] as Verdict
      const text = errorText(verdict.error)
      // A deferral has no error, and the one before it stays.
      const failed = { ...(text === undefined ? {} : { error: text }), lastFailedAtMs: nowMs }
      const step = this.#step(event, reading, commandOf(verdict), nowMs, { failed, lockedBy })
      return { ...step, ifLocked: 'lost' }
    })
  }

  release(releases: readonly Release[]): Promise<readonly VerdictAnswer[]> {
    const events = releases.map(({ event }) => event)
    return this.#change(events, (reading, event, nowMs, index) =>
      this.#step(event, reading, { ...(releases[index] as Release), kind: 'release' }, nowMs),
    )
  }

  refuse(refusals: readonly Refusal[]): Promise<readonly DeadLetterRef[]> {
    const { consumer } = this.#parts.registration
    const ids = refusals.map(({ delivery, original = delivery }) => messageHash(consumer, original))
    return this.#records.change(
      ids.map((id) => nameOf({ kind: 'refused', id })),
      ({ stored }, index, nowMs): Decision<DeadLetterRef> => {
        const { delivery, error, key, reason } = refusals[index] as Refusal
        const id = ids[index] as string
        const before = stored.kind === 'refused' ? stored : undefined
        const record: Refused = {
          ...{ kind: 'refused', consumer, id, key, reason, parked: false },
          ...{ delivery: storedDelivery(delivery), error: errorText(error) },
          firstFailedAtMs: before?.firstFailedAtMs ?? nowMs,
          lastFailedAtMs: nowMs,
          published: before?.published ?? false,
          publishing: before?.publishing,
        }
        return { answer: { kind: 'refused', id }, change: { record } }
      },
    )
  }

  async takePublishing(ref: DeadLetterRef, rightMs: number): Promise<PublishingRight> {
    const token = this.#newToken()
    const held = { kind: 'held' } as const
    const decide = (
      { isLocked, stored }: Reading,
      _: number,
      nowMs: number,
    ): Decision<PublishingRight> => {
      if (!isLetter(stored)) return { answer: { kind: 'gone' } }
      if (stored.published) return { answer: { kind: 'already' } }
      if (isLocked || isBeingPublished(stored, nowMs)) return { answer: held }
      const letter = letterOf(stored, ref)
      const record = { ...stored, publishing: { token, untilMs: nowMs + rightMs } }
      return {
        answer: { kind: 'taken', token, letter },
        ifLocked: held,
        change: { record, lockedBy: NO_LOCK },
      }
    }
    const [answer] = await this.#records.change([nameOf(ref)], decide)
    return answer ?? { kind: 'gone' }
  }

  async endPublishing(
    ref: DeadLetterRef,
    token: OwnerToken,
    as: PublishingEnd,
  ): Promise<VerdictAnswer> {
    const [answer] = await this.#records.change(
      [nameOf(ref)],
      ({ stored }): Decision<VerdictAnswer> => {
        if (!isLetter(stored) || stored.publishing?.token !== token) return { answer: 'lost' }
        const record = { ...stored, publishing: undefined, published: as === 'published' }
        return { answer: 'recorded', change: { record } }
      },
    )
    return answer ?? 'lost'
  }

  async due(limit: number, except: readonly EventId[] = []): Promise<readonly DueEvent[]> {
    const left = new Set(except.map(nameOfEvent))
    const listed = await this.#records.due(limit + MORE_DUE + left.size)
    const names = listed.filter((name) => !left.has(name))
    const { all, nowMs } = await this.#records.read(names)
    const due: DueEvent[] = []
    for (const [index, name] of names.entries()) {
      const { isLocked, stored } = all[index] as Reading
      if (!isLocked) due.push(...dueEvent(stored, refOf(name), nowMs))
    }
    return due.slice(0, limit)
  }

  async resolveRefused(id: string): Promise<void> {
    await this.#records.change([nameOf({ kind: 'refused', id })], () => ({
      answer: undefined,
      change: { record: undefined },
    }))
  }

  /** Redis deletes done events at the end of their window by itself. */
  async sweep(): Promise<SweepStep> {
    const names = await this.#records.letters(1_000)
    const { all } = await this.#records.read(names)
    await this.#records.unlist(names.filter((_, index) => all[index]?.stored.kind === 'absent'))
    return { deleted: 0, finished: true }
  }

  diagnose(error: unknown): 'serialization' | 'store' | 'other' {
    if (error instanceof CommitConflict) return 'serialization'
    return error instanceof StoreUnavailableError ? 'store' : 'other'
  }

  #newToken(): OwnerToken {
    return this.#parts.registration.runtime.uuid() as OwnerToken
  }

  #change<Answer>(
    events: readonly IdentifiedEvent[],
    decide: (
      reading: Reading,
      event: IdentifiedEvent,
      nowMs: number,
      index: number,
    ) => Decision<Answer>,
  ): Promise<readonly Answer[]> {
    return this.#records.change(
      events.map(({ id }) => nameOfEvent(id)),
      (reading, index, nowMs) => decide(reading, events[index] as IdentifiedEvent, nowMs, index),
    )
  }

  /** What the table of attempts says, as a change of the record. */
  #step<Kind extends AttemptCommand['kind']>(
    event: IdentifiedEvent,
    { stored }: Reading,
    command: AttemptCommand<Kind>,
    nowMs: number,
    { failed, lockedBy = NO_LOCK }: StepDetails = {},
  ): Decision<AttemptAnswer<Kind>> {
    const state = stored.kind === 'refused' ? { kind: 'absent' as const } : stored
    const { answer, next } = attemptStep(state, command, nowMs)
    if (next === undefined) return { answer }
    // An owner may conclude while its own transaction has the lock.
    const isOwner = state.kind === 'running' && 'token' in command && state.token === command.token
    const locks = isOwner ? {} : { lockedBy }
    if (next.kind === 'absent') return { answer, change: { record: undefined, ...locks } }
    const { registration } = this.#parts
    const before = isTrouble(stored) ? stored : firstDetails(event, registration, nowMs)
    const isGiven = command.kind === 'park' && before === stored
    const given = isGiven && { delivery: storedDelivery(event.delivery) }
    const died = next.kind === 'dead' && { lastFailedAtMs: nowMs }
    const record = { ...before, ...next, ...given, ...died, ...failed }
    return { answer, change: { record, ...locks } }
  }

  /** Tries until there is an answer, for at most `waitMs`. */
  async #waiting<Answer>(
    waitMs: number,
    attempt: () => Promise<Answer | undefined>,
  ): Promise<Answer | undefined> {
    const { runtime } = this.#parts.registration
    const endsAtMs = runtime.monotonic() + waitMs
    for (;;) {
      const answer = await attempt()
      if (answer !== undefined) return answer
      const leftMs = endsAtMs - runtime.monotonic()
      if (leftMs <= 0) return undefined
      await new Promise<void>((resolve) => {
        runtime.setTimer(resolve, Math.min(LOOK_MS, leftMs))
      })
    }
  }
}
