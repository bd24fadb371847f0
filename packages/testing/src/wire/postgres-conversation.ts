import { boundValues, Frames, zeroTerminated } from './postgres-frames.ts'
import { controlOf, literalsOf } from './sql-texts.ts'

/** A transaction as the wire shows it. */
export interface WireTransaction {
  /** Values of its statements, which may name its event. */
  readonly values: readonly string[]
  /** What its statements say, without the values of parameters. */
  readonly texts: readonly string[]
}

/** What happens in a transaction. */
export type WireMoment =
  /** The client is about to write the first statement after the server has answered the BEGIN. */
  | 'before-first-statement'
  /** The server has answered it. */
  | 'after-first-statement'
  /** The client is about to write the COMMIT. */
  | 'before-commit'
  /** The server has answered the COMMIT. */
  | 'commit-answered'

export interface WireEvent {
  readonly moment: WireMoment
  readonly transaction: WireTransaction
}

/** More is not kept of one transaction. */
const MOST_KEPT = 400

class Transaction implements WireTransaction {
  readonly values: string[] = []
  readonly texts: string[] = []
  /** The server has answered what began it. */
  isOpen = false
  statements = 0
  hasAnsweredOne = false

  add(text: string, values: readonly string[]): void {
    if (this.texts.length < MOST_KEPT) this.texts.push(text)
    for (const value of [...values, ...literalsOf(text)]) {
      if (this.values.length < MOST_KEPT) this.values.push(value)
    }
  }
}

const STARTUP_HEAD = 8
const SSL_REQUEST = 80_877_103
const GSS_REQUEST = 80_877_104
const PROTOCOL_3 = 3

/** Follows one connection to PostgreSQL, whatever client has opened it. Other connections are left alone. */
export class PostgresConversation {
  /** Undefined: nothing was written yet. */
  #isPostgres: boolean | undefined
  #isAsking = false
  readonly #sent = new Frames()
  readonly #answers = new Frames()
  readonly #prepared = new Map<string, string>()
  #transaction: Transaction | undefined
  #committing: Transaction[] = []
  #hasFailed = false

  get isPostgres(): boolean {
    return this.#isPostgres === true
  }

  /** The open transaction, and those whose COMMIT is not answered. */
  get open(): readonly WireTransaction[] {
    return [...(this.#transaction === undefined ? [] : [this.#transaction]), ...this.#committing]
  }

  /** @param bytes - What the client is about to write. */
  write(bytes: Buffer): readonly WireEvent[] {
    if (this.#isPostgres === false) return []
    if (this.#isPostgres === undefined) {
      this.#recognize(bytes)
      return []
    }
    const events: WireEvent[] = []
    for (const { body, type } of this.#sent.take(bytes)) {
      if (type === 'Q') this.#execute(zeroTerminated(body)[0], [], events)
      if (type === 'P') this.#prepare(body)
      if (type === 'B') {
        const [, afterPortal] = zeroTerminated(body)
        const [name, from] = zeroTerminated(body, afterPortal)
        this.#execute(this.#prepared.get(name) ?? '', boundValues(body, from), events)
      }
    }
    return events
  }

  /** @param bytes - What has arrived. */
  read(bytes: Buffer): readonly WireEvent[] {
    if (this.#isPostgres !== true) {
      // The answer to the question for TLS. After a yes, the bytes are encrypted.
      if (this.#isAsking && bytes[0] !== 'N'.charCodeAt(0)) this.#isPostgres = false
      return []
    }
    const events: WireEvent[] = []
    for (const { body, type } of this.#answers.take(bytes)) {
      if (type === 'C') this.#completed(zeroTerminated(body)[0], events)
      if (type === 'E') this.#hasFailed = true
      if (type === 'Z') this.#ready(String.fromCharCode(body[0] ?? 0), events)
    }
    return events
  }

  #recognize(bytes: Buffer): void {
    const [length, code] =
      bytes.length < STARTUP_HEAD ? [0, 0] : [bytes.readUInt32BE(0), bytes.readUInt32BE(4)]
    if (length === STARTUP_HEAD && (code === SSL_REQUEST || code === GSS_REQUEST)) {
      this.#isAsking = true
      return
    }
    this.#isAsking = false
    this.#isPostgres = length >= STARTUP_HEAD && code >>> 16 === PROTOCOL_3
    // What follows the start-up message in the same chunk.
    if (this.#isPostgres) this.#sent.take(bytes.subarray(length))
  }

  #prepare(body: Buffer): void {
    const [name, next] = zeroTerminated(body)
    this.#prepared.set(name, zeroTerminated(body, next)[0])
  }

  #execute(text: string, values: readonly string[], events: WireEvent[]): void {
    const { beginsAt, commits, endsFirst, rollsBack } = controlOf(text)
    const before = this.#transaction
    if (before !== undefined && (commits || rollsBack)) {
      before.add(endsFirst ? text.slice(0, beginsAt) : text, values)
      if (commits) {
        events.push({ moment: 'before-commit', transaction: before })
        this.#committing.push(before)
      }
      this.#transaction = undefined
    }
    if (beginsAt !== undefined && (this.#transaction === undefined || endsFirst)) {
      this.#transaction = new Transaction()
      this.#transaction.add(text.slice(beginsAt), values)
      // A text that is a whole transaction.
      if (commits && before === undefined && !endsFirst) this.#transaction = undefined
      return
    }
    const transaction = this.#transaction
    if (transaction === undefined) return
    transaction.add(text, values)
    if (!transaction.isOpen) return
    transaction.statements += 1
    if (transaction.statements === 1) events.push({ moment: 'before-first-statement', transaction })
  }

  #completed(tag: string, events: WireEvent[]): void {
    // The COMMIT of a failed transaction is answered by ROLLBACK.
    if (tag !== 'COMMIT' && tag !== 'ROLLBACK') return
    const transaction = this.#committing.shift()
    if (tag === 'COMMIT' && transaction !== undefined)
      events.push({ moment: 'commit-answered', transaction })
  }

  #ready(status: string, events: WireEvent[]): void {
    if (this.#hasFailed) this.#committing = []
    this.#hasFailed = false
    const transaction = this.#transaction
    if (status === 'I') this.#transaction = transaction?.isOpen === true ? undefined : transaction
    if (status !== 'T' || transaction === undefined) return
    if (!transaction.isOpen) transaction.isOpen = true
    else if (transaction.statements > 0 && !transaction.hasAnsweredOne) {
      transaction.hasAnsweredOne = true
      events.push({ moment: 'after-first-statement', transaction })
    }
  }
}
