import { expect, test } from 'vitest'
import { type Troubles, troubled } from '../fixtures/troubled.ts'
import { toDelivery } from '../memory/index.ts'
import { StoreUnavailableError } from '../model/errors.ts'
import { portOf } from '../model/guard-port.ts'
import type { BeginRequest, CountAnswer } from '../model/inbox.ts'

const named = (name: string) => toDelivery(name, { messageId: name })
const suspect = (name: string) => ({ ...named(name), redelivered: true })
const sizeOf = ({ claim }: BeginRequest) => (claim.kind === 'none' ? 0 : claim.events.length)
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

const processed = { kind: 'ack', by: 'processed' } as const
const duplicate = { kind: 'ack', by: 'duplicate' } as const
const inProgress = { kind: 'defer', reason: 'in-progress' } as const
const batch = { transaction: 'batch' } as const

/** Overrides the answers of the first counts. */
const counting = (...answers: readonly (CountAnswer | 'nothing')[]): Troubles => {
  const left = [...answers]
  return {
    session: (session) => ({
      count: async (events, run) => {
        const answer = left.shift()
        if (answer === undefined) return session.count(events, run)
        return answer === 'nothing' ? [] : [answer]
      },
    }),
  }
}

test('a batch runs new events first, then suspects, then due events, and each event without a verdict alone', async () => {
  const runs: unknown[] = []
  const counts: string[] = []
  let isReady = false
  const { asked, clock, crash, guard } = troubled(
    ({ payload }) => {
      if (isReady) runs.push(payload)
      else throw new Error('not yet')
    },
    {
      session: (session) => ({
        count: (events, run) => {
          counts.push(run)
          return session.count(events, run)
        },
      }),
    },
    batch,
  )
  await crash(named('crashed 1'))
  await crash(named('crashed 2'))
  await guard.processBatch(['due 1', 'due 2'].map(named))
  clock.advance(5_000)
  isReady = true
  asked.begins.length = 0
  const settlements = await guard.processBatch([
    ...['crashed 1', 'crashed 2', 'due 1', 'due 2', 'suspect 1', 'suspect 2'].map(suspect),
    ...['new 1', 'new 2'].map(named),
  ])
  expect(settlements).toEqual(Array(8).fill(processed))
  expect(runs).toEqual([
    ...['new 1', 'new 2', 'suspect 1', 'suspect 2', 'due 1', 'due 2', 'crashed 1', 'crashed 2'],
  ])
  expect(asked.begins.map(sizeOf)).toEqual([2, 2, 2, 1, 1])
  expect(counts).toEqual(['together', 'alone', 'alone'])
  await guard.close()
})

test('an event without a verdict runs alone in its process', async () => {
  const gates = new Map<unknown, PromiseWithResolvers<void>>()
  const runs: unknown[] = []
  const { clock, crash, guard } = troubled(({ payload }) => {
    runs.push(payload)
    const gate = Promise.withResolvers<void>()
    gates.set(payload, gate)
    return gate.promise
  })
  await crash(named('crashed'))
  clock.advance(5_000)
  const before = guard.process(named('before'))
  await turn()
  const crashed = guard.process(suspect('crashed'))
  await turn()
  const after = guard.process(named('after'))
  await turn()
  expect(runs).toEqual(['before'])
  gates.get('before')?.resolve()
  await turn()
  expect(runs).toEqual(['before', 'crashed'])
  gates.get('crashed')?.resolve()
  await turn()
  expect(runs).toEqual(['before', 'crashed', 'after'])
  gates.get('after')?.resolve()
  expect(await Promise.all([before, crashed, after])).toEqual(Array(3).fill(processed))
  await guard.close()
})

test('an event that waits to run alone is returned uncounted when the consumer stops', async () => {
  const gate = Promise.withResolvers<void>()
  const stop = new AbortController()
  const { asked, clock, crash, guard, records } = troubled(({ payload }) =>
    payload === 'before' ? gate.promise : undefined,
  )
  await crash(named('crashed'))
  clock.advance(5_000)
  const before = guard.process(named('before'))
  await turn()
  const crashed = portOf(guard).run([suspect('crashed')], { stop: stop.signal })
  await turn()
  stop.abort()
  gate.resolve()
  expect(await crashed).toEqual([{ kind: 'abandon', reason: 'closing', cause: 'draining' }])
  expect(asked.releases).toEqual([])
  expect(await before).toEqual(processed)
  expect(await guard.process(suspect('crashed'))).toEqual(processed)
  expect(records.at(-1)).toMatchObject({ attempt: 2 })
  await guard.close()
})

test('an event is dead-lettered without a run once its runs without a verdict are spent', async () => {
  const runs: unknown[] = []
  const { clock, crash, guard, inbox, records } = troubled(
    ({ payload }) => void runs.push(payload),
    {
      session: (session) => {
        let reads = 0
        const classify: typeof session.classify = (events) => {
          reads += 1
          return reads === 1 ? session.classify(events) : Promise.reject(new Error('not again'))
        }
        return { classify }
      },
    },
    { retry: { attempts: 2 } },
  )
  await crash(named('a'))
  clock.advance(5_000)
  await crash(named('a'))
  clock.advance(5_000)
  const dead = { kind: 'dead-letter', reason: 'attempts-spent' }
  expect(await guard.process(suspect('a'))).toEqual(dead)
  expect(records).toMatchObject([{ attempt: 2, settlement: dead }])
  expect(inbox.deadLetters()).toMatchObject([{ ref: { kind: 'event' }, attempts: 2 }])
  expect(runs).toEqual([])
  await guard.close()
})

