import { expect, test } from 'vitest'
import { type Troubles, troubled } from '../../fixtures/troubled.ts'
import { memoryLeases, toDelivery } from '../../memory/index.ts'
import { StoreUnavailableError } from '../../model/errors.ts'
import { portOf } from '../../model/guard-port.ts'
import type { BeginRequest } from '../../model/inbox.ts'
import type { ClaimResult, Held, LeaseStore } from '../../model/lease-store.ts'
import type { Handler, InboxGuardOptions } from '../../options/options.ts'

const inLane = (name: string) =>
  toDelivery(name, { messageId: name, orderingKey: name.slice(0, 1) })
const named = (name: string) => toDelivery(name, { messageId: name })
const sizeOf = ({ claim }: BeginRequest) => (claim.kind === 'none' ? 0 : claim.events.length)
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

const processed = { kind: 'ack', by: 'processed' } as const
const acquired: ClaimResult = { kind: 'acquired', by: 'first', attempt: 1 }
const beforeFollower = { kind: 'defer', reason: 'not-due' } as const

interface Leased {
  /** The events of each call to the store, by method. */
  readonly released: Held[]
  readonly completed: Held[]
}

/** A guard with an inbox. The lease store answers the first claims of a batch as given, and later claims as usual. */
function leased(
  answers: readonly ClaimResult[] | 'down',
  handler: Handler<unknown, undefined> = () => undefined,
  options: Partial<InboxGuardOptions<unknown, undefined>> & { readonly troubles?: Troubles } = {},
) {
  const told: Leased = { released: [], completed: [] }
  const memory = memoryLeases()
  let claims = 0
  const leases: LeaseStore = {
    ...memory,
    claim: async () => {
      claims += 1
      if (answers === 'down') throw new StoreUnavailableError('down')
      return claims === 1 ? answers : [{ kind: 'in-progress', remainingMs: 1_000 }]
    },
    release: async (held) => {
      told.released.push(...held)
      return held.map(() => 'held')
    },
    complete: async (held) => {
      told.completed.push(...held)
      return held.map(() => 'held')
    },
  }
  const { troubles, ...rest } = options
  return { ...told, ...troubled(handler, troubles, { leases, ...rest }) }
}

test('a shared transaction has at most a hundred events', async () => {
  const { asked, guard } = troubled(() => undefined, {}, { transaction: 'batch' })
  const deliveries = Array.from({ length: 101 }, (_, n) => named(`m${n}`))
  expect(await guard.processBatch(deliveries)).toEqual(Array(101).fill(processed))
  expect(asked.begins.map(sizeOf)).toEqual([100, 1])
  await guard.close()
})

test('lanes run side by side, each in order, limited by the number of slots', async () => {
  const gates = new Map<unknown, () => void>()
  const runs: unknown[] = []
  const { guard } = troubled(
    ({ payload }) => {
      runs.push(payload)
      return new Promise<void>((resolve) => gates.set(payload, resolve))
    },
    {},
    { concurrency: 2 },
  )
  const run = guard.processBatch(['a1', 'b1', 'a2', 'c1'].map(inLane))
  await turn()
  expect(runs).toEqual(['a1', 'b1'])
  gates.get('b1')?.()
  await turn()
  expect(runs).toEqual(['a1', 'b1', 'c1'])
  gates.get('a1')?.()
  await turn()
  expect(runs).toEqual(['a1', 'b1', 'c1', 'a2'])
  gates.get('c1')?.()
  gates.get('a2')?.()
  expect(await run).toEqual(Array(4).fill(processed))
  await guard.close()
})

test('after the first event of a lane failed, its other events do not run and wait as long', async () => {
  const runs: unknown[] = []
  const { guard, records } = troubled(({ payload }) => {
    runs.push(payload)
    if (payload === 'a2') throw new Error('not yet')
  })
  const settlements = await guard.processBatch(['a1', 'a2', 'a3', 'a4'].map(inLane))
  const until = 1_000_750
  expect(settlements).toMatchObject([
    processed,
    { kind: 'defer', reason: 'failed', until },
    { ...beforeFollower, until },
    { ...beforeFollower, until },
  ])
  expect(runs).toEqual(['a1', 'a2'])
  expect(records.map(({ handlerMs }) => handlerMs)).toEqual([0, 0, undefined, undefined])
  await guard.close()
})

test('if the lease store does not answer, the inbox decides', async () => {
  const { asked, guard } = leased('down')
  expect(await guard.processBatch(['a', 'b'].map(named))).toEqual([processed, processed])
  expect(asked.begins).toHaveLength(2)
  await guard.close()
})

test('an event without an answer of the lease store runs without a lease', async () => {
  const { completed, guard } = leased([acquired])
  expect(await guard.processBatch(['a', 'b'].map(named))).toEqual([processed, processed])
  expect(completed).toHaveLength(1)
  await guard.close()
})

test('an event that the lease store reports as done is not looked up in the inbox', async () => {
  const { asked, guard } = leased([{ kind: 'duplicate' }, acquired])
  expect(await guard.processBatch(['a', 'b'].map(named))).toEqual([
    { kind: 'ack', by: 'duplicate' },
    processed,
  ])
  expect(asked.begins.map(sizeOf)).toEqual([1])
  await guard.close()
})

