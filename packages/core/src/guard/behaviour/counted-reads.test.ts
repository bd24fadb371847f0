import { setImmediate as turn } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { ALONE_WAIT_MS, createAloneLock } from '../../concurrency/alone-lock.ts'
import { Clock } from '../../fixtures/clock.ts'
import { changedInbox, silent } from '../../fixtures/inbox.ts'
import { never } from '../../fixtures/never.ts'
import { type MemoryInbox, memoryInbox, memoryLeases, toDelivery } from '../../memory/index.ts'
import type { Delivery } from '../../model/delivery.ts'
import { type Guard, portOf } from '../../model/guard-port.ts'
import type { Inbox, MessageCounts } from '../../model/inbox.ts'
import { isSuspect } from '../../receive/read.ts'
import { createGuard } from '../guard.ts'

const ATTEMPTS = 3

const again = (key: string): Delivery => ({
  ...toDelivery(key, { headers: { 'idempotency-key': key }, messageId: key }),
  redelivered: true,
})
const first = (key: string): Delivery => ({ ...again(key), redelivered: false })

interface Living {
  readonly clock: Clock
  readonly guard: Guard
  readonly read: string[]
  readonly ran: unknown[]
}

/** A process with a guard of its own. What it reads of "poison" never ends: the process is dead from then on. */
function start(inbox: Inbox<undefined>, options: object = {}): Living {
  const clock = new Clock()
  const read: string[] = []
  const ran: unknown[] = []
  const guard = createGuard(
    {
      ...{ consumer: 'billing', inbox, logger: silent, retry: { attempts: ATTEMPTS } },
      runtime: { ...clock.runtime, alone: createAloneLock() },
      decode: (body) => {
        const text = JSON.parse(Buffer.from(body).toString()) as string
        read.push(text)
        return text === 'poison' ? never() : text
      },
      ...options,
    },
    ({ payload }) => void ran.push(payload),
  )
  return { clock, guard, read, ran }
}

/** Hands the batch to one process after the other until one survives it. Answers how many died. */
async function untilOneLives(inbox: MemoryInbox<undefined>, batch: readonly Delivery[]) {
  for (let deaths = 0; deaths < 20; deaths += 1) {
    const living = start(inbox)
    let isOver = false
    const settling = living.guard.processBatch(batch)
    void settling.then(() => {
      isOver = true
    })
    for (let n = 0; n < 50 && !isOver; n += 1) await turn()
    if (isOver) return { ...living, deaths, settlements: await settling }
  }
  throw new Error('every process died')
}

// Red before: it killed every process for ever, and nothing counted it.
test('a message that ends the process while it is read is dead-lettered, and its neighbours are processed', async () => {
  const inbox = memoryInbox()
  const batch = [again('a'), again('poison'), again('b')]
  const { deaths, guard, ran, read, settlements } = await untilOneLives(inbox, batch)
  expect(deaths).toBe(ATTEMPTS)
  const error = {
    code: 'ONCEWARD_INVALID_PAYLOAD',
    message: expect.stringContaining(`read ${ATTEMPTS} times, and each read ended the process`),
  }
  expect(settlements).toMatchObject([
    { by: 'processed' },
    { kind: 'dead-letter', reason: 'no-verdict', error },
    { by: 'processed' },
  ])
  expect(ran).toEqual(['a', 'b'])
  expect(read).not.toContain('poison')
  const ref = { kind: 'refused' }
  expect(inbox.deadLetters()).toMatchObject([{ ref, reason: 'no-verdict', delivery: batch[1] }])
  // A redelivery is not read either: the process may have died before the broker was told.
  expect(await guard.process(again('poison'))).toMatchObject({ reason: 'no-verdict' })
  expect(read).not.toContain('poison')
  await guard.close()
})

test('a message that was read beside it is read alone, and has its own count only', async () => {
  const inbox = memoryInbox()
  for (let n = 0; n < 10 * ATTEMPTS; n += 1) {
    // Each of these poisons is new, so it ends the process beside the innocent message.
    const { guard } = start(inbox)
    const poison = {
      ...again('poison'),
      messageId: `poison-${n}`,
      source: { broker: 'b', queue: 'q' },
    }
    void guard.processBatch([again('innocent'), poison])
    for (let turns = 0; turns < 20; turns += 1) await turn()
  }
  const { guard } = start(inbox)
  expect(await guard.process(again('innocent'))).toMatchObject({ by: 'processed' })
  await guard.close()
})

