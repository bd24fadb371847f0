import type { Confirmation, Destination, Logger } from '@onceward/core'
import { RunningRelay } from '../../../packages/postgres/src/outbox/relay.ts'
import {
  type RelayTables,
  type StoredMessage,
  shareOf,
} from '../../../packages/postgres/src/outbox/relay-store.ts'
import { type OutboxAudit, SINK } from '../judge/outbox-audit.ts'
import type { Database } from '../stores/database.ts'
import type { OutboxRow, OutboxRows } from '../stores/outbox-rows.ts'
import type { Dice } from './dice.ts'
import type { Link } from './link.ts'
import type { Life } from './process.ts'

/** Refusals after which a message is dead. */
const ATTEMPTS = 3

/** What relays publish to. */
export interface Sink {
  refusesUntilMs: number
  /** Takes nothing. */
  downUntilMs: number
  /** Fails with the messages of one key, and does not say whose fault it is. */
  dislikesUntilMs: number
}

export interface RelayOptions {
  readonly life: Life
  readonly links: { readonly database: Link; readonly sink: Link }
  readonly database: Database
  readonly audit: OutboxAudit
  readonly sink: Sink
  readonly dice: Dice
  readonly logger: Logger
}

/** A process with the real relay, over simulated tables and a simulated destination. */
export class RelayProcess {
  readonly life: Life
  readonly links: RelayOptions['links']
  readonly #relay: RunningRelay
  readonly #started: Promise<void>
  #isDraining = false

  constructor(options: RelayOptions) {
    const { life, links, logger } = options
    this.life = life
    this.links = links
    const settings = {
      ...{ attempts: ATTEMPTS, giveUpAfterMs: Number.POSITIVE_INFINITY },
      ...{ baseMs: 1_000, maxMs: 300_000 },
      ...{ concurrency: 2, callMs: 5_000, leaseMs: 6_000, drainMs: 1_000 },
      ...{ destinations: new Map([[SINK, sinkOf(options)]]), logger, runtime: life.runtime },
    }
    this.#relay = new RunningRelay(settings, {
      store: tablesOf(options, () => this.#isDraining),
      signal: undefined,
      close: () => Promise.resolve(),
      // The processes that commit are others.
      onSent: () => () => undefined,
    })
    this.#started = this.#start()
  }

  /** As a process that is started again until its database answers. */
  async #start(): Promise<void> {
    try {
      await this.#relay.start()
    } catch {
      if (this.#isDraining) return
      await new Promise<void>((resolve) => this.life.runtime.setTimer(resolve, 500))
      await this.#start()
    }
  }

  drain(): Promise<void> {
    this.#isDraining = true
    return this.#started.then(() => this.#relay.drain())
  }
}

/** What relays see of a row. */
function toStored({ attempt, message, position }: OutboxRow): StoredMessage {
  const { headers, id, key, payload, source, to, type } = message
  return {
    ...{ id, key, payload, source, type, headers, attempt, position: String(position) },
    lane: key === undefined ? undefined : `${to} ${key}`,
    contentType: 'application/json',
  }
}

function tablesOf(
  { audit, database, life, links }: RelayOptions,
  isDraining: () => boolean,
): RelayTables {
  const { name } = life
  const presence = -1 - life.index
  const at = (): OutboxRows => database.history.outbox
  const nowMs = (): number => database.nowMs
  const call = <Answer>(verb: string, execute: () => Answer): Promise<Answer> =>
    links.database.call(verb, execute)
  const write = <Answer>(verb: string, execute: () => Answer): Promise<Answer> =>
    call(verb, () => {
      database.remember()
      return execute()
    })
  return {
    check: () => call('check', () => undefined),
    lease: (leaseMs) =>
      call('lease', () => {
        const { leases } = at()
        const live = [...leases].filter(([, { untilMs }]) => untilMs > nowMs())
        const buckets = shareOf(
          live.map(([bucket, { relay }]) => ({ bucket, relay })),
          name,
        )
        for (const [bucket, { relay }] of [...leases]) if (relay === name) leases.delete(bucket)
        const lease = { relay: name, untilMs: nowMs() + leaseMs }
        for (const bucket of [...buckets, presence]) leases.set(bucket, lease)
        return new Map([[SINK, buckets]])
      }),
    giveBack: () =>
      call('give-back', () => {
        const { leases } = at()
        for (const [bucket, { relay }] of [...leases]) if (relay === name) leases.delete(bucket)
      }),
    // Looks that find nothing would be most of all steps, so a look waits until there is a message.
    read: (_, buckets) =>
      links.database.call(
        'read',
        () => at().read(new Set(buckets), nowMs()).map(toStored),
        () => isDraining() || at().isWaiting,
      ),
    free: (_, buckets) =>
      call('free', () => {
        at().free(new Set(buckets))
        return false
      }),
    remove: (_, messages) => write('remove', () => audit.removed(at().remove(messages))),
    fail: (_, failures, { attempts }) =>
      write('fail-message', () => {
        const dead = failures.filter(({ delayMs, message }) => {
          audit.counted(name, message)
          const isDead = at().fail(message, { attempts, dueAtMs: nowMs() + delayMs })
          const row = at().rows.get(Number(message.position))
          if (isDead && row !== undefined) audit.died(row, attempts)
          return isDead
        })
        return new Set(dead.map(({ message }) => message.position))
      }),
    status: () => Promise.resolve([]),
    waiting: () =>
      call('waiting', () => {
        const refused = [...at().rows.values()].filter(({ state }) => state === 'w')
        return { keys: refused.length, error: '' }
      }),
  }
}

const DISLIKED = 'k0'

function sinkOf({ audit, database, dice, life, links, sink }: RelayOptions): Destination {
  const arrives = (message: StoredMessage): Confirmation => {
    const { nowMs } = database
    const isDisliked = nowMs < sink.dislikesUntilMs && message.key === DISLIKED
    if (isDisliked) return { unknown: new Error('no answer that helps') }
    if (nowMs < sink.refusesUntilMs && dice.chance(0.7)) return { refused: new Error('refused') }
    audit.published(message, database.history.outbox)
    return undefined
  }
  const answersOf = (some: readonly StoredMessage[]): readonly Confirmation[] => {
    if (database.nowMs < sink.downUntilMs) {
      const error = new Error('down')
      if (dice.chance(0.3)) throw error
      return some.map(() => (dice.chance(0.5) ? { unknown: error } : { down: error }))
    }
    // The connection ends in the middle: the relay does not know what has arrived.
    const arriving = dice.chance(0.05) ? some.slice(0, dice.below(some.length)) : some
    const answers = arriving.map(arrives)
    if (arriving.length < some.length) throw new Error('the connection has ended')
    return answers
  }
  return {
    batch: 2,
    publish: async (messages) => {
      const some = messages as readonly StoredMessage[]
      const heard = audit.calls(life.name, some)
      try {
        const answers = await links.sink.call('publish', () => answersOf(some))
        heard(answers)
        return answers
      } catch (error) {
        heard(some.map(() => ({ down: error })))
        throw error
      }
    },
  }
}
