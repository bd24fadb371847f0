import { setImmediate as turn } from 'node:timers/promises'
import { afterEach, describe, expect, test } from 'vitest'
import { Clock } from '../../fixtures/clock.ts'
import { changed, changedInbox, registration, silent } from '../../fixtures/inbox.ts'
import { never } from '../../fixtures/never.ts'
import { type ToySeal, toySeal } from '../../fixtures/toy-seal.ts'
import { type MemoryInbox, memoryInbox, memoryLeases, toDelivery } from '../../memory/index.ts'
import type { Delivery } from '../../model/delivery.ts'
import { FatalError, SealError } from '../../model/errors.ts'
import { type Guard, portOf } from '../../model/guard-port.ts'
import type { DueEvent } from '../../model/inbox.ts'
import type { Logger } from '../../model/logger.ts'
import type { InboxGuardOptions } from '../../options/options.ts'
import type { Seal } from '../../options/seal.ts'
import { createGuard } from '../guard.ts'

const SECRET = 'secret-of-a-customer'
/** Closed with their test: files share a process, and a poller would meet the fake timers of another one. */
const open: Guard[] = []
afterEach(async () => {
  await Promise.all(open.splice(0).map((guard) => guard.close()))
})
const closed = <One>(guard: One): One => {
  open.push(guard as Guard)
  return guard
}

type Given = Partial<InboxGuardOptions<unknown, undefined>>
type Do = (payload: unknown, context: { outbox: { send(message: object): void } }) => unknown

const message = (key: string, payload: unknown = { note: SECRET }): Delivery => ({
  ...toDelivery(payload, { headers: { 'idempotency-key': key, 'x-note': SECRET } }),
  envelope: Buffer.from(`envelope ${SECRET}`),
})

function guardOf(inbox: MemoryInbox<undefined>, given: Given, handler: Do): Guard {
  const guard = createGuard(
    { consumer: 'billing', inbox, logger: silent, retry: { attempts: 2 }, ...given } as Given &
      InboxGuardOptions<unknown, undefined>,
    ({ payload }, context) => handler(payload, context as never) as undefined,
  )
  return given.runtime === undefined ? closed(guard) : guard
}

const dies: Do = () => {
  throw new FatalError('no such account')
}
const withResult = (guard: Guard, delivery: Delivery) =>
  guard.process(delivery, { needsResult: true })

/** What is in the inbox, as texts in which a search finds what is stored in plain. */
async function stored(inbox: MemoryInbox<undefined>): Promise<string> {
  const letters = inbox
    .deadLetters()
    .map(({ delivery: { body, envelope, headers } }) =>
      [Buffer.from(body), JSON.stringify(headers), Buffer.from(envelope ?? [])].join(' '),
    )
  const sent = inbox.sent().map((each) => [each.payload, JSON.stringify(each.headers)].join(' '))
  const session = await inbox.open(registration())
  const due = (await session.due(100)).map(({ delivery }) => Buffer.from(delivery.body))
  return [...letters, ...sent, ...due].join('\n')
}

/** Until the poller of a running guard has done what is awaited. */
async function polled(clock: Clock, isDone: () => boolean): Promise<void> {
  for (let turns = 0; turns < 400 && !isDone(); turns += 1) await pass(clock, 100)
}

async function pass(clock: Clock, ms: number): Promise<void> {
  for (let passedMs = 0; passedMs < ms; passedMs += 50) {
    clock.advance(50)
    for (let turns = 0; turns < 20; turns += 1) await turn()
  }
}

