import { expect, test, vi } from 'vitest'
import { callers, common, failing, type Given, guardOf } from '../../fixtures/callers.ts'
import { memoryInbox, memoryLeases, toDelivery } from '../../memory/index.ts'
import { FatalError } from '../../model/errors.ts'
import type { Inbox } from '../../model/inbox.ts'
import type { GuardOptions } from '../../options/options.ts'
import { createCallerGuard, createGuard } from '../guard.ts'

const STORES = {
  'an inbox': (): Given => ({ inbox: memoryInbox() }),
  'an inbox and leases': (): Given => ({ inbox: memoryInbox(), leases: memoryLeases() }),
  'leases alone': (): Given => ({ leases: memoryLeases(), onTakeover: 'dead-letter' }) as Given,
}

test.each(Object.entries(STORES))(
  'with %s a failed event runs again at once, as often as its caller asks',
  async (_name, stores) => {
    const guard = guardOf(stores(), failing(25))
    const delivery = toDelivery({ cents: 5 })
    for (let run = 1; run <= 25; run++) {
      const failed = await guard.process(delivery)
      expect(failed).toMatchObject({ kind: 'defer', reason: 'failed', cause: 'handler-failed' })
    }
    expect(await guard.process(delivery)).toMatchObject({ by: 'processed', result: 'charged' })
    expect(await guard.process(delivery)).toMatchObject({ by: 'duplicate', result: 'charged' })
    await guard.close()
  },
)

test.each(Object.entries(STORES))(
  'with %s a fatal error dead-letters nothing',
  async (_name, stores) => {
    const given = stores()
    const guard = guardOf(given, failing(1, new FatalError('no such account')))
    const delivery = toDelivery({ cents: 5 })
    expect(await guard.process(delivery)).toMatchObject({ kind: 'defer', reason: 'failed' })
    expect(await guard.process(delivery)).toMatchObject({ by: 'processed' })
    if ('inbox' in given)
      expect((given.inbox as ReturnType<typeof memoryInbox>).deadLetters()).toEqual([])
    await guard.close()
  },
)

test('a refused event is answered and not recorded', async () => {
  const inbox = memoryInbox()
  const guard = guardOf({ inbox }, failing(0))
  const body = new TextEncoder().encode('{')
  expect(await guard.process(toDelivery(1, { body }))).toMatchObject({
    kind: 'dead-letter',
    reason: 'invalid-payload',
  })
  expect(await guard.process(toDelivery(1, { headers: {} }))).toMatchObject({
    reason: 'missing-event-key',
  })
  expect(inbox.deadLetters()).toEqual([])
  await guard.close()
})

test('with leases alone an event keeps its lease while a handler past its deadline still runs', async () => {
  const stuck = Promise.withResolvers<string>()
  const handler = vi.fn(() => stuck.promise)
  const given = { leases: memoryLeases(), onTakeover: 'retry', deadlineMs: 20 } as Given
  const guard = guardOf({ ...given, claimWaitMs: 1 }, handler)
  const delivery = toDelivery({ cents: 5 })
  expect(await guard.process(delivery)).toMatchObject({ kind: 'abandon', reason: 'deadline' })
  expect(await guard.process(delivery)).toMatchObject({ reason: 'in-progress' })
  expect(handler).toHaveBeenCalledTimes(1)
  stuck.resolve('charged')
  await guard.close()
})

test('an event that another guard of the consumer has parked waits and is counted as there', async () => {
  const inbox = memoryInbox()
  const delivery = toDelivery({ cents: 5 })
  const worker = createGuard(
    { ...common, inbox, retry: { attempts: 3, baseMs: 60_000 } },
    failing(1),
  )
  expect(await worker.process(delivery)).toMatchObject({ reason: 'failed' })
  const guard = guardOf({ inbox }, failing(0))
  expect(await guard.process(delivery)).toMatchObject({ kind: 'defer', reason: 'not-due' })
  await Promise.all([worker.close(), guard.close()])
})

test.each([
  ['an error', false, ['warn']],
  ['a deliberate answer', true, ['debug']],
] as const)('%s of the handler is logged as %j: %j', async (_what, isAnswer, levels) => {
  const seen: string[] = []
  const line = (level: string) => () => void seen.push(level)
  const logger = {
    debug: line('debug'),
    info: line('info'),
    warn: line('warn'),
    error: line('error'),
  }
  const options = { ...common, logger, inbox: memoryInbox() } as GuardOptions<unknown, unknown>
  const handler = failing(1)
  const guard = createCallerGuard('createTestGuard', options, { isAnswer: () => isAnswer, handler })
  await guard.process(toDelivery(1))
  expect(seen).toEqual(levels)
  await guard.close()
})

test('an error of the options names the function that the user called', () => {
  const options = { consumer: 'charges', inbox: memoryInbox(), leaze: 1 } as never
  expect(() =>
    createCallerGuard('createTestGuard', options, { ...callers, handler: failing(0) }),
  ).toThrow(/createTestGuard does not know "leaze"/)
})

/** An inbox that tells which events its guard takes for done. Its history has no name, so no guard answers from memory. */
function toldInbox(): { readonly inbox: Inbox<undefined>; readonly told: unknown[] } {
  const inner: Inbox<undefined> = memoryInbox()
  const told: unknown[] = []
  const open: Inbox<undefined>['open'] = async (registration) => {
    const session = await inner.open(registration)
    const begin: typeof session.begin = (request) => {
      told.push(request.likelyDone)
      return session.begin(request)
    }
    return new Proxy(session, {
      get: (target, name) => {
        if (name === 'identity') return () => Promise.resolve('')
        const found: unknown = name === 'begin' ? begin : Reflect.get(target, name)
        return typeof found === 'function' ? found.bind(target) : found
      },
    })
  }
  return { inbox: { open }, told }
}

test('an inbox is told that an event is probably done once its caller has had an answer', async () => {
  const { inbox, told } = toldInbox()
  const guard = guardOf({ inbox }, failing(1))
  const other = guardOf({ inbox }, failing(0))
  const delivery = toDelivery({ cents: 5 })
  expect(await guard.process(delivery)).toMatchObject({ reason: 'failed' })
  expect(await guard.process(delivery)).toMatchObject({ by: 'processed' })
  expect(await guard.process(delivery)).toMatchObject({ by: 'duplicate', result: 'charged' })
  expect(told).toEqual([false, false, true])
  for (let ask = 1; ask <= 2; ask++) {
    expect(await other.process(delivery)).toMatchObject({ by: 'duplicate', result: 'charged' })
  }
  expect(told.slice(3)).toEqual([false, true])
  await Promise.all([guard.close(), other.close()])
})

test('the inbox of a consumer is told the same, of a transaction whose events are all probably done', async () => {
  const { inbox, told } = toldInbox()
  const guard = createGuard({ ...common, inbox, transaction: 'batch' }, () => 'charged')
  const [first, second] = [toDelivery({ cents: 5 }), toDelivery({ cents: 6 })]
  await guard.process(first)
  await guard.processBatch([first, second])
  await guard.processBatch([second, first])
  expect(told).toEqual([false, false, true])
  await guard.close()
})
