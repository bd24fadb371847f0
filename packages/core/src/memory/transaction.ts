import type { EventId, OwnerToken } from '../model/brands.ts'
import type { OncewardError } from '../model/errors.ts'
import type { FenceMove } from '../model/fence.ts'
import type {
  BeginClaim,
  BeginRequest,
  Begun,
  Commit,
  CommitAnswer,
  Failure,
  IdentifiedEvent,
  InboxTransaction,
  TransactionStatus,
  VerdictAnswer,
} from '../model/inbox.ts'
import type { Runtime } from '../model/runtime.ts'
import type { Attempts } from './attempts.ts'
import { isMoving, type MemoryTables } from './tables.ts'

interface Session<Tx> {
  readonly tx: Tx
  readonly consumer: string
  readonly tables: MemoryTables
  readonly verdicts: Attempts
  readonly runtime: Runtime
}

/** Opens a transaction and locks the rows of the claim. Waits for rows that other transactions hold. */
export async function begin<Tx>(session: Session<Tx>, request: BeginRequest): Promise<Begun<Tx>> {
  const { tables, runtime } = session
  const { claim, waitMs } = request
  const transaction = new MemoryTransaction(session)
  if (claim.kind === 'move') {
    const { move } = claim
    if (!(await tables.locks.take(move.id, transaction, waitMs, runtime))) return { kind: 'held' }
    transaction.stageMove(move)
    if (isMoving(tables, move)) return { kind: 'open', transaction, claimed: new Set() }
    await transaction.rollback()
    return { kind: 'none' }
  }
  for (const { event, token } of toClaims(claim)) {
    const row = tables.rows.get(event.id)
    const isChanging =
      tables.locks.holderOf(event.id) !== undefined && !tables.locks.isUnchanged(event.id)
    if (token === undefined && row !== undefined && !isChanging) continue
    if (!(await tables.locks.take(event.id, transaction, waitMs, runtime))) {
      await transaction.rollback()
      return { kind: 'held' }
    }
    transaction.stageIfClaimable(event, token)
  }
  if (claim.kind === 'none' || transaction.claimed.size > 0) {
    return { kind: 'open', transaction, claimed: new Set(transaction.claimed.keys()) }
  }
  await transaction.rollback()
  return { kind: 'none' }
}

function toClaims(
  claim: BeginClaim,
): readonly { readonly event: IdentifiedEvent; readonly token?: OwnerToken | undefined }[] {
  switch (claim.kind) {
    case 'fresh':
      return claim.events.map((event) => ({ event }))
    case 'counted':
      return claim.events
    case 'none':
      return []
    case 'move':
      return []
    default:
      return claim satisfies never
  }
}

class MemoryTransaction<Tx> implements InboxTransaction<Tx> {
  readonly tx: Tx
  readonly claimed: Map<EventId, IdentifiedEvent> = new Map()
  readonly #session: Session<Tx>
  readonly #locked = new Set<EventId>()
  #committed: ReadonlySet<EventId> = new Set()
  #ended = false
  #move: FenceMove | undefined
  #revokedWith: OncewardError | undefined

  constructor(session: Session<Tx>) {
    this.#session = session
    this.tx = session.tx
  }

  /**
   * Needs the row's lock. The claim of counted events locks all rows first, so it keeps the lock of a row that it
   * cannot claim.
   */
  stageIfClaimable(event: IdentifiedEvent, token: OwnerToken | undefined): void {
    const { rows, troubles, locks } = this.#session.tables
    const row = rows.get(event.id)
    const isClaimable =
      token === undefined
        ? row === undefined
        : row?.state === 'running' && troubles.get(event.id)?.token === token
    if (isClaimable) this.claimed.set(event.id, event)
    if (isClaimable || (token !== undefined && row !== undefined)) this.#locked.add(event.id)
    else locks.release([event.id], this)
    if (!isClaimable) locks.leaveUnchanged(event.id)
  }

  /** Needs the lock of the partition. */
  stageMove(move: FenceMove): void {
    this.#locked.add(move.id)
    this.#move = move
  }

  status(): TransactionStatus {
    return this.#ended ? 'ended' : 'open'
  }

  revoke(error: OncewardError): void {
    this.#revokedWith ??= error
  }

  async commit({ results, recovered, sends = [] }: Commit): Promise<CommitAnswer> {
    if (this.#ended || this.#revokedWith !== undefined) {
      await this.rollback()
      return { kind: 'rolled-back', error: this.#revokedWith ?? new Error('no open transaction') }
    }
    const { tables, consumer } = this.#session
    for (const event of this.claimed.values()) {
      tables.rows.set(event.id, {
        state: 'done',
        consumer,
        fingerprint: event.fingerprint,
        processedAtMs: tables.nowMs(),
        result: results.get(event.id),
      })
    }
    for (const id of recovered) tables.troubles.delete(id)
    if (this.#move !== undefined) tables.move(this.#move)
    tables.outbox.push(...sends)
    this.#committed = new Set(this.claimed.keys())
    this.#end()
    return { kind: 'committed' }
  }

  async rollback(): Promise<void> {
    this.#end()
  }

  async rollbackAndFail(failures: readonly Failure[]): Promise<readonly VerdictAnswer[]> {
    this.#end()
    return failures.map((failure) => this.#session.verdicts.fail(failure))
  }

  async retract(events: readonly IdentifiedEvent[]): Promise<void> {
    for (const { id } of events) if (this.#committed.has(id)) this.#session.tables.forget(id)
  }

  #end(): void {
    this.#ended = true
    this.#session.tables.locks.release(this.#locked, this)
  }
}
