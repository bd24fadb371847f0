import { CommitUnknownError, FatalError, type OncewardError, RetryableError } from '@onceward/core'
import type {
  Commit,
  CommitAnswer,
  CountedEvent,
  EventId,
  Failure,
  IdentifiedEvent,
  InboxTransaction,
  OwnerToken,
  Runtime,
  TransactionStatus,
  VerdictAnswer,
} from '@onceward/core/ports'
import type { InboxCalls } from './calls.ts'
import { CollectedWrites, type RedisTransaction, type Write } from './handle.ts'
import type { InboxKeys } from './keys.ts'
import { headOfRun } from './record.ts'

/** A lock that its owner does not renew ends after this time, ms. A process that died holds its events so long. */
export const LOCK_MS = 10_000

/** Another transaction was faster. The event says nothing about that, so the handler runs again. */
export class CommitConflict extends RetryableError {}

const OVER =
  'The transaction of this event is over: its handler has returned or failed. Await every call in the handler.'

/** An event that the transaction has locked, with the token of its count if it was counted. */
export interface RowClaim extends Pick<IdentifiedEvent, 'fingerprint' | 'id'> {
  readonly name: string
  /** The keys of its value and of its lock. */
  readonly pair: readonly [string, string]
  readonly counted?: CountedEvent['token'] | undefined
}

export interface TransactionParts {
  readonly calls: InboxCalls
  readonly keys: InboxKeys
  readonly hasJson: boolean
  readonly runtime: Runtime
  readonly consumer: string
  readonly dedupWindowMs: number
  readonly token: OwnerToken
  readonly claims: readonly RowClaim[]
  /** What was asked for beside them. They may be locked too, and are not changed. */
  readonly others: readonly RowClaim[]
  /** When the transaction of the guard ends at the latest, ms from now. */
  readonly budgetMs: number
  /** Records failures of events that this transaction has locked. */
  readonly fail: (failures: readonly Failure[]) => Promise<readonly VerdictAnswer[]>
}

/** Holds the locks of its events while the handler collects writes; the commit is one script. */
export class RedisInboxTransaction implements InboxTransaction<RedisTransaction> {
  readonly tx: RedisTransaction
  readonly #parts: TransactionParts
  readonly #collected: CollectedWrites
  #revoked: OncewardError | undefined
  #isEnded = false
  #stopRenewal: (() => void) | undefined

  constructor(parts: TransactionParts) {
    const { calls, claims, hasJson, keys, runtime } = parts
    this.#parts = parts
    const isShared = claims.length > 1
    this.#collected = new CollectedWrites({ keys, hasJson, isShared, call: calls.call })
    this.tx = this.#collected.tx
    if (claims.length > 0) this.#renewUntil(runtime.monotonic() + parts.budgetMs + LOCK_MS)
  }

  status(): TransactionStatus {
    return this.#isEnded ? 'ended' : 'open'
  }

  ended(): OncewardError | undefined {
    return this.#collected.unfit
  }

  revoke(error: OncewardError): void {
    this.#revoked ??= error
    this.#collected.end(() => error)
  }