test('an event that another process holds or has changed is not counted', async () => {
  const held = { kind: 'held' } as const
  const changed = { kind: 'changed' } as const
  for (const [answers, settlement, begins] of [
    [[held], inProgress, 0],
    [[changed], processed, 1],
    [['nothing'], processed, 1],
    [Array(4).fill(changed), inProgress, 0],
    [Array(3).fill(changed), processed, 1],
  ] as const) {
    const { asked, clock, crash, guard } = troubled(() => undefined, counting(...answers))
    await crash(named('a'))
    clock.advance(5_000)
    expect(await guard.process(suspect('a'))).toMatchObject(settlement)
    expect(asked.begins).toHaveLength(begins)
    await guard.close()
  }
})

test('suspects behind a locked row are tried one by one, each with a short wait', async () => {
  const waits: number[] = []
  const { guard, records } = troubled(
    () => undefined,
    {
      session: (session) => ({
        suspect: async (events, waitMs) => {
          waits.push(waitMs)
          const isHeld = events.some(({ key }) => key === 'b')
          return isHeld ? { kind: 'held' } : session.suspect(events, waitMs)
        },
      }),
    },
    batch,
  )
  const settlements = await guard.processBatch(['a', 'b', 'c'].map(suspect))
  expect(settlements).toMatchObject([processed, inProgress, processed])
  expect(waits).toEqual([250, 50, 50, 50])
  expect(await guard.process(suspect('b'))).toMatchObject(inProgress)
  expect(waits).toHaveLength(5)
  expect(records.at(-1)?.settlement).toHaveProperty('until', 1_000_000 + 1_500)
  await guard.close()
})

test('a suspect that was processed before is a duplicate', async () => {
  const { asked, guard } = troubled(() => undefined)
  await guard.process(named('a'))
  expect(await guard.process(suspect('a'))).toEqual(duplicate)
  expect(asked.begins).toHaveLength(1)
  await guard.close()
})

test('a store error during a read or a count defers the events, and an unexpected error is logged', async () => {
  for (const [error, levels] of [
    [new StoreUnavailableError('down'), []],
    [new TypeError('a bug'), ['error']],
  ] as const) {
    for (const method of ['classify', 'suspect', 'count'] as const) {
      const { clock, crash, guard, logged } = troubled(() => undefined, {
        session: () => ({ [method]: () => Promise.reject(error) }),
      })
      await crash(named('a'))
      clock.advance(5_000)
      const settlement = { kind: 'defer', reason: 'store-down', error }
      expect(await guard.process(suspect('a'))).toMatchObject(settlement)
      const err = { name: error.name, message: error.message }
      expect(logged).toMatchObject(levels.map((level) => ({ level, fields: { err } })))
      expect(portOf(guard).availability().kind).toBe(levels.length === 0 ? 'down' : 'available')
      await guard.close()
    }
  }
})

test('a successful read closes the breaker', async () => {
  let isDown = true
  const { clock, guard } = troubled(() => undefined, {
    session: (session) => ({
      suspect: (events, waitMs) =>
        isDown
          ? Promise.reject(new StoreUnavailableError('down'))
          : session.suspect(events, waitMs),
    }),
  })
  await guard.process(named('a'))
  await guard.process(suspect('b'))
  expect(portOf(guard).availability()).toMatchObject({ kind: 'down' })
  isDown = false
  clock.advance(750)
  expect(await guard.process(suspect('a'))).toEqual(duplicate)
  expect(portOf(guard).availability()).toEqual({ kind: 'available' })
  await guard.close()
})

test.each([
  ['suspect', 'new', 'suspect'],
  ['suspect', 'new', 'new'],
])(
  'in a lane with members %s, %s and %s no member is counted or started before its turn',
  async (...kinds) => {
    const runs: unknown[] = []
    const { asked, guard } = troubled(({ payload }) => void runs.push(payload), {}, batch)
    const lane = kinds.map((kind, index) => ({
      ...toDelivery(index, { messageId: `a${index}`, orderingKey: 'a' }),
      redelivered: kind === 'suspect',
    }))
    expect(await guard.processBatch(lane)).toEqual(Array(3).fill(processed))
    expect(runs).toEqual([0, 1, 2])
    expect(asked.releases).toEqual([])
    await guard.close()
  },
)

test('a run that could not be released is released before any read', async () => {
  let isDown = true
  const { asked, guard } = troubled(() => undefined, {
    session: (session) => ({
      begin: (request) =>
        isDown ? Promise.reject(new TypeError('a bug')) : session.begin(request),
      release: (releases) =>
        isDown ? Promise.reject(new StoreUnavailableError('down')) : session.release(releases),
    }),
  })
  await guard.process(suspect('a'))
  isDown = false
  // Otherwise this process would take its own attempt for a run of another process.
  expect(await guard.process(suspect('a'))).toMatchObject(inProgress)
  expect(await guard.process(suspect('a'))).toEqual(processed)
  expect(asked.releases.map(({ as }) => as)).toEqual(['given-back', 'given-back'])
  await guard.close()
})
