import { LATE } from '@onceward/core/adapter'
import type { BeginRequest, Begun, NextBegin } from '@onceward/core/ports'
import type { Pool } from 'pg'
import type { BeginContext, Driver } from '../driver/driver.ts'
import type { SendAnswer } from '../driver/held-connection.ts'
import type { PoolGate } from '../driver/pool-slots.ts'
import type { SessionSettings } from '../driver/session-settings.ts'
import { endsSession } from '../errors.ts'
import { BusinessTransaction, type ChainedBegin } from '../transaction/business-transaction.ts'
import { boundsOf, countOf, nothingClaimed, nothingOpen, type Taken } from '../transaction/claim.ts'
import type { Isolation } from '../transaction/claim-sql.ts'
import { isLentAsItIs } from './pg-checkout.ts'
import { readClaim, textsOf } from './pg-claim.ts'
import type { PgHeldConnection, ToLibraryTransaction } from './pg-connection.ts'
import type { PgAnswer } from './pg-query.ts'

export interface PgSettings {
  readonly isolation: Isolation
  /** A COMMIT without an answer within this time counts as a lost connection. */
  readonly commitSilenceMs: number
  /** No other code uses the connections, so the bounds can be settings of their sessions. */
  readonly ownsSessions?: boolean
}

export interface PgParts<Tx> {
  readonly pool: Pool
  readonly gate: PoolGate
  readonly settings: PgSettings
  readonly driver: Driver<Tx>
  readonly library?: { readonly toTransaction: ToLibraryTransaction<Tx>; readonly own: Pool }
}

/** An open transaction of pg on its connection. */
export interface PgLink<Tx> {
  readonly parts: PgParts<Tx>
  readonly context: BeginContext
  readonly held: PgHeldConnection<Tx>
  readonly settings: SessionSettings
  /** Transactions that the connection was taken along for, since it came from the pool. */
  readonly links: number
}

/** What the handler runs in, after its claim was answered. */
export function openOn<Tx>(
  link: PgLink<Tx>,
  { budgetMs }: BeginRequest,
  { claimed, xid }: Taken,
): Begun<Tx> {
  const { context, held, parts, settings } = link
  const { commitSilenceMs } = parts.settings
  const { driver } = parts
  const transaction = new BusinessTransaction<Tx>({
    ...{ held, driver, context, xid, budgetMs, settings, commitSilenceMs },
    chain: (next) => chain(link, next),
  })
  return { kind: 'open', transaction, claimed }
}

/**
 * Transactions of one connection behind each other, before it goes back to its pool: the pool looks there whether the
 * connection is too old.
 */
const MOST_LINKS = 100

/** Takes the next transaction of the guard along, if the connection may keep on. */
function chain<Tx>(link: PgLink<Tx>, next: NextBegin<Tx>): ChainedBegin | undefined {
  if (!mayKeep(link)) return undefined
  const request = next.take()
  if (request === undefined) return undefined
  const { held, parts } = link
  const chained = new PgChainedBegin(link, next, request)
  if (parts.settings.ownsSessions !== true) return chained
  if (!held.session.needsBound(boundsOf(request).budgetMs)) return chained
  chained.stay()
  return undefined
}

/** Whether the settings of the session are known, and nobody else waits for a connection. */
function mayKeep<Tx>({ held, links, parts }: PgLink<Tx>): boolean {
  const { gate, library, pool } = parts
  if (library !== undefined || links >= MOST_LINKS) return false
  if (gate.business.isAwaited() || pool.waitingCount > 0) return false
  return held.session.isBelieved() && (parts.settings.ownsSessions === true || isLentAsItIs(pool))
}

class PgChainedBegin<Tx> implements ChainedBegin {
  readonly #link: PgLink<Tx>
  readonly #next: NextBegin<Tx>
  readonly #request: BeginRequest
  /** Those behind COMMIT. */
  #answers: readonly PgAnswer[] | undefined
  #error: unknown

  constructor(link: PgLink<Tx>, next: NextBegin<Tx>, request: BeginRequest) {
    this.#link = link
    this.#next = next
    this.#request = request
  }

  async send(commit: readonly string[], limitMs: number): Promise<SendAnswer | typeof LATE> {
    const { context, held, parts, settings } = this.#link
    const { claim } = this.#request
    const { isolation } = parts.settings
    const { handlerLockTimeout } = held.session
    const texts = textsOf(settings, {
      request: this.#request,
      context,
      isolation,
      handlerLockTimeout,
    })
    const reads = countOf(claim) > 1 ? 'rows' : 'no-rows'
    const before = held.commands()
    try {
      const answers = await held.sendAll([...commit, ...texts], limitMs, reads)
      if (answers === LATE) return LATE
      this.#answers = answers.slice(commit.length)
      return toSendAnswer(answers[commit.length - 1])
    } catch (error) {
      // What fails behind COMMIT is the next transaction's alone.
      if (held.commands() - before < commit.length) throw error
      this.#error = error
      return { rows: [], rowCount: 0, command: held.session.wire.endTag }
    }
  }

  go(): void {
    this.#next.begun(this.#begun())
  }

  #begun(): Promise<Begun<Tx>> | undefined {
    const link = this.#link
    if (this.#answers === undefined) {
      this.#leave()
      return undefined
    }
    const { context, held, settings } = link
    const following = held.pass()
    following.opened()
    const taken = readClaim(this.#request, this.#answers)
    if (taken.claimed.size === 0) return nothingClaimed(following, this.#request.claim, context)
    const open = { ...link, held: following, settings, links: link.links + 1 }
    return Promise.resolve(openOn(open, this.#request, taken))
  }

  stay(): void {
    this.#next.begun(undefined)
  }

  /** The next transaction was begun, and may not go on. */
  giveUp(): void {
    this.#leave()
    this.stay()
  }

  #leave(): void {
    const { held } = this.#link
    if (this.#error !== undefined && endsSession(this.#error)) held.destroy()
    else nothingOpen(held, 'none')
  }
}

function toSendAnswer(answer: PgAnswer | undefined): SendAnswer {
  return { rows: [], rowCount: answer?.rowCount ?? 0, command: answer?.command }
}