test('an event behind a not-due event of its lane settles like it, and its claim is released', async () => {
  const runs: unknown[] = []
  const notDue: ClaimResult = { kind: 'not-due', remainingMs: 700 }
  const { guard, released } = leased(
    [acquired, notDue, acquired, { kind: 'duplicate' }, acquired],
    ({ payload }) => void runs.push(payload),
  )
  const settlements = await guard.processBatch(['a1', 'a2', 'a3', 'a4', 'b1'].map(inLane))
  const until = 1_000_700
  expect(settlements).toEqual([
    processed,
    { ...beforeFollower, until, cause: 'not-due' },
    ...Array(2).fill({ ...beforeFollower, until, cause: 'lane-waits' }),
    processed,
  ])
  expect(runs.toSorted()).toEqual(['a1', 'b1'])
  expect(released).toHaveLength(1)
  await guard.close()
})

test('a dead-lettered event or a duplicate in the lease store does not stop its lane', async () => {
  const { guard } = leased([{ kind: 'duplicate' }, acquired])
  expect(await guard.processBatch(['a1', 'a2'].map(inLane))).toEqual([
    { kind: 'ack', by: 'duplicate' },
    processed,
  ])
  await guard.close()
})

test('a not-due event without a lane stops no other event', async () => {
  const { guard } = leased([{ kind: 'not-due', remainingMs: 700 }, acquired])
  const settlements = await guard.processBatch([named('a'), named('b')])
  expect(settlements).toEqual([
    { ...beforeFollower, until: 1_000_700, cause: 'not-due' },
    processed,
  ])
  await guard.close()
})

test('a lane waits for an event that another process holds, and other lanes run at once', async () => {
  const runs: unknown[] = []
  const held: ClaimResult = { kind: 'in-progress', remainingMs: 1_000 }
  const { clock, guard, released } = leased(
    [acquired, held, acquired, acquired, acquired],
    ({ payload }) => void runs.push(payload),
  )
  const run = guard.processBatch(['a1', 'a2', 'a3', 'b1', 'b2'].map(inLane))
  await turn()
  expect(runs.toSorted()).toEqual(['a1', 'b1', 'b2'])
  const settlements = await clock.until(run)
  expect(settlements.map(({ kind }) => kind)).toEqual(['ack', 'defer', 'defer', 'ack', 'ack'])
  expect(runs).not.toContain('a3')
  expect(released).toHaveLength(1)
  await guard.close()
})

test('a lane that waits for another process stops at its own failed event', async () => {
  const held: ClaimResult = { kind: 'in-progress', remainingMs: 1_000 }
  let claims = 0
  const { clock, guard, released } = leased([acquired, acquired, held], ({ payload }) => {
    claims += 1
    throw new Error(`not yet: ${payload}`)
  })
  const settlements = await clock.until(guard.processBatch(['a1', 'a2', 'a3'].map(inLane)))
  expect(settlements).toMatchObject([
    { kind: 'defer', reason: 'failed' },
    beforeFollower,
    beforeFollower,
  ])
  expect(claims).toBe(1)
  expect(released).toHaveLength(1)
  await guard.close()
})

test('a batch that waits for a slot is returned after a stop', async () => {
  const gate = Promise.withResolvers<void>()
  const stop = new AbortController()
  const { asked, guard } = troubled(
    () => gate.promise,
    {},
    { concurrency: 1, transaction: 'batch' },
  )
  const first = guard.process(named('a'))
  await turn()
  const others = portOf(guard).run(['b', 'c'].map(named), { stop: stop.signal })
  await turn()
  stop.abort()
  expect(await others).toEqual(
    Array(2).fill({ kind: 'abandon', reason: 'closing', cause: 'draining' }),
  )
  gate.resolve()
  expect(await first).toEqual(processed)
  expect(asked.begins).toHaveLength(1)
  await guard.close()
})

test('events that the lease store grants share a transaction in delivery order', async () => {
  const runs: unknown[] = []
  const { asked, guard } = leased(
    [acquired, acquired, acquired],
    ({ payload }) => void runs.push(payload),
    { transaction: 'batch' },
  )
  const settlements = await guard.processBatch(['a1', 'b1', 'a2'].map(inLane))
  expect(settlements).toEqual(Array(3).fill(processed))
  expect(runs).toEqual(['a1', 'b1', 'a2'])
  expect(asked.begins.map(sizeOf)).toEqual([3])
  await guard.close()
})

test('lanes that do not wait share a transaction while another lane waits', async () => {
  const held: ClaimResult = { kind: 'in-progress', remainingMs: 1_000 }
  const { asked, clock, guard } = leased([acquired, held, acquired], undefined, {
    transaction: 'batch',
  })
  const settlements = await clock.until(guard.processBatch(['a1', 'b1', 'c1'].map(inLane)))
  expect(settlements.map(({ kind }) => kind)).toEqual(['ack', 'defer', 'ack'])
  expect(asked.begins.map(sizeOf)).toEqual([2])
  await guard.close()
})
