import { expect, test } from 'vitest'
import { silent } from '../../fixtures/inbox.ts'
import { memoryInbox, memoryLeases, toDelivery } from '../../memory/index.ts'
import type { DeadLetter } from '../../model/dead-letter.ts'
import type { Delivery, GuardEvent } from '../../model/delivery.ts'
import { portOf } from '../../model/guard-port.ts'
import type { Handler } from '../../options/options.ts'
import { deadLetterHeaders } from '../../settlement/dead-letter-headers.ts'
import { createGuard } from '../guard.ts'

interface Item {
  readonly id: string
  readonly n?: unknown
}

const LARGE = 12_345_678_901_234_567_890n
const ITEMS: readonly Item[] = [{ id: 'a' }, { id: 'b', n: LARGE }]
const HEADERS = { 'reply-to': 'quotes', 'X-Onceward-Reason': 'fatal', 'x-onceward-other': '1' }

/** A guard whose item `b` has no key until it is mended. */
function setUp(given: object = {}) {
  const state = { isMended: false, warned: [] as string[] }
  const ran: Item[] = []
  const seen: GuardEvent<Item>['headers'][] = []
  const see = ({ headers }: Delivery): void => void seen.push(headers)
  const logger = { ...silent, warn: (_: object, text: string) => void state.warned.push(text) }
  const options = {
    ...{ consumer: 'uploads', inbox: memoryInbox(), logger, ...given },
    decode: (body: Uint8Array, delivery: Delivery) => {
      see(delivery)
      const text = Buffer.from(body).toString()
      return text === 'whole' ? { Records: ITEMS } : JSON.parse(text)
    },
    skip: (delivery: Delivery) => see(delivery),
    split: (delivery: GuardEvent<{ Records: Item[] }>) => {
      see(delivery)
      return delivery.payload.Records
    },
    eventKey: (delivery: GuardEvent<Item>) => {
      see(delivery)
      return delivery.payload.id === 'b' && !state.isMended ? undefined : delivery.payload.id
    },
  }
  const handler = async (event: GuardEvent<Item>): Promise<void> => {
    see(event)
    ran.push(event.payload)
  }
  const guard = createGuard(options as never, handler as Handler<unknown, never>)
  return { guard, ran, seen, state }
}

const whole = (headers: Delivery['headers'] = HEADERS): Delivery =>
  toDelivery(null, { body: Buffer.from('whole'), headers, messageId: 'm' })

/** The message that a dead letter is, as an adapter reads it again. */
const readAgain = ({ delivery }: DeadLetter, letter: DeadLetter): Delivery => ({
  ...whole({ ...delivery.headers, ...deadLetterHeaders(letter) }),
  body: delivery.body,
})

async function withLetter(given: object = {}) {
  const kit = setUp(given)
  const letters: DeadLetter[] = []
  const publish = async (letter: DeadLetter): Promise<void> => void letters.push(letter)
  portOf(kit.guard).registerPublisher(whole().source, publish)
  expect(await kit.guard.process(whole())).toMatchObject({ kind: 'ack' })
  const [letter] = letters
  if (letter === undefined) throw new Error('nothing was published')
  kit.ran.length = 0
  return { ...kit, letter, letters, message: readAgain(letter, letter), publish }
}

const FORGED = ['0', '3n', '', '1n.', `1n.${'A'.repeat(43)}`, `1.${'A'.repeat(43)}`]

// Red when the header alone makes a message an item: it is acked, and none of its events has run.
test.each([
  ['an inbox', () => ({})],
  ['leases alone', () => ({ inbox: undefined, leases: memoryLeases(), onTakeover: 'retry' })],
])('a message whose producer wrote the header of an item is split, with %s', async (_, given) => {
  for (const mark of FORGED) {
    const { guard, ran, state } = setUp(given())
    state.isMended = true
    expect(await guard.process(whole({ 'x-onceward-item': mark }))).toMatchObject({ kind: 'ack' })
    expect(ran.toSorted((a, b) => (a.id < b.id ? -1 : 1))).toEqual(ITEMS)
    await guard.close()
  }
})

test('a forged header is warned of once', async () => {
  const { guard, state } = setUp()
  for (const _ of [1, 2]) await guard.process(whole({ 'x-onceward-item': '0' }))
  expect(state.warned.filter((text) => text.includes('x-onceward-item'))).toEqual([
    expect.stringMatching(/without the mark of this consumer/),
  ])
  await guard.close()
})

test('no function of the user sees a header of onceward, so none passes one on', async () => {
  const { guard, seen, state } = setUp()
  state.isMended = true
  await guard.process(whole())
  expect(seen.length).toBeGreaterThan(6)
  for (const headers of seen) expect(headers).toEqual({ 'reply-to': 'quotes' })
  await guard.close()
})

test('a dead item that is put back on its queue is one event', async () => {
  const { guard, message, ran, state } = await withLetter()
  state.isMended = true
  expect(await guard.process(message)).toEqual({ kind: 'ack', by: 'processed' })
  expect(ran).toEqual([ITEMS[1]])
  expect(await guard.process(message)).toEqual({ kind: 'ack', by: 'duplicate' })
  expect(state.warned).toEqual([])
  await guard.close()
})

test('a dead item that is put back and dies again has its mark again', async () => {
  const { guard, letter, letters, message, publish } = await withLetter()
  const settlement = await guard.process({ ...message, messageId: 'put back' })
  expect(settlement).toMatchObject({ kind: 'dead-letter', reason: 'missing-event-key' })
  expect(await portOf(guard).publishDeadLetter(settlement, publish)).toEqual({ kind: 'published' })
  expect(letters.map(({ itemMark }) => itemMark)).toEqual([letter.itemMark, letter.itemMark])
  await guard.close()
})

test.each([
  ['with another body', (message: Delivery) => ({ ...message, body: Buffer.from('{"id":"c"}') })],
  [
    'with another number',
    (message: Delivery) => {
      const mark = message.headers['x-onceward-item']?.replace(/^1/, '2')
      return { ...message, headers: { ...message.headers, 'x-onceward-item': mark } }
    },
  ],
])('a mark %s is none', async (_, changed) => {
  const { guard, message, ran, state } = await withLetter()
  state.isMended = true
  expect(message.headers['x-onceward-item']).toMatch(/^1n\.[\w-]{43}$/)
  expect(await guard.process(changed(message))).toMatchObject({
    ...{ kind: 'dead-letter', reason: 'invalid-payload' },
  })
  expect(ran).toEqual([])
  await guard.close()
})

test('the item of one consumer is a message like any other for another one', async () => {
  const inbox = memoryInbox()
  const { guard, message } = await withLetter({ inbox })
  const other = setUp({ inbox, consumer: 'thumbnails' })
  other.state.isMended = true
  expect(await other.guard.process(message)).toMatchObject({
    ...{ kind: 'dead-letter', reason: 'invalid-payload' },
  })
  expect(other.ran).toEqual([])
  await guard.close()
  await other.guard.close()
})