describe('a guard with seal', () => {
  test('stores results and messages of the outbox sealed, and its callers get them opened', async () => {
    const [inbox, seal] = [memoryInbox(), toySeal(7)]
    const guard = guardOf(inbox, { seal }, (payload, { outbox }) => {
      outbox.send({ to: 'mail', key: 'k', payload, headers: { 'x-note': SECRET } })
      return payload
    })
    const result = { note: SECRET }
    expect(await withResult(guard, message('a'))).toEqual({ kind: 'ack', by: 'processed', result })
    const again = guardOf(inbox, { seal }, dies)
    expect(await withResult(again, message('a'))).toEqual({ kind: 'ack', by: 'duplicate', result })
    expect(inbox.sent()).toMatchObject([{ to: 'mail', key: 'k' }])
    expect(await stored(inbox)).not.toContain(SECRET)
    expect(seal.calls).toEqual([
      'seal billing result',
      'seal billing payload',
      'seal billing headers',
      'open billing result',
    ])
  })

  test('asks for nothing where no result is stored or read', async () => {
    const [inbox, seal] = [memoryInbox(), toySeal(7)]
    const guard = guardOf(inbox, { seal }, () => undefined)
    await guard.process(message('a'))
    expect(seal.calls).toEqual([])
    await guardOf(inbox, { seal }, () => 1).process(message('b'))
    seal.calls.length = 0
    // Nobody asked for the result, so a missing key is no reason to keep the message.
    const other = guardOf(inbox, { seal: toySeal(8) }, dies)
    expect(await other.process(message('b'))).toEqual({ kind: 'ack', by: 'duplicate' })
    expect(seal.calls).toEqual([])
  })

  test('stores failures and dead letters sealed, and a replay gets the message as it came', async () => {
    const clock = new Clock()
    const [inbox, seal] = [memoryInbox(), toySeal(7)]
    const runs: unknown[] = []
    let isFixed = false
    const guard = guardOf(inbox, { seal, runtime: clock.runtime }, (payload) => {
      runs.push(payload)
      if (!isFixed) throw new Error('no such account')
    })
    expect(await clock.until(guard.process(message('a')))).toMatchObject({ kind: 'defer' })
    clock.advance(400_000)
    expect(await clock.until(guard.process(message('a')))).toMatchObject({ kind: 'dead-letter' })
    const [letter] = inbox.deadLetters()
    expect(letter).toMatchObject({ key: 'a', delivery: { sealed: true } })
    expect(await stored(inbox)).not.toContain(SECRET)
    isFixed = true
    inbox.replay(letter?.ref as never)
    await polled(clock, () => runs.length === 3)
    expect(runs).toEqual([{ note: SECRET }, { note: SECRET }, { note: SECRET }])
    await clock.until(guard.close())
    expect(inbox.deadLetters()).toEqual([])
  })

  test('knows a refused message by the hash of the message as it came', async () => {
    const inbox = memoryInbox()
    const refused = toDelivery({ note: SECRET }, { headers: { 'x-note': SECRET }, messageId: 'm' })
    for (const key of [7, 8]) await guardOf(inbox, { seal: toySeal(key) }, dies).process(refused)
    await guardOf(inbox, {}, dies).process(refused)
    expect(inbox.deadLetters()).toHaveLength(1)
  })

  test('opens what other keys have sealed, and reads what was stored before it had one', async () => {
    const inbox = memoryInbox()
    await guardOf(inbox, {}, () => 'plain').process(message('a'))
    await guardOf(inbox, { seal: toySeal(7) }, () => 'old').process(message('b'))
    const seal = toySeal(8, [7])
    const guard = guardOf(inbox, { seal }, () => 'new')
    const results = []
    for (const key of ['a', 'b', 'c', 'c']) results.push(await withResult(guard, message(key)))
    expect(results).toMatchObject([
      { by: 'duplicate', result: 'plain' },
      { by: 'duplicate', result: 'old' },
      { by: 'processed', result: 'new' },
      { by: 'duplicate', result: 'new' },
    ])
  })

  test('beside or without an inbox, a lease store gets sealed results', async () => {
    const seal = toySeal(7)
    const told: unknown[] = []
    const leases = memoryLeases()
    const watched = changed(leases, {
      complete: async (done, rememberMs) => {
        told.push(...done.map(({ result }) => result))
        return leases.complete(done, rememberMs)
      },
      open: undefined as never,
    })
    const options = { consumer: 'billing', leases: watched, seal, logger: silent } as const
    const alone = closed(createGuard({ ...options, onTakeover: 'retry' }, () => SECRET))
    const beside = closed(createGuard({ ...options, inbox: memoryInbox() }, () => SECRET))
    for (const [guard, key] of [[alone, 'a'] as const, [beside, 'b'] as const]) {
      for (const by of ['processed', 'duplicate']) {
        const settlement = await withResult(guard as Guard, message(key))
        expect(settlement).toEqual({ kind: 'ack', by, result: SECRET })
      }
    }
    expect(told.length).toBeGreaterThan(1)
    expect(JSON.stringify(told)).not.toContain(SECRET)
    expect(told).toContainEqual({ 'onceward-sealed': expect.any(String) })
  })

  test('does not start with an inbox that would forget what is sealed', async () => {
    const inbox = changedInbox(memoryInbox(), () => ({ keepsSealed: undefined }))
    const guard = createGuard({ consumer: 'c', inbox, seal: toySeal(7), logger: silent }, () => 1)
    await expect(guard.process(message('a'))).rejects.toThrow(/Expected no `seal` beside this/)
  })

  test.each([undefined, 1, {}, { seal: () => 1 }])('refuses %j as seal', (seal) => {
    const make = (): Guard =>
      createGuard({ consumer: 'c', inbox: memoryInbox(), seal: seal as never }, () => 1) as Guard
    if (seal === undefined) expect(make().consumer).toBe('c')
    else expect(make).toThrow(/Expected `seal` to be `\{ seal, open \}`/)
  })

  test('a result that looks sealed is refused, so that none is taken for one', async () => {
    const inbox = memoryInbox()
    const fake = guardOf(inbox, {}, () => ({ 'onceward-sealed': 'AAAA' }))
    const error = { message: expect.stringMatching(/has only the field "onceward-sealed"/) }
    expect(await fake.process(message('a'))).toMatchObject({ kind: 'defer', error })
    const more = guardOf(inbox, {}, () => ({ 'onceward-sealed': 'AAAA', more: 1 }))
    expect(await more.process(message('b'))).toMatchObject({ kind: 'ack' })
  })
})

