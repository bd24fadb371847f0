import { expect, test } from 'vitest'
import { systemRuntime } from '../../concurrency/system-runtime.ts'
import { memoryInbox, toDelivery } from '../../memory/index.ts'
import type { Guard } from '../../model/guard-port.ts'
import type { Inbox, InboxSession } from '../../model/inbox.ts'
import type { Handler, InboxGuardOptions } from '../../options/options.ts'
import { createGuard } from '../guard.ts'

const quiet = {
  ...{ debug: () => undefined, info: () => undefined },
  ...{ warn: () => undefined, error: () => undefined },
}

/** An inbox whose history the test names. It counts the events that it is asked about. */
function countedInbox() {
  const inbox = memoryInbox()
  const seen = { asked: 0, history: 'first' }
  const counted: Inbox<undefined> = {
    open: async (registration) => {
      const session = (await inbox.open(registration)) as InboxSession<undefined>
      const { begin, classify } = session
      session.identity = async () => seen.history
      session.begin = (request) => {
        if (request.claim.kind !== 'none') seen.asked += request.claim.events.length
        return begin.call(session, request)
      }
      session.classify = (events) => {
        seen.asked += events.length
        return classify.call(session, events)
      }
      return session
    },
  }
  return { inbox: counted, seen }
}

type Options = Partial<InboxGuardOptions<unknown, undefined>>

async function setUp(handler: Handler<unknown, undefined> = () => undefined, more: Options = {}) {
  const { inbox, seen } = countedInbox()
  const options = { consumer: 'billing', inbox, logger: quiet, ...more }
  const guard = createGuard(options as InboxGuardOptions<unknown, undefined>, handler)
  // With the first copy the name of the history is read again, and believed from then on.
  await guard.process(order('warm'))
  await guard.process(order('warm'))
  seen.asked = 0
  return { guard, seen }
}

const order = (key: string, payload: unknown = {}) =>
  toDelivery(payload, { headers: { 'idempotency-key': key } })

const by = async (guard: Guard, key: string, payload?: unknown) => {
  const settlement = await guard.process(order(key, payload))
  return settlement.kind === 'ack' ? settlement.by : settlement.kind
}

test('a copy of what this process has done asks the inbox nothing, and carries the result', async () => {
  const replies: unknown[] = []
  const { guard, seen } = await setUp(({ key }) => ({ of: key }), {
    afterCommit: (result, _event, { duplicate }) => void replies.push([result, duplicate]),
  })
  replies.length = 0
  expect(await guard.process(order('a'))).toMatchObject({ by: 'processed', result: { of: 'a' } })
  expect(seen.asked).toBe(1)
  expect(await guard.process(order('a'))).toMatchObject({ by: 'duplicate', result: { of: 'a' } })
  expect(seen.asked).toBe(1)
  expect(replies).toEqual([
    [{ of: 'a' }, false],
    [{ of: 'a' }, true],
  ])
  await guard.close()
})

test.each(['each', 'batch'] as const)(
  'copies among new events are left out of the transactions: %s',
  async (transaction) => {
    const { guard, seen } = await setUp(undefined, { transaction })
    const done = ['a', 'b', 'c']
    await guard.processBatch(done.map((key) => order(key)))
    seen.asked = 0
    const all = await guard.processBatch([...done, 'd', 'e'].map((key) => order(key)))
    expect(all.map((one) => one.kind === 'ack' && one.by)).toEqual([
      ...['duplicate', 'duplicate', 'duplicate', 'processed', 'processed'],
    ])
    expect(seen.asked).toBe(2)
    await guard.close()
  },
)

test('a copy that waited for its event in this process is answered too', async () => {
  const open = Promise.withResolvers<void>()
  const { guard, seen } = await setUp(({ key }) => (key === 'a' ? open.promise : undefined))
  const both = [guard.process(order('a')), guard.process(order('a'))]
  open.resolve()
  expect(await Promise.all(both)).toMatchObject([{ by: 'processed' }, { by: 'duplicate' }])
  expect(seen.asked).toBe(1)
  await guard.close()
})

test('another payload under the key is a conflict', async () => {
  const { guard } = await setUp(undefined, { onConflict: 'ack' })
  expect(await by(guard, 'a', { cents: 1 })).toBe('processed')
  expect(await by(guard, 'a', { cents: 2 })).toBe('conflict')
  expect(await by(guard, 'a', { cents: 1 })).toBe('duplicate')
  await guard.close()
})

test('what did not commit is not remembered', async () => {
  let fails = true
  const { guard } = await setUp(
    ({ key }) => {
      if (key === 'a' && fails) throw new Error('no such customer')
    },
    { retry: { baseMs: 1, maxMs: 1 } },
  )
  expect(await by(guard, 'a')).toBe('defer')
  fails = false
  await expect.poll(() => by(guard, 'a')).toBe('processed')
  await guard.close()
})

// Red when the history of the inbox makes no difference.
test('in another history of the inbox every copy is looked up', async () => {
  let waitedMs = 0
  const runtime = { ...systemRuntime, monotonic: () => systemRuntime.monotonic() + waitedMs }
  const { guard, seen } = await setUp(undefined, { runtime })
  await guard.process(order('a'))
  seen.history = 'second'
  waitedMs += 2_001
  seen.asked = 0
  await by(guard, 'a')
  await by(guard, 'a')
  expect(seen.asked).toBe(2)
  await guard.close()
})
