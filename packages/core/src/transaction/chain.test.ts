import { describe, expect, test } from 'vitest'
import { createAloneLock } from '../concurrency/alone-lock.ts'
import { Clock } from '../fixtures/clock.ts'
import { changed, changedInbox, silent } from '../fixtures/inbox.ts'
import { createBatchGuard, createGuard } from '../guard/guard.ts'
import { memoryInbox, toDelivery } from '../memory/index.ts'
import type { Delivery } from '../model/delivery.ts'
import { portOf } from '../model/guard-port.ts'
import type {
  BeginRequest,
  Begun,
  CommitAnswer,
  InboxSession,
  InboxTransaction,
} from '../model/inbox.ts'
import type { Handler } from '../options/options.ts'

type Transaction = InboxTransaction<undefined>

const named = (name: string): Delivery => toDelivery(name, { messageId: name })
const suspect = (name: string): Delivery => ({ ...named(name), redelivered: true })
const keysOf = ({ claim }: BeginRequest): readonly string[] =>
  claim.kind === 'fresh' ? claim.events.map(({ key }) => key) : [claim.kind]

interface Wire {
  /** Transactions that began by themselves, and those that a COMMIT began, by the keys of their events. */
  readonly alone: string[][]
  readonly chained: string[][]
  /** Transactions that were rolled back. */
  rollbacks: number
  /** Answers the `n`th COMMIT in place of the server, from 1. */
  answer?: (n: number) => CommitAnswer | undefined
  /** While the text is on its way. */
  onText?: () => void | Promise<void>
}

/** A memory inbox whose COMMIT begins the next transaction, as that of pg. */
function chaining(wire: Wire, session: InboxSession<undefined>): Partial<InboxSession<undefined>> {
  let commits = 0
  const ofServer = (transaction: Transaction): Transaction =>
    changed(transaction, {
      commit: async (commit, next) => {
        commits += 1
        const request = next?.take()
        if (request !== undefined) wire.chained.push([...keysOf(request)])
        await wire.onText?.()
        const answer = wire.answer?.(commits) ?? (await transaction.commit(commit))
        const isBegun = request !== undefined && answer.kind === 'committed'
        next?.begun(isBegun ? session.begin(request).then(open) : undefined)
        return answer
      },
      rollback: () => {
        wire.rollbacks += 1
        return transaction.rollback()
      },
    })
  const open = (begun: Begun<undefined>): Begun<undefined> =>
    begun.kind === 'open' ? { ...begun, transaction: ofServer(begun.transaction) } : begun
  return {
    begin: async (request) => {
      wire.alone.push([...keysOf(request)])
      return open(await session.begin(request))
    },
  }
}

function setUp(handler: Handler<unknown, undefined>) {
  const wire: Wire = { alone: [], chained: [], rollbacks: 0 }
  const clock = new Clock()
  const runtime = { ...clock.runtime, random: () => 0.5, alone: createAloneLock() }
  const memory = memoryInbox()
  const common = {
    ...{ consumer: 'billing', concurrency: 1, logger: silent, runtime },
    inbox: changedInbox(memory, (session) => chaining(wire, session)),
  }
  return { clock, common, guard: createGuard(common, handler), memory, runtime, wire }
}

const processed = { kind: 'ack', by: 'processed' }

describe('a run that waits for a slot', () => {
  test('begins behind the COMMIT of another, in order, and runs in its slot', async () => {
    let running = 0
    const ran: string[] = []
    const { guard, wire } = setUp(async ({ key }) => {
      running += 1
      expect(running).toBe(1)
      await Promise.resolve()
      running -= 1
      ran.push(key)
    })
    const names = ['a', 'b', 'c', 'd']
    const all = await Promise.all(names.map((name) => guard.process(named(name))))
    expect(all).toEqual(names.map(() => processed))
    expect(ran).toEqual(names)
    expect(wire).toMatchObject({ alone: [['a']], chained: [['b'], ['c'], ['d']] })
    await guard.close()
  })

  test('is answered as a duplicate, if its event is done', async () => {
    const { guard, memory, wire } = setUp(() => undefined)
    await onlyOn(memory).process(named('b'))
    const both = ['a', 'b'].map((name) => guard.process(named(name)))
    expect(await Promise.all(both)).toEqual([processed, { kind: 'ack', by: 'duplicate' }])
    expect(wire).toMatchObject({ alone: [['a']], chained: [['b']] })
    await guard.close()
  })

  test('begins by itself, behind a COMMIT that failed and before those that came later', async () => {
    const ran: string[] = []
    const { clock, guard, wire } = setUp(({ key }) => void ran.push(key))
    wire.answer = (n) => (n === 1 ? { kind: 'rolled-back', error: new Error('no') } : undefined)
    const all = Promise.all(['a', 'b', 'c'].map((name) => guard.process(named(name))))
    expect(await clock.until(all)).toMatchObject([
      { kind: 'defer', reason: 'failed' },
      processed,
      processed,
    ])
    expect(ran).toEqual(['a', 'b', 'c'])
    expect(wire).toMatchObject({ alone: [['a'], ['b']], chained: [['b'], ['c']] })
    await guard.close()
  })

  test('is rolled back without an attempt, if it is stopped while the text is on its way', async () => {
    const ran: string[] = []
    const { guard, wire, memory } = setUp(({ key }) => void ran.push(key))
    const stop = new AbortController()
    wire.onText = () => stop.abort()
    const first = guard.process(named('a'))
    const second = portOf(guard).run([named('b')], { stop: stop.signal })
    expect(await first).toEqual(processed)
    expect(await second).toMatchObject([{ kind: 'abandon', reason: 'closing' }])
    await guard.close()
    expect(ran).toEqual(['a'])
    expect(wire).toMatchObject({ chained: [['b']], rollbacks: 1 })
    expect(await onlyOn(memory).process(named('b'))).toEqual(processed)
  })

  test('begins by itself, if it may have run before', async () => {
    const { guard, wire } = setUp(() => undefined)
    const both = [named('a'), suspect('b')].map((each) => guard.process(each))
    expect(await Promise.all(both)).toEqual([processed, processed])
    expect(wire).toMatchObject({ alone: [['a'], ['counted']], chained: [] })
    await guard.close()
  })

  test('waits while an event waits to run alone', async () => {
    const [started, gate] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    const { guard, runtime, wire } = setUp(({ key }) => {
      if (key !== 'a') return undefined
      started.resolve()
      return gate.promise
    })
    const both = ['a', 'b'].map((name) => guard.process(named(name)))
    await started.promise
    const alone = runtime.alone.exclusive().then((release) => {
      expect(wire.alone).toEqual([['a']])
      release?.()
    })
    gate.resolve()
    await alone
    expect(await Promise.all(both)).toEqual([processed, processed])
    expect(wire).toMatchObject({ alone: [['a'], ['b']], chained: [] })
    await guard.close()
  })

  test('rides as a whole, if it is a batch', async () => {
    const { common, wire } = setUp(() => undefined)
    const guard = createBatchGuard(common, () => undefined)
    const batches = [
      ['a', 'b'],
      ['c', 'd', 'e'],
    ].map((names) => names.map(named))
    const all = await Promise.all(batches.map((batch) => guard.processBatch(batch)))
    expect(all.flat()).toEqual(Array(5).fill(processed))
    expect(wire).toMatchObject({ alone: [['a', 'b']], chained: [['c', 'd', 'e']] })
    await guard.close()
  })
})

const onlyOn = (inbox: ReturnType<typeof memoryInbox>) =>
  createGuard({ consumer: 'billing', inbox, logger: silent }, () => undefined)
