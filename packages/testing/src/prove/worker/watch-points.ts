import type { Socket } from 'node:net'
import {
  PostgresConversation,
  type WireEvent,
  type WireTransaction,
} from '../../wire/postgres-conversation.ts'
import { watchSockets } from '../../wire/sockets.ts'
import type { WordMatcher } from '../../wire/words.ts'
import type { Recognized } from './recognized.ts'
import type { Hit, Strike } from './strike.ts'

export interface PointWatch {
  readonly strike: Strike
  readonly recognized: Recognized
  /** How the client acknowledges. */
  readonly isAck: WordMatcher
}

/** The longest time from the arrival of a message to a kill of `working`, milliseconds. */
const WORKING_MS = 60
/** Messages that a client may acknowledge together. */
const MOST_UNACKED = 100
/** Fresh events are inserted, counted ones are updated or locked. Clean-up deletes. */
const CLAIM = /\b(?:insert|update)\b/i
const NOBODY = { events: [], ids: [] }

/** Sees on the sockets of this process where the consumer is in its work, and lets it be struck there. */
export function watchPoints(watch: PointWatch): void {
  const points = new Points(watch)
  watchSockets({
    onWrite: (socket, bytes) => points.wrote(socket, bytes),
    onRead: (socket, bytes) => points.arrived(socket, bytes),
  })
}

class Points {
  readonly #watch: PointWatch
  readonly #conversations = new Map<Socket, PostgresConversation>()
  /** Events whose COMMIT is answered, and whose message is not acknowledged. */
  #committed: readonly WireTransaction[] = []
  #seesPostgres = false

  constructor(watch: PointWatch) {
    this.#watch = watch
  }

  wrote(socket: Socket, bytes: Buffer): (() => void) | undefined {
    const { isAck, strike } = this.#watch
    const conversation = this.#conversationOf(socket)
    let told: (() => void) | undefined
    for (const { moment, transaction } of conversation.write(bytes)) {
      const isWork = this.#isWork(transaction)
      if (moment === 'before-first-statement' && isWork && strike.isDue(moment)) {
        strike.take(this.#hit(transaction))
      }
      if (moment !== 'before-commit' || !isWork) continue
      if (strike.isDue('before-commit')) strike.take(this.#hit(transaction))
      // From here on the kernel has the COMMIT.
      if (strike.isDue('commit-sent')) told = () => strike.take(this.#hit(transaction))
    }
    this.#seesPostgres ||= conversation.isPostgres
    if (!conversation.isPostgres && isAck(bytes)) this.#acknowledges()
    return told
  }

  arrived(socket: Socket, bytes: Buffer): void {
    const conversation = this.#conversationOf(socket)
    for (const event of conversation.read(bytes)) this.#answered(event)
    if (!conversation.isPostgres) this.#received(bytes)
  }

  #answered({ moment, transaction }: WireEvent): void {
    if (!this.#isWork(transaction)) return
    const { strike } = this.#watch
    if (moment === 'commit-answered') {
      if (strike.isDue(moment)) strike.take(this.#hit(transaction))
      this.#committed = [...this.#committed, transaction].slice(-MOST_UNACKED)
    }
    if (moment !== 'after-first-statement') return
    for (const point of [moment, 'frozen'] as const) {
      if (strike.isDue(point)) strike.take(this.#hit(transaction))
    }
  }

  #acknowledges(): void {
    const { strike } = this.#watch
    const done = this.#committed
    this.#committed = []
    // Without a transaction on the wire, any acknowledgement is of finished work.
    if (done.length === 0 && this.#seesPostgres) return
    if (!strike.isDue('before-ack')) return
    strike.take({ hit: this.#watch.recognized.named(done), beside: this.#openExcept() })
  }

  #received(bytes: Buffer): void {
    const { recognized, strike } = this.#watch
    const isFrozenHere = strike.isDue('frozen') && !this.#seesPostgres
    if (!strike.isDue('received') && !strike.isDue('working') && !isFrozenHere) return
    const events = recognized.inMessage(bytes)
    if (events.length === 0) return
    const hit = { hit: { events, ids: [] }, beside: NOBODY }
    if (!strike.isDue('working')) strike.take(hit)
    else setTimeout(() => this.#strikeLater(hit), Math.random() * WORKING_MS)
  }

  /** Another blow may be due by then. */
  #strikeLater(hit: Hit): void {
    if (this.#watch.strike.isDue('working')) this.#watch.strike.take(hit)
  }

  #conversationOf(socket: Socket): PostgresConversation {
    const known = this.#conversations.get(socket)
    if (known !== undefined) return known
    const made = new PostgresConversation()
    this.#conversations.set(socket, made)
    socket.once('close', () => this.#conversations.delete(socket))
    return made
  }

  /** It names an event, or claims one for a guard. Other transactions are those of heartbeats and clean-up. */
  #isWork({ texts, values }: WireTransaction): boolean {
    const claims = texts.some((text) => text.includes('processed_events') && CLAIM.test(text))
    return claims || this.#watch.recognized.among(values).length > 0
  }

  #hit(transaction: WireTransaction): Hit {
    return {
      hit: this.#watch.recognized.named([transaction]),
      beside: this.#openExcept(transaction),
    }
  }

  #openExcept(own?: WireTransaction): Hit['beside'] {
    const others = [...this.#conversations.values()].flatMap(({ open }) => open)
    const done = this.#committed.filter((each) => each !== own)
    return this.#watch.recognized.named([...others.filter((each) => each !== own), ...done])
  }
}
