import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { isDeepStrictEqual, promisify } from 'node:util'
import {
  type Consumption,
  createGuard,
  type Delivery,
  FatalError,
  type Guard,
  header,
} from '@onceward/core'
import { deadLetters, migrate } from '@onceward/postgres'
import { pgInbox } from '@onceward/postgres/pg'
import { database, until } from '@onceward/testing'
import { Pool } from 'pg'
import { expect } from 'vitest'
import type { OperatorAddress } from '../../brokers/queue-under-test.ts'

const PROGRAM = fileURLToPath(
  new URL('../../../packages/onceward/bin/onceward.js', import.meta.url),
)

/** A message that differs from every other in this header alone is found again by it. */
export const ID = 'id'

/** A queue with its dead-letter queue, and messages of every kind in it. */
export interface Letters<Message> {
  /** How many messages were sent. */
  readonly sent: number
  consume(guard: Guard, publishes: boolean): Promise<Consumption>
  /** The client's own message of a delivery. */
  messageOf(delivery: Delivery): Message | undefined
  /** What is in the dead-letter queue, by id. Reads on until there are `count`. */
  published(count: number): Promise<ReadonlyMap<string, Message>>
  expectSame(letter: Message, original: Message): void
  /** How the command line names the broker of the queue. */
  readonly operator: OperatorAddress
  /** A message that was sent back to its queue, as its consumer gets it. */
  expectReturned(message: Message, original: Message): void
}

const quiet = (): void => undefined

/** A handler that fails for good keeps what it saw. */
class Witness<Message> {
  readonly seen = new Map<string, Message>()
  readonly #letters: Letters<Message>
  readonly #pool: Pool

  constructor(letters: Letters<Message>, pool: Pool) {
    this.#letters = letters
    this.#pool = pool
  }

  async run(publishes: boolean, isDone: () => Promise<boolean>): Promise<void> {
    const logger = { debug: quiet, info: quiet, warn: quiet, error: quiet }
    const options = {
      consumer: 'letters',
      inbox: pgInbox(this.#pool),
      eventKey: header(ID),
      // Some of them say that they are gzip, and are not.
      maxInflatedBytes: 0,
      logger,
    }
    const guard = createGuard({ ...options, decode: () => ({}) }, (event) => {
      const message = this.#letters.messageOf(event)
      if (message !== undefined) this.seen.set(event.key, message)
      expect(event.raw).toBe(message)
      throw new FatalError('no')
    })
    const consumption = await this.#letters.consume(guard, publishes)
    await until(isDone, { what: 'all messages to be dead', deadlineMs: 120_000, everyMs: 200 })
    await consumption.drain()
    await guard.close()
  }
}

/** From the delivery in hand. */
export async function diesWhole<Message>(letters: Letters<Message>): Promise<void> {
  await using testbed = await openTestbed()
  const witness = new Witness(letters, testbed.pool)
  let published: ReadonlyMap<string, Message> = new Map()
  await witness.run(true, async () => {
    published = await letters.published(letters.sent)
    return published.size === letters.sent
  })
  expectAll(letters, witness, published)
}

/** From the row: buried without a dead-letter place, replayed by other guards, published by their poller. */
export async function diesWholeAgain<Message>(letters: Letters<Message>): Promise<void> {
  await using testbed = await openTestbed()
  const first = new Witness(letters, testbed.pool)
  await first.run(false, async () => (await testbed.dead()) === letters.sent)
  expect(first.seen.size).toBe(letters.sent)
  const { done } = await deadLetters(testbed.pool).replay({ all: true })
  expect(done).toHaveLength(letters.sent)
  const second = new Witness(letters, testbed.pool)
  let published: ReadonlyMap<string, Message> = new Map()
  await second.run(true, async () => {
    published = await letters.published(letters.sent)
    return published.size === letters.sent
  })
  expect(second.seen.size).toBe(letters.sent)
  for (const [id, message] of second.seen) {
    // Vitest alone compares large bodies byte by byte, which takes a minute.
    const isSame = isDeepStrictEqual(message, first.seen.get(id))
    if (!isSame) expect(message).toStrictEqual(first.seen.get(id))
  }
  expectAll(letters, first, published)
}

/** From the row back to the queue, by the command line, to a consumer that handles them. */
export async function returnsWhole<Message>(letters: Letters<Message>): Promise<void> {
  await using testbed = await openTestbed()
  const first = new Witness(letters, testbed.pool)
  await first.run(false, async () => (await testbed.dead()) === letters.sent)
  const { address, env } = letters.operator
  const args = ['dead-letters', 'requeue', '--all', '--yes', '--json', '--broker', address]
  const { PATH = '' } = process.env
  const all = { PATH, DATABASE_URL: testbed.url, ...env }
  const { stdout } = await promisify(execFile)(process.execPath, [PROGRAM, ...args], { env: all })
  expect(JSON.parse(stdout)).toMatchObject({ untouched: [] })
  const second = new Witness(letters, testbed.pool)
  await second.run(false, async () => (await testbed.dead()) === letters.sent)
  expect([...second.seen.keys()].toSorted()).toEqual([...first.seen.keys()].toSorted())
  for (const [id, message] of second.seen) {
    letters.expectReturned(message, first.seen.get(id) as Message)
  }
}

function expectAll<Message>(
  letters: Letters<Message>,
  { seen }: Witness<Message>,
  published: ReadonlyMap<string, Message>,
): void {
  expect([...published.keys()].toSorted()).toEqual([...seen.keys()].toSorted())
  for (const [id, letter] of published) letters.expectSame(letter, seen.get(id) as Message)
}

async function openTestbed() {
  const { url } = await database()
  const pool = new Pool({ connectionString: url, max: 6 })
  await migrate(pool)
  const dead = async (): Promise<number> => {
    const text = "select count(*)::int as n from onceward.processed_events where state = 'x'"
    return (await pool.query<{ n: number }>(text)).rows[0]?.n ?? 0
  }
  return { pool, url, dead, [Symbol.asyncDispose]: () => pool.end() }
}

/** Our own headers say why a message died; all others are the message's. */
export function withoutReasons<Value>(headers: Readonly<Record<string, Value>>): object {
  const own = Object.entries(headers).filter(([name]) => !name.startsWith('x-onceward-'))
  return Object.fromEntries(own)
}
