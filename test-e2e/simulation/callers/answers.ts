import type { Settlement } from '@onceward/core'
import type { Audit } from '../judge/audit.ts'
import type { Database } from '../stores/database.ts'
import type { Life } from '../world/process.ts'
import type { CallerPlan, ClientPlan } from './plan.ts'

/** One request of a client, until its process has settled it or is dead. */
export interface Request {
  readonly client: ClientPlan
  readonly life: Life
  /** Nobody else has run or held its key since it was sent, so it may not be told to wait. */
  isAlone: boolean
  /** Its key had an answer when it was sent. */
  readonly isRetry: boolean
}

/** What the handler answers: each run another answer, so that a second one shows. */
export interface Answer {
  readonly of: string
  readonly run: number
}

/** The promises that clients of a route have. */
export class Answers {
  readonly #plan: CallerPlan
  readonly #audit: Audit
  readonly #database: Database
  readonly #open = new Set<Request>()
  readonly #first = new Map<string, string>()
  /** Keys with leases alone that a dead or frozen process, or a lease store in trouble, may hold. */
  readonly #mayBeHeld = new Set<string>()

  constructor(plan: CallerPlan, audit: Audit, database: Database) {
    this.#plan = plan
    this.#audit = audit
    this.#database = database
  }

  keyOf({ event }: ClientPlan): string {
    return this.#plan.events[event]?.key ?? ''
  }

  sent(client: ClientPlan, life: Life): Request {
    const isRetry = this.#first.has(this.keyOf(client))
    const request: Request = { client, life, isAlone: true, isRetry }
    this.#open.add(request)
    this.look()
    return request
  }

  /** The process is dead: nobody hears of its runs. */
  died(life: Life): void {
    for (const request of [...this.#open]) {
      if (request.life !== life) continue
      this.#open.delete(request)
      this.#mayBeHeld.add(this.keyOf(request.client))
    }
  }

  /** A lease may outlive its run. */
  disturbed(): void {
    for (const { key } of this.#plan.events) this.#mayBeHeld.add(key)
  }

  /** After each step. */
  look(): void {
    this.#lookForCompany()
    if (this.#plan.composition === 'leases') return
    const { refused, tables } = this.#database.history.store
    for (const { state } of tables.rows.values()) {
      if (state !== 'done') this.#audit.violate(`a failed request left a row that is ${state}`)
    }
    if (tables.troubles.size > 0) this.#audit.violate('a failed request was recorded')
    if (refused.size > 0) this.#audit.violate('a refused request was recorded')
  }

  #lookForCompany(): void {
    const others = [...this.#database.backends]
    for (const request of this.#open) {
      const hasCompany =
        others.some(({ isOrphan, owner }) => isOrphan || owner !== request.life) ||
        [...this.#open].some(
          (other) => other !== request && other.client.event === request.client.event,
        )
      if (hasCompany) request.isAlone = false
    }
  }

  /** Judges every settlement, whether or not its client still listens. */
  settled(request: Request, settlement: Settlement): void {
    this.#open.delete(request)
    const key = this.keyOf(request.client)
    switch (settlement.kind) {
      case 'ack':
        if (settlement.by === 'conflict') this.#conflicted(request)
        else this.#answered(request, settlement.result)
        break
      case 'defer':
        this.#deferred(request, settlement)
        break
      case 'abandon':
        this.#mayBeHeld.add(key)
        break
      case 'dead-letter':
        if (this.#plan.composition === 'leases' && settlement.reason === 'takeover') break
        this.#audit.violate(`a request of ${key} was dead-lettered: ${settlement.reason}`)
    }
  }

  /** Every answer after the first equals it, and belongs to this payload. */
  #answered({ client }: Request, result: unknown): void {
    const key = this.keyOf(client)
    if (result === undefined) {
      this.#audit.violate(`the answer of ${key} is lost`)
      return
    }
    const said = JSON.stringify(result)
    const first = this.#first.get(key) ?? said
    this.#first.set(key, first)
    if (said !== first) this.#audit.violate(`${key} was answered ${first}, then ${said}`)
    const payload = `${key}:${client.variant}`
    if ((result as Answer).of !== payload) {
      this.#audit.violate(`the client of ${payload} got the answer ${said}`)
    }
    if (this.#plan.composition === 'leases') return
    if (this.#effectsOf(key).includes(payload)) return
    this.#audit.violate(`${payload} was answered without its effect`)
  }

  #conflicted({ client }: Request): void {
    if (this.#plan.composition === 'leases') return
    const key = this.keyOf(client)
    const effects = this.#effectsOf(key)
    const isOther = effects.length > 0 && !effects.includes(`${key}:${client.variant}`)
    if (!isOther) this.#audit.violate(`${key}:${client.variant} is said to be another request`)
  }

  #deferred(
    { client, isAlone, isRetry }: Request,
    { cause, reason }: Extract<Settlement, { kind: 'defer' }>,
  ): void {
    const key = this.keyOf(client)
    if (reason === 'not-due') this.#audit.violate(`${key} waits for its next attempt`)
    if (reason === 'failed' && isRetry) this.#audit.violate(`${key} ran after its answer`)
    if (reason !== 'in-progress' || !isAlone) return
    if (this.#plan.composition === 'leases' && this.#mayBeHeld.has(key)) return
    this.#audit.violate(`${key} is said to be in flight (${cause}), and nobody runs it`)
  }

  #effectsOf(key: string): readonly string[] {
    return this.#database.history.of(this.#audit.byKey(key).id).effects
  }
}
