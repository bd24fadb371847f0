import type { Delivery, Seal } from '@onceward/core'
import { toDelivery } from '@onceward/core/memory'
import { beforeEach, expect, test } from 'vitest'
import { all } from '../fixtures/inbox.ts'
import { dies, LARGE, order, SECRET, seals, useSealedTables } from '../fixtures/sealed.ts'
import { deadLetters, type QueueSender } from '../index.ts'

const tables = useSealedTables()

class Queue implements QueueSender {
  readonly sent: Delivery[] = []
  owns = (): boolean => true
  ready = async (): Promise<void> => undefined
  async send(delivery: Delivery): Promise<void> {
    this.sent.push(delivery)
  }
}

beforeEach(async () => {
  await tables.processed(seals.old, dies, order('a'))
  await tables.processed(seals.old, dies, order('b', LARGE))
  await tables.processed(seals.old, dies, toDelivery({ iban: SECRET }, { messageId: 'm' }))
})

test.each([
  ['without seal', undefined, /is sealed, and nothing here can open it. Give the `seal`/],
  ['with another key', seals.new, /could not be opened and stays as it is: there is no key 1/],
])('an operator %s sees what is sealed, and sends nothing of it', async (_, seal, why) => {
  const letters = deadLetters(tables.pool, seal === undefined ? {} : { seal })
  const listed = await all(letters.list())
  expect(listed).toHaveLength(3)
  for (const { delivery, id, sealed } of listed) {
    expect(delivery).toMatchObject({ body: new Uint8Array(), headers: {} })
    expect([delivery.envelope, delivery.sealed]).toEqual([undefined, undefined])
    expect(sealed?.bytes).toBeGreaterThan(30)
    expect(sealed?.error.message).toMatch(why)
    expect((await letters.show(id))?.sealed?.bytes).toBe(sealed?.bytes)
  }
  const queue = new Queue()
  const report = await letters.requeue({ all: true }, queue)
  const error = expect.stringMatching(why)
  expect(report).toMatchObject({
    done: [],
    untouched: listed.map(() => ({ why: 'sealed', error })),
  })
  expect(queue.sent).toEqual([])
  expect(await all(letters.list())).toHaveLength(3)
  const { rows } = await tables.pool.query('select action from onceward.audit')
  expect(rows).toEqual([])
})

test('an operator with seal sees and requeues them as they came', async () => {
  const letters = deadLetters(tables.pool, { seal: seals.rotated })
  const listed = await all(letters.list())
  expect(listed.map(({ sealed }) => sealed)).toEqual([undefined, undefined, undefined])
  expect(listed[0]?.delivery).toEqual({ ...order('a'), source: listed[0]?.delivery.source })
  const queue = new Queue()
  expect((await letters.requeue({ all: true }, queue)).done).toHaveLength(3)
  expect(queue.sent.map(({ sealed }) => sealed)).toEqual([undefined, undefined, undefined])
  expect(queue.sent.every(({ body }) => Buffer.from(body).includes(SECRET))).toBe(true)
  expect(queue.sent[1]?.body.byteLength).toBeGreaterThan(LARGE.length)
  expect(await all(letters.list())).toEqual([])
})

test('a dead letter that has changed since it was opened is left as it is', async () => {
  const [first] = await all(deadLetters(tables.pool).list())
  const id = first?.id ?? ''
  const change = "update onceward.failed_events set body = body || '\\x00' where event_id = $1"
  const slow: Seal = {
    ...seals.old,
    open: async (bytes, context) => {
      await tables.pool.query(change, [id])
      return seals.old.open(bytes, context)
    },
  }
  const queue = new Queue()
  const report = await deadLetters(tables.pool, { seal: slow }).requeue(id, queue)
  expect(report.untouched).toEqual([{ id, why: 'held' }])
  expect(queue.sent).toEqual([])
})

test('a `seal` without its two functions is refused', () => {
  const wrong = (): unknown => deadLetters(tables.pool, { seal: {} as never })
  expect(wrong).toThrow(/Expected `seal` of deadLetters to be `\{ seal, open \}`/)
})
