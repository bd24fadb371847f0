import { StoreUnavailableError } from '@onceward/core'
import { decideCount, isConflict, messageHash } from '@onceward/core/adapter'
import type {
  BeginRequest,
  Begun,
  Burial,
  ConsumerRegistration,
  CountAnswer,
  CountedEvent,
  DeadLetterRef,
  DueEvent,
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
  type Trouble,
} from './record.ts'
import { type Decision, Records } from './records.ts'
import {
  doneOnly,
  dueEvent,
  firstTrouble,
  isLetter,
  isOwned,
  isTrouble,
  toClaims,
  UNPUBLISHED,
} from './states.ts'
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
const LOST: Decision<VerdictAnswer> = { answer: 'lost' }
const noLock = '-'

export interface SessionParts {
  readonly calls: InboxCalls
  readonly keys: InboxKeys
  readonly hasJson: boolean
  readonly registration: ConsumerRegistration
  readonly secret: Uint8Array
}

/** An inbox in Redis as one guard uses it. */
export class RedisInboxSession implements InboxSession<RedisTransaction> {
  readonly concurrency: number
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
      const isNew = ({ stored }: Reading) => stored.kind === 'absent'
      if (all.some(({ isChanging }) => isChanging)) return undefined
      const begun = events.map((event, index) =>
        isNew(all[index] as Reading) && names.indexOf(names[index] as string) === index
          ? this.#counted(firstTrouble(event, this.#parts.registration, nowMs), nowMs)
          : undefined,
      )
      const entries = names.map((name, index) => {
        const record = begun[index]
        return { name, head: '', change: record && { record, lockedBy: noLock } }
      })
      const swapped = await this.#records.swap(entries, true)
      if (swapped.some((each) => each !== 'swapped')) return undefined
      return events.map((event, index) => {
        const record = begun[index]
        return record && { event, token: record.token as OwnerToken, attempt: record.attempt }
      })
    })
    return counted === undefined ? { kind: 'held' } : { kind: 'answered', counted }
  }

  count(
    events: readonly IdentifiedEvent[],
    run: 'together' | 'alone',
  ): Promise<readonly CountAnswer[]> {
    const { registration } = this.#parts
    return this.#change(events, ({ isLocked, stored }, index, nowMs): Decision<CountAnswer> => {
      if (!isTrouble(stored)) return { answer: { kind: 'changed' } }
      if (isLocked) return { answer: { kind: 'held' } }
      const { noVerdicts } = stored
      const { maxAttempts = registration.maxAttempts } = events[index] as IdentifiedEvent
      const known = knownOf(stored, nowMs)
      const decision = decideCount(known, { noVerdicts, run, maxAttempts })
      const ifLocked = { kind: 'held' } as const
      if (decision.kind === 'counted') {
        // An event without a verdict runs alone until it has one, even if this attempt is released.
        const alone = stored.alone || stored.kind === 'running'
        const record = this.#counted({ ...stored, alone }, nowMs)
        const token = record.token as OwnerToken
        const answer = { kind: 'counted', token, attempt: record.attempt } as const
        return { answer, ifLocked, change: { record, lockedBy: noLock } }
      }
      if (decision.kind !== 'buried') return { answer: decision }
      const buried = { reason: decision.reason, token: undefined, ...UNPUBLISHED }
      const record: Trouble = { ...stored, kind: 'dead', lastFailedAtMs: nowMs, ...buried }
      return { answer: decision, ifLocked, change: { record, lockedBy: noLock } }
    })
  }

  async park(events: readonly IdentifiedEvent[], waitMs: number): Promise<readonly ParkAnswer[]> {
    return Promise.all(events.map((event) => this.#park(event, waitMs)))
  }

  async #park(event: IdentifiedEvent, waitMs: number): Promise<ParkAnswer> {
    const parked = await this.#waiting(waitMs, async () => {
      const [answer] = await this.#change(
        [event],
        ({ isLocked, stored }, _, nowMs): Decision<ParkAnswer | undefined> => {
          const held = { answer: undefined }
          const known = knownOf(stored, nowMs)
          if (known.kind === 'absent') {
            if (isLocked) return held
            const trouble = firstTrouble(event, this.#parts.registration, nowMs)
            const record: Trouble = { ...trouble, parked: true, nextTryAtMs: nowMs }
            return { answer: PARKED, change: { record, lockedBy: noLock } }
          }
          const isUnparked = isTrouble(stored) && stored.kind !== 'dead' && !stored.parked
          if (!isUnparked || isConflict(known.fingerprint, event.fingerprint)) {
            return { answer: { kind: 'known', known } }
          }
          if (isLocked) return held
          const record = { ...stored, parked: true, delivery: storedDelivery(event.delivery) }
          return { answer: PARKED, change: { record, lockedBy: noLock } }
        },
      )
      return answer
    })
    return parked ?? { kind: 'held' }
  }

  fail(failures: readonly Failure[]): Promise<readonly VerdictAnswer[]> {
    return this.#fail(failures, noLock)
  }

  #fail(failures: readonly Failure[], lockedBy: string): Promise<readonly VerdictAnswer[]> {
    return this.#conclude(failures, lockedBy, ({ delayMs }, nowMs) => ({
      kind: 'waiting',
      nextTryAtMs: nowMs + delayMs,
    }))
  }

  bury(burials: readonly Burial[]): Promise<readonly VerdictAnswer[]> {
    return this.#conclude(burials, noLock, ({ reason }) => ({
      ...{ kind: 'dead', reason },
      ...UNPUBLISHED,
    }))
  }

  #conclude<Verdict extends Failure | Burial>(
    verdicts: readonly Verdict[],
    lockedBy: string,
    changeOf: (verdict: Verdict, nowMs: number) => Partial<Trouble>,
  ): Promise<readonly VerdictAnswer[]> {
    const events = verdicts.map(({ event }) => event)
    return this.#change(events, ({ stored }, index, nowMs): Decision<VerdictAnswer> => {
      const verdict = verdicts[index] as Verdict
      const { attempt, error, event, token } = verdict
      const failed = { error: errorText(error), lastFailedAtMs: nowMs }
      const change = changeOf(verdict, nowMs)
      if (token !== undefined) {
        if (!isOwned(stored, token)) return LOST
        const cleared = { token: undefined, alone: false }
        const record: Trouble = { ...stored, ...failed, ...cleared, ...change }
        return { answer: 'recorded', change: { record } }
      }
      // After a clean run.
      if (stored.kind !== 'absent') return LOST
      const first = firstTrouble(event, this.#parts.registration, nowMs)
      const record: Trouble = { ...first, ...failed, attempt, ...change }
      return { answer: 'recorded', ifLocked: 'lost', change: { record, lockedBy } }
    })
  }

  release(releases: readonly Release[]): Promise<readonly VerdictAnswer[]> {
    const events = releases.map(({ event }) => event)
    return this.#change(events, ({ stored }, index, nowMs): Decision<VerdictAnswer> => {
      const { as, token } = releases[index] as Release
      if (!isOwned(stored, token)) return LOST
      const attempt = Math.max(0, stored.attempt - 1)
      const noVerdicts = stored.noVerdicts + (as === 'no-verdict' ? 1 : 0)
      if (attempt === 0 && noVerdicts === 0 && !stored.parked) {
        return { answer: 'recorded', change: { record: undefined } }
      }
      const alone = stored.alone || as === 'no-verdict'
      const given = { kind: 'waiting', token: undefined, nextTryAtMs: nowMs } as const
      return {
        answer: 'recorded',
        change: { record: { ...stored, attempt, noVerdicts, alone, ...given } },
      }
    })
  }

  refuse(refusals: readonly Refusal[]): Promise<readonly DeadLetterRef[]> {
    const { consumer } = this.#parts.registration
    const ids = refusals.map(({ delivery }) => messageHash(consumer, delivery))
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
    const token = this.#parts.registration.runtime.uuid() as OwnerToken
    const held = { kind: 'held' } as const
    const decide = (
      { isLocked, stored }: Reading,
      _: number,
      nowMs: number,
    ): Decision<PublishingRight> => {
      if (!isLetter(stored)) return { answer: { kind: 'gone' } }
      if (stored.published) return { answer: { kind: 'already' } }
      if (isLocked || (stored.publishing?.untilMs ?? 0) > nowMs) return { answer: held }
      const letter = letterOf(stored, ref)
      const record = { ...stored, publishing: { token, untilMs: nowMs + rightMs } }
      return {
        answer: { kind: 'taken', token, letter },
        ifLocked: held,
        change: { record, lockedBy: noLock },
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
        if (!isLetter(stored) || stored.publishing?.token !== token) return LOST
        const record = { ...stored, publishing: undefined, published: as === 'published' }
        return { answer: 'recorded', change: { record } }
      },
    )
    return answer ?? 'lost'
  }

  async due(limit: number): Promise<readonly DueEvent[]> {
    const names = await this.#records.due(limit + MORE_DUE)
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

  /** Counts one more attempt, with a token of its own. */
  #counted(before: Trouble, nowMs: number): Trouble {
    const token = this.#parts.registration.runtime.uuid()
    return { ...before, kind: 'running', attempt: before.attempt + 1, token, countedAtMs: nowMs }
  }

  #change<Answer>(
    events: readonly IdentifiedEvent[],
    decide: (reading: Reading, index: number, nowMs: number) => Decision<Answer>,
  ): Promise<readonly Answer[]> {
    return this.#records.change(
      events.map(({ id }) => nameOfEvent(id)),
      decide,
    )
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