describe('what cannot be sealed', () => {
  const FAULTS: readonly (readonly [string, NonNullable<ToySeal['fault']>])[] = [
    [
      'because seal throws',
      () => {
        throw new Error('the key service is away')
      },
    ],
    ['because seal rejects', () => Promise.reject(new Error('away'))],
    ['because seal answers no bytes', () => 'text' as never],
    ['because seal hangs', () => never()],
  ]
  describe.each(FAULTS)('%s', (_, fault) => {
    test.each([
      ['a result', () => SECRET],
      [
        'a message of the outbox',
        ((_payload, { outbox }) => outbox.send({ to: 'm', payload: SECRET })) as Do,
      ],
      ['a dead letter', dies],
      [
        'a failure',
        (() => {
          throw new Error('not yet')
        }) as Do,
      ],
    ])(
      '(%s) is tried again, as when the store is down, and nothing is stored',
      async (what, handler) => {
        const clock = new Clock()
        const [inbox, seal] = [memoryInbox(), toySeal(7)]
        seal.fault = fault
        const guard = guardOf(inbox, { seal, runtime: clock.runtime }, handler)
        const settlement = await clock.until(guard.process(message('a')))
        const error = {
          code: 'ONCEWARD_SEAL',
          message: expect.stringMatching(/could not be sealed/),
        }
        expect(settlement).toMatchObject({ kind: 'defer', reason: 'store-down', error })
        const session = await inbox.open(registration())
        expect([inbox.deadLetters(), inbox.sent(), await session.due(9)]).toEqual([[], [], []])
        expect(portOf(guard).availability()).toMatchObject({ kind: 'down' })
        seal.fault = undefined
        clock.advance(60_000)
        const kinds = { 'a dead letter': 'dead-letter', 'a failure': 'defer' } as Record<
          string,
          string
        >
        const last = await clock.until(guard.process(message('a')))
        expect(last.kind).toBe(kinds[what] ?? 'ack')
        if (what === 'a failure') expect(last).toMatchObject({ reason: 'failed' })
        expect(await stored(inbox)).not.toContain(SECRET)
        await clock.until(guard.close())
      },
    )
  })
})

describe('what cannot be opened', () => {
  const SEALS: readonly (readonly [string, Seal | undefined])[] = [
    ['without seal', undefined],
    ['with another key', toySeal(8)],
  ]
  describe.each(SEALS)('%s', (_, seal) => {
    test('is a result that is not handed out: the delivery is deferred with the error', async () => {
      const inbox = memoryInbox()
      await guardOf(inbox, { seal: toySeal(7) }, () => SECRET).process(message('a'))
      const given = seal === undefined ? {} : { seal }
      const settlement = await withResult(guardOf(inbox, given, dies), message('a'))
      expect(settlement).toMatchObject({ kind: 'defer', reason: 'failed' })
      expect(settlement).toHaveProperty('error', expect.any(SealError))
      const calls: unknown[] = []
      const afterCommit = (result: unknown): void => void calls.push(result)
      const told = await guardOf(inbox, { ...given, afterCommit }, dies).process(message('a'))
      expect([told.kind, calls]).toEqual(['defer', []])
      const right = guardOf(inbox, { seal: toySeal(7), afterCommit }, dies)
      expect([(await right.process(message('a'))).kind, calls]).toEqual(['ack', [SECRET]])
    })

    test('is a stored message that stays and does not run, is said once, and holds up no other', async () => {
      const clock = new Clock()
      const inbox = memoryInbox()
      const guardOfOthers = guardOf(inbox, { seal: toySeal(7), runtime: clock.runtime }, dies)
      for (let n = 0; n < 12; n += 1) await clock.until(guardOfOthers.process(message(`${n}`)))
      await clock.until(guardOfOthers.close())
      for (const { ref } of inbox.deadLetters()) inbox.replay(ref)
      const plain = guardOf(inbox, { runtime: clock.runtime }, dies)
      await clock.until(plain.process(message('plain')))
      await clock.until(plain.close())
      for (const { ref } of inbox.deadLetters()) inbox.replay(ref)
      const lines: string[] = []
      const error: Logger['error'] = (fields, text) =>
        void lines.push(`${(fields as { id: string }).id} ${text}`)
      const logger = { ...silent, error }
      const runs: unknown[] = []
      const given = { logger, runtime: clock.runtime, ...(seal === undefined ? {} : { seal }) }
      const guard = guardOf(inbox, given, (payload) => void runs.push(payload))
      await clock.until(portOf(guard).open() as Promise<void>)
      await polled(clock, () => runs.length > 0)
      await pass(clock, 20_000)
      expect(runs).toEqual([{ note: SECRET }])
      expect(new Set(lines).size).toBe(12)
      expect(lines).toHaveLength(12)
      expect(lines[0]).toMatch(/cannot be opened and stays where it is: give the guard the `seal`/)
      await clock.until(guard.close())
      const session = await inbox.open(registration())
      const due: readonly DueEvent[] = await session.due(100)
      expect(due.map(({ delivery }) => delivery.sealed)).toEqual(
        Array.from({ length: 12 }, () => true),
      )
    })
  })
})