test('a replayed message is read again, alone', async () => {
  const inbox = memoryInbox()
  const { guard } = await untilOneLives(inbox, [again('poison')])
  await guard.close()
  const [letter] = inbox.deadLetters()
  if (letter === undefined) throw new Error('there is no dead letter')
  inbox.replay(letter.ref)
  const fixed = start(inbox, { decode: () => 'fixed' })
  await portOf(fixed.guard).open()
  for (let n = 0; n < 200 && fixed.ran.length === 0; n += 1) {
    fixed.clock.advance(100)
    await turn()
  }
  expect(fixed.ran).toEqual(['fixed'])
  await fixed.guard.close()
})

test('a replayed message that still ends the process is refused again', async () => {
  const inbox = memoryInbox()
  await (await untilOneLives(inbox, [again('poison')])).guard.close()
  const [letter] = inbox.deadLetters()
  if (letter === undefined) throw new Error('there is no dead letter')
  inbox.replay(letter.ref)
  const reads: number[] = []
  for (let n = 0; n <= ATTEMPTS; n += 1) {
    const living = start(inbox)
    await portOf(living.guard).open()
    for (let turns = 0; turns < 100; turns += 1) {
      living.clock.advance(100)
      await turn()
    }
    reads.push(living.read.length)
  }
  expect(reads).toEqual([1, 1, 1, 0])
  expect(inbox.deadLetters()).toMatchObject([{ reason: 'no-verdict' }])
})

/** The calls to the counts, in order. */
function observed(change: Partial<MessageCounts> = {}) {
  const calls: string[] = []
  const inbox = changedInbox(memoryInbox(), ({ messageCounts }) => {
    if (messageCounts === undefined) throw new Error('the memory inbox has counts')
    const counts = { ...messageCounts, ...change }
    return {
      messageCounts: {
        start: (all) => {
          calls.push(`start ${all.length}`)
          return counts.start(all)
        },
        startAlone: (one) => {
          calls.push('alone')
          return counts.startAlone(one)
        },
        failed: (all) => {
          calls.push(`failed ${all.length}`)
          return counts.failed(all)
        },
        end: (all) => {
          calls.push(`end ${all.length}`)
          return counts.end(all)
        },
      },
    }
  })
  return { calls, inbox }
}

test('first deliveries cost nothing; redeliveries two statements for the batch, none without a function', async () => {
  const { calls, inbox } = observed()
  const { guard } = start(inbox)
  await guard.processBatch([first('a'), first('b')])
  expect(calls).toEqual([])
  await guard.processBatch([again('a'), first('c'), again('d')])
  expect(calls).toEqual(['start 2', 'end 2'])
  await guard.close()
  // Red before for the rules that are no functions: they cost the same as one.
  for (const fingerprint of [undefined, 'none', 'body']) {
    const plain = start(inbox, { decode: undefined, fingerprint })
    await plain.guard.process(again('e'))
    expect(calls).toHaveLength(2)
    await plain.guard.close()
  }
})

test('two copies of one message in a batch are one message', async () => {
  const { guard } = start(memoryInbox())
  const settlements = await guard.processBatch([again('a'), again('a')])
  expect(settlements).toMatchObject([{ by: 'processed' }, { by: 'duplicate' }])
  await guard.close()
})

test('a message whose handler ends the process has no count of its own left', async () => {
  const inbox = memoryInbox()
  const dying = start(inbox, { decode: () => 'ok' })
  const hanging = createGuard(
    {
      consumer: 'billing',
      inbox,
      logger: silent,
      runtime: dying.clock.runtime,
      decode: () => 'ok',
    },
    () => never(),
  )
  void hanging.process(again('a'))
  for (let n = 0; n < 20; n += 1) await turn()
  const session = await inbox.open({} as never)
  expect(await session.messageCounts?.start([again('a')])).toEqual(['started'])
})

const down = (): Promise<never> => Promise.reject(new Error('the store is down'))

test('while the counts cannot be written, redeliveries are deferred and first deliveries are processed', async () => {
  const { calls, inbox } = observed({ start: down })
  const { guard, read } = start(inbox)
  expect(await guard.processBatch([again('a'), first('b')])).toMatchObject([
    { kind: 'defer', reason: 'store-down' },
    { by: 'processed' },
  ])
  expect(read).toEqual(['b'])
  expect(calls).toEqual(['start 1'])
  await guard.close()
})

test('a count that cannot be ended does not hold up its message, which is read alone next time', async () => {
  const { calls, inbox } = observed({ end: down })
  const logged: string[] = []
  const logger = { ...silent, error: (_: object, text: string) => void logged.push(text) }
  const { guard } = start(inbox, { logger })
  expect(await guard.process(again('a'))).toMatchObject({ by: 'processed' })
  expect(logged).toEqual([expect.stringContaining('a store call failed')])
  await guard.process(again('a'))
  expect(calls).toEqual(['start 1', 'end 1', 'start 1', 'alone', 'end 1'])
  await guard.close()
})

