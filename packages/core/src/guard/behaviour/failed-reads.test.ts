import { describe, expect, test } from 'vitest'
import { Clock } from '../../fixtures/clock.ts'
import { silent } from '../../fixtures/inbox.ts'
import { AS_OPTION } from '../../fixtures/user-functions.ts'
import { memoryInbox, memoryLeases, toDelivery } from '../../memory/index.ts'
import type { Delivery } from '../../model/delivery.ts'
import { FatalError, InvalidPayloadError } from '../../model/errors.ts'
import type { Guard } from '../../model/guard-port.ts'
import type { Settlement } from '../../model/settlement.ts'
import { createGuard } from '../guard.ts'

const ATTEMPTS = 3
const again = (payload = 'bad'): Delivery => ({
  ...toDelivery(payload, { headers: { 'idempotency-key': payload }, messageId: payload }),
  redelivered: true,
})
const first = (payload = 'bad'): Delivery => ({ ...again(payload), redelivered: false })

interface Living {
  readonly guard: Guard
  readonly clock: Clock
  readonly ran: unknown[]
  readonly lines: unknown[]
}

/** A process with a guard of its own. */
function start(given: object): Living {
  const clock = new Clock()
  const ran: unknown[] = []
  const lines: unknown[] = []
  const logger = { ...silent, warn: (_: object, text: string) => void lines.push(text) }
  const guard = createGuard(
    {
      ...{ consumer: 'billing', logger, runtime: clock.runtime, retry: { attempts: ATTEMPTS } },
      ...given,
    } as never,
    ({ payload }) => void ran.push(payload),
  )
  return { guard, clock, ran, lines }
}

const NAMES = [
  'decode',
  'skip',
  'schema',
  'eventKey',
  'tenant',
  'orderingKey',
  'fingerprint',
] as const
const throwing = (error: unknown) => (): never => {
  throw error
}
const outage = (): Error => Object.assign(new Error('503'), { code: 'ECONNREFUSED' })
const FAILED = { kind: 'defer', reason: 'failed', cause: 'identify-failed' }
const SPENT = { kind: 'dead-letter', reason: 'attempts-spent' }

// Red before: the first error of a registry that was down for a moment dead-lettered the message.
test.each(NAMES)(
  'a %s that throws is called again with back-off until the attempts are spent',
  async (name) => {
    const inbox = memoryInbox()
    const ends: Settlement[] = []
    for (let n = 0; n < ATTEMPTS; n += 1) {
      // The counts are those of the inbox: each read is one of another process.
      const { guard, lines } = start({ inbox, ...AS_OPTION[name](throwing(outage())) })
      ends.push(await guard.process(n === 0 ? first() : again()))
      expect(lines).toEqual(
        n + 1 < ATTEMPTS ? ['the message could not be read yet and is read again later'] : [],
      )
      await guard.close()
    }
    expect(ends).toMatchObject([FAILED, FAILED, SPENT])
    expect(ends[2]).toHaveProperty('error.message', `\`${name}\` threw Error: 503`)
    expect(inbox.deadLetters()).toMatchObject([
      { reason: 'attempts-spent', ref: { kind: 'refused' } },
    ])
  },
)

const stores = {
  'an inbox': () => ({ inbox: memoryInbox() }),
  'leases alone': (clock: Clock) => ({ leases: memoryLeases(clock.runtime), onTakeover: 'retry' }),
}

describe.each(Object.entries(stores))('with %s', (_, open) => {
  test('an outage that ends costs nothing but time, and the next one is counted from the start', async () => {
    let isDown = true
    const decode = async (body: Uint8Array): Promise<unknown> => {
      if (isDown) throw outage()
      return JSON.parse(Buffer.from(body).toString())
    }
    const clock = new Clock()
    const living = start({ ...open(clock), decode })
    for (const round of ['a', 'b']) {
      isDown = true
      for (let n = 1; n < ATTEMPTS; n += 1)
        expect(await living.guard.process(again(round))).toMatchObject(FAILED)
      isDown = false
      expect(await living.guard.process(again(round))).toMatchObject({ by: 'processed' })
      isDown = true
      expect(await living.guard.process(again(round))).toMatchObject(FAILED)
    }
    expect(living.ran).toEqual(['a', 'b'])
    await living.guard.close()
  })

  test('a message is dead when its attempts are spent, and its neighbours are processed', async () => {
    const { guard } = start({ ...open(new Clock()), ...AS_OPTION.decode(throwing(outage())) })
    const kinds: string[][] = []
    for (let n = 0; n < ATTEMPTS; n += 1) {
      const ends = await guard.processBatch([first('good'), first(), again('good-2')])
      kinds.push(ends.map(({ kind }) => kind))
    }
    const deferred = ['ack', 'defer', 'ack']
    expect(kinds).toEqual([deferred, deferred, ['ack', 'dead-letter', 'ack']])
    await guard.close()
  })

  test.each([
    ['an InvalidPayloadError', new InvalidPayloadError('no order'), 'invalid-payload'],
    ['a SyntaxError', new SyntaxError('no JSON'), 'invalid-payload'],
    ['a FatalError', new FatalError('no such shop'), 'fatal'],
    ['an error that `isFatal` knows', new TypeError('no such type'), 'fatal'],
  ])('%s is the fault of the message: it is dead at once', async (_name, error, reason) => {
    const isFatal = (thrown: unknown): boolean => thrown instanceof TypeError
    const given = { ...open(new Clock()), isFatal, ...AS_OPTION.decode(throwing(error)) }
    const { guard } = start(given)
    expect(await guard.process(first())).toMatchObject({ kind: 'dead-letter', reason })
    await guard.close()
  })
})

test('a message is deferred, and not dead-lettered, while its failed read cannot be counted', async () => {
  const down = (): Promise<never> => Promise.reject(new Error('the store is down'))
  const inbox = memoryInbox()
  const { guard } = start({
    inbox,
    ...AS_OPTION.decode(throwing(outage())),
    retry: { attempts: 1 },
  })
  const opened = inbox.open.bind(inbox)
  inbox.open = async (registration) => {
    const session = await opened(registration)
    return Object.assign(Object.create(session), {
      messageCounts: { ...session.messageCounts, failed: down },
    })
  }
  expect(await guard.process(first())).toMatchObject({ kind: 'defer', reason: 'store-down' })
  expect(inbox.deadLetters()).toEqual([])
  await guard.close()
})

test('a message that is read too slowly is counted like one whose read throws', async () => {
  const decode = (): Promise<never> => new Promise(() => undefined)
  const { clock, guard } = start({ inbox: memoryInbox(), decode, retry: { attempts: 2 } })
  expect(await clock.until(guard.process(first()))).toMatchObject(FAILED)
  expect(await clock.until(guard.process(again()))).toMatchObject(SPENT)
  await guard.close()
})

test('a replayed message is read from the start, and its attempts are counted again', async () => {
  const inbox = memoryInbox()
  const { guard } = start({ inbox, ...AS_OPTION.decode(throwing(outage())) })
  for (let n = 0; n < ATTEMPTS; n += 1) await guard.process(again())
  const [letter] = inbox.deadLetters()
  if (letter === undefined) throw new Error('there is no dead letter')
  inbox.replay(letter.ref)
  expect(await guard.process(again())).toMatchObject(FAILED)
  await guard.close()
})