  async commit({ results }: Commit): Promise<CommitAnswer> {
    if (this.#isEnded || this.#revoked !== undefined) {
      const error = this.#revoked ?? new RetryableError(OVER)
      await this.rollback()
      return { kind: 'rolled-back', error }
    }
    this.#close()
    const { calls } = this.#parts
    const sent = await calls.send({ script: 'commit', ...this.#commitArguments(results) })
    if (sent.kind === 'unknown') {
      const error = new CommitUnknownError(
        'Redis did not answer a commit. The redelivery finds out whether it was applied.',
        { cause: sent.error },
      )
      return { kind: 'unknown', error }
    }
    const answer = sent.kind === 'answered' ? this.#toAnswer(sent.answer.map(String)) : sent
    // The script has given the locks of its events up.
    if (answer.kind !== 'committed' || this.#parts.others.length > 0) await this.#unlock()
    if (answer.kind === 'committed') return answer
    return { kind: 'rolled-back', error: answer.error }
  }

  async rollback(): Promise<void> {
    if (this.#isEnded) return
    this.#close()
    await this.#unlock()
  }

  async rollbackAndFail(failures: readonly Failure[]): Promise<readonly VerdictAnswer[]> {
    this.#close()
    const answers = await this.#parts.fail(failures)
    await this.#unlock()
    return answers
  }

  /** A handler cannot end this transaction. */
  retract(): Promise<void> {
    return Promise.resolve()
  }

  #commitArguments(results: ReadonlyMap<EventId, string>): {
    readonly keys: readonly string[]
    readonly args: readonly (string | Buffer)[]
  } {
    const { claims, consumer, dedupWindowMs, keys, token } = this.#parts
    const { watched, writes } = this.#collected
    const own = [keys.due(consumer), keys.letters(consumer), ...claims.flatMap(({ pair }) => pair)]
    const theirs = [...new Set([...watched.keys(), ...writes.map(({ key }) => key)])]
    const places = new Map(theirs.map((key, index) => [key, String(own.length + index + 1)]))
    const placeOf = (key: string): string => places.get(key) as string
    return {
      keys: [...own, ...theirs],
      args: [
        ...[token, String(claims.length), String(dedupWindowMs)],
        ...claims.flatMap(({ counted, fingerprint, id, name }) => [
          counted === undefined ? '' : headOfRun(counted),
          name,
          String(fingerprint),
          results.get(id) ?? '',
        ]),
        ...[
          String(watched.size),
          ...[...watched].flatMap(([key, digest]) => [placeOf(key), digest]),
        ],
        ...writes.flatMap(({ args, command, key }) => [
          ...[command, placeOf(key), String(args.length)],
          ...args,
        ]),
      ],
    }
  }

  #toAnswer([kind, first, code, text]: readonly string[]): CommitAnswer & {
    readonly kind: 'committed' | 'rolled-back'
  } {
    const rolledBack = (error: Error) => ({ kind: 'rolled-back', error }) as const
    const write = this.#collected.writes[Number(first) - 1]
    switch (kind) {
      case 'done':
        return { kind: 'committed' }
      case 'watched':
        return rolledBack(
          new CommitConflict('A watched key has changed since it was read. Nothing was applied.'),
        )
      case 'lost':
        return rolledBack(
          new CommitConflict('Another process has taken the event over. Nothing was applied.'),
        )
      case 'refused':
        return rolledBack(
          new RetryableError(
            `A write of the handler does not fit (${nameOf(write)}): ${text} (${code}). Nothing was applied. Check the type and the value of the key.`,
          ),
        )
      default:
        return rolledBack(
          new FatalError(
            `Redis refused a write in the middle of the others (${nameOf(write)}: ${code}). The writes before it are applied. Grant the user every command of the handler, and correct the keys by hand.`,
          ),
        )
    }
  }

  #close(): void {
    this.#isEnded = true
    this.#stopRenewal?.()
    this.#collected.end(() => this.#revoked ?? new RetryableError(OVER))
  }

  async #unlock(): Promise<void> {
    try {
      await this.#touchLocks('0')
    } catch {
      // The locks expire by themselves.
    }
  }

  #touchLocks(ms: string): Promise<unknown> {
    const { calls, claims, others, token } = this.#parts
    const locks = [...claims, ...others].map(({ pair: [, lock] }) => lock)
    if (locks.length === 0) return Promise.resolve()
    return calls.call({ script: 'locks', keys: locks, args: [ms, token] })
  }

  #renewUntil(endsAtMs: number): void {
    const { runtime } = this.#parts
    const later = (): void => {
      this.#stopRenewal = runtime.setTimer(renew, LOCK_MS / 3, { keepAlive: false })
    }
    const renew = (): void => {
      if (this.#isEnded || runtime.monotonic() > endsAtMs) return
      // Whether it is still held is decided by the commit.
      this.#touchLocks(String(LOCK_MS)).catch(() => undefined)
      later()
    }
    later()
  }
}

/** Names the write without the key, which may hold personal data. */
const nameOf = (write: Write | undefined): string => write?.command ?? 'unknown'
