import { expect, test } from 'vitest'
import { setUp } from '../fixtures/guard.ts'
import { changedInbox } from '../fixtures/inbox.ts'
import { createShift } from '../fixtures/shift.ts'
import { memoryInbox, memoryLeases, toDelivery } from '../memory/index.ts'
import { StoreUnavailableError } from '../model/errors.ts'
import type { WatchedGuard } from '../model/guard-reading.ts'
import type { Observer, OutcomeRecord } from '../options/options.ts'
import { createGuard } from './guard.ts'

/** Within half a second, which the machine may add. */
const about = (ms: number): unknown => expect.closeTo(ms, -3)

interface Watching {
  readonly observe: Observer
  readonly watched: WatchedGuard[]
  readonly records: OutcomeRecord[]
}

function watching(): Watching {
  const watched: WatchedGuard[] = []
  const records: OutcomeRecord[] = []
  const watch = (guard: WatchedGuard) => {
    watched.push(guard)
    return () => void watched.splice(watched.indexOf(guard), 1)
  }
  const observe = Object.assign((record: OutcomeRecord) => void records.push(record), { watch })
  return { observe, watched, records }
}

test('an observer that watches reads the guard from its making to its close', async () => {
  const { observe, watched } = watching()
  const during: unknown[] = []
  const { guard } = setUp(() => void during.push(watched[0]?.read()), { observe, concurrency: 3 })
  const idle = { inHand: 0, concurrency: 3, incompleteEvents: 0, breaker: 'closed', outages: [] }
  expect(watched[0]?.consumer).toBe('billing')
  expect(watched[0]?.read()).toEqual(idle)
  const copy = toDelivery({})
  await guard.processBatch([copy, copy, toDelivery({ another: 1 })])
  expect(during).toEqual([
    { ...idle, inHand: 3 },
    { ...idle, inHand: 3 },
  ])
  expect(watched[0]?.read()).toEqual(idle)
  expect(await watched[0]?.figures()).toBeUndefined()
  await guard.close()
  expect(watched).toEqual([])
})

test('a reading shows the open breaker and what failed', async () => {
  const { observe, watched } = watching()
  const inbox = { open: () => Promise.reject(new StoreUnavailableError('down')) }
  const { guard } = setUp(() => undefined, { observe, ...{ inbox } })
  await guard.process(toDelivery({}))
  expect(watched[0]?.read()).toMatchObject({ inHand: 0, breaker: 'open', outages: ['inbox'] })
  await guard.close()
})

test('a reading shows the concurrency that the pool allows', async () => {
  const { observe, watched } = watching()
  const inbox = changedInbox(memoryInbox(), () => ({ concurrency: 2 }))
  const { guard } = setUp(() => undefined, { observe, ...{ inbox } })
  expect(watched[0]?.read().concurrency).toBe(8)
  await guard.process(toDelivery({}))
  expect(watched[0]?.read().concurrency).toBe(2)
  await guard.close()
})

test('a reading counts the leases that are held', async () => {
  const { observe, watched } = watching()
  const during: unknown[] = []
  const { guard } = setUp(() => void during.push(watched[0]?.read().leases), {
    observe,
    ...{ leases: memoryLeases() },
  })
  await guard.process(toDelivery({}))
  const renewals = { held: 0, lost: 0, failed: 0 }
  expect(during).toEqual([{ held: 1, renewals }])
  expect(watched[0]?.read().leases).toEqual({ held: 0, renewals })
  await guard.close()
})

test.each([
  [
    'throws',
    () => {
      throw new Error('no')
    },
  ],
  // Red before: an unhandled rejection, which ends the process.
  ['rejects', () => Promise.reject(new Error('no'))],
  ['answers what rejects', () => () => Promise.reject(new Error('no'))],
  ['answers nothing', () => undefined],
  ['answers a number', () => 5],
  ['is no function', 5],
  [
    'answers what throws',
    () => () => {
      throw new Error('no')
    },
  ],
])('a watch that %s does not make the guard fail', async (_, watch) => {
  const observe = Object.assign(() => undefined, { watch }) as unknown as Observer
  const lines: unknown[] = []
  const hear = (fields: object, message: string): void => void lines.push([message, fields])
  const logger = { debug: hear, info: hear, warn: hear, error: hear }
  const { guard } = setUp(() => undefined, { observe, logger })
  expect(await guard.process(toDelivery({}))).toMatchObject({ kind: 'ack' })
  await guard.close()
  const told = ['watching the guard failed: fix the observer', { err: { message: 'no' } }]
  const failures = lines.filter((line) => String(line).startsWith('watching'))
  expect(failures).toMatchObject(/throws|rejects/.test(_) ? [told] : [])
})

test('a record has the times of claim and commit, and whether the broker delivered again', async () => {
  const { observe, records } = watching()
  const shift = createShift()
  const memory = memoryInbox()
  // A store for which each begin takes 5 s and each commit 7 s.
  const inbox = {
    open: async (registration: Parameters<typeof memory.open>[0]) => {
      const session = await memory.open(registration)
      const inner = session.begin.bind(session)
      const begin: typeof session.begin = async (request) => {
        const begun = await inner(request)
        shift.forward(5_000)
        if (begun.kind !== 'open') return begun
        const { transaction } = begun
        const innerCommit = transaction.commit.bind(transaction)
        const commit: typeof transaction.commit = (request) => {
          shift.forward(7_000)
          return innerCommit(request)
        }
        Object.assign(transaction, { commit })
        return begun
      }
      return Object.assign(session, { begin })
    },
  }
  const { runtime } = shift
  const guard = createGuard({ consumer: 'billing', inbox, observe, runtime }, () => undefined)
  const delivery = toDelivery({})
  await guard.process(delivery)
  await guard.process({ ...delivery, redelivered: true })
  await guard.close()
  expect(records[0]).toMatchObject({ claimMs: about(5_000), commitMs: about(7_000) })
  expect(records[0]).not.toHaveProperty('redelivered')
  expect(records[1]).toMatchObject({ settlement: { by: 'duplicate' }, redelivered: true })
  expect(records[1]).not.toHaveProperty('commitMs')
})

test('the figures of an observer are those of the inbox, and undefined before the stores are open', async () => {
  const { observe, watched } = watching()
  const figures = { parked: 3 } as never
  const inbox = changedInbox(memoryInbox(), () => ({ figures: async () => figures }))
  const { guard } = setUp(() => undefined, { observe, ...{ inbox } })
  expect(await watched[0]?.figures()).toBeUndefined()
  await guard.process(toDelivery({}))
  expect(await watched[0]?.figures()).toBe(figures)
  await guard.close()
})

test('a guard without an inbox has a reading and no figures', async () => {
  const { observe, watched } = watching()
  const guard = createGuard(
    { ...{ consumer: 'mailing', leases: memoryLeases(), onTakeover: 'retry' }, observe },
    () => undefined,
  )
  await guard.process(toDelivery({}))
  expect(await watched[0]?.figures()).toBeUndefined()
  expect(watched[0]?.read()).toMatchObject({ breaker: 'closed', pool: undefined })
  await guard.close()
})