test('a message waits to be read alone no longer than two seconds', async () => {
  const inbox = memoryInbox()
  const session = await inbox.open({ consumer: 'billing' } as never)
  await session.messageCounts?.start([again('left')])
  const alone = createAloneLock()
  const { clock, guard } = start(inbox)
  const busy = start(inbox, { runtime: { ...clock.runtime, alone } })
  const release = await alone.shared()
  const settling = busy.guard.processBatch([again('left'), first('b')])
  const settlements = await clock.until(settling)
  expect(settlements).toMatchObject([
    { kind: 'defer', reason: 'in-progress', cause: 'waiting-alone' },
    { by: 'processed' },
  ])
  release?.()
  expect(await busy.guard.process(again('left'))).toMatchObject({ by: 'processed' })
  await Promise.all([guard.close(), busy.guard.close()])
})

// Red before: one hold for all of them. The event of the other guard waited until the last of them was read.
test('messages that are read alone let the runs of other guards in between', async () => {
  const inbox = memoryInbox()
  const session = await inbox.open({ consumer: 'billing' } as never)
  const left = [again('a'), again('b'), again('c')]
  await session.messageCounts?.start(left)
  const alone = createAloneLock()
  const { runtime } = new Clock()
  const reading: PromiseWithResolvers<void>[] = []
  const cut = start(inbox, {
    runtime: { ...runtime, alone },
    decode: async () => {
      const read = Promise.withResolvers<void>()
      reading.push(read)
      await read.promise
    },
  })
  const settling = cut.guard.processBatch(left)
  while (reading.length === 0) await turn()
  const other = start(memoryInbox(), { runtime: { ...runtime, alone } })
  const settled = other.guard.process(first('other'))
  await turn()
  expect(other.ran).toEqual([])
  reading[0]?.resolve()
  for (let n = 0; n < 50 && other.ran.length === 0; n += 1) await turn()
  expect(other.ran).toEqual(['other'])
  expect(await settled).toMatchObject({ by: 'processed' })
  for (const n of [1, 2]) {
    while (reading.length <= n) await turn()
    reading[n]?.resolve()
  }
  expect(await settling).toMatchObject([
    { by: 'processed' },
    { by: 'processed' },
    { by: 'processed' },
  ])
  await Promise.all([cut.guard.close(), other.guard.close()])
})

test('messages that cannot be read alone wait for it once, and not one after the other', async () => {
  const inbox = memoryInbox()
  const session = await inbox.open({ consumer: 'billing' } as never)
  const left = [again('a'), again('b'), again('c')]
  await session.messageCounts?.start(left)
  const clock = new Clock()
  const { alone } = clock.runtime
  const release = await alone.shared()
  const { guard } = start(inbox, { runtime: clock.runtime })
  const startedAt = clock.runtime.monotonic()
  const settlements = await clock.until(guard.processBatch(left))
  expect(clock.runtime.monotonic() - startedAt).toBeLessThan(2 * ALONE_WAIT_MS)
  const deferred = { kind: 'defer', cause: 'waiting-alone' }
  expect(settlements).toMatchObject([deferred, deferred, deferred])
  release?.()
  await guard.close()
})

test('a message that cannot be counted alone is deferred', async () => {
  const { inbox } = observed({ start: async () => ['left'], startAlone: down })
  const { guard, read } = start(inbox)
  expect(await guard.process(again('a'))).toMatchObject({ kind: 'defer', reason: 'store-down' })
  expect(read).toEqual([])
  await guard.close()
})

test('a message that needs not be read alone does not wait for the runs of others', async () => {
  const alone = createAloneLock()
  const { guard, read } = start(memoryInbox(), { runtime: { ...new Clock().runtime, alone } })
  const release = await alone.shared()
  expect(await guard.process(again('a'))).toMatchObject({ by: 'processed' })
  expect(read).toEqual(['a'])
  release?.()
  await guard.close()
})

test('without an inbox, or with one that has no counts, redeliveries are read as well', async () => {
  const plain = start(changedInbox(memoryInbox(), () => ({ messageCounts: undefined })))
  expect(await plain.guard.process(again('a'))).toMatchObject({ by: 'processed' })
  await plain.guard.close()
  const leases = { leases: memoryLeases(), onTakeover: 'retry', inbox: undefined }
  const leased = start(memoryInbox(), leases)
  expect(await leased.guard.process(again('a'))).toMatchObject({ by: 'processed' })
  await leased.guard.close()
})

test.each([
  [{ redelivered: true }, true],
  [{ deliveryCount: 2 }, true],
  [{ redelivered: false, deliveryCount: 1 }, false],
  [{}, false],
])('a delivery with %j may have been delivered before: %s', (marks, expected) => {
  expect(isSuspect({ ...toDelivery('a'), ...marks })).toBe(expected)
})
