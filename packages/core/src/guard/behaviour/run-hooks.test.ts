import { setImmediate as turn } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { createAloneLock } from '../../concurrency/alone-lock.ts'
import { Clock } from '../../fixtures/clock.ts'
import { silent } from '../../fixtures/inbox.ts'
import { never } from '../../fixtures/never.ts'
import { memoryInbox, memoryLeases, toDelivery } from '../../memory/index.ts'
import { FatalError } from '../../model/errors.ts'
import { portOf } from '../../model/guard-port.ts'
import type { LeaseStore } from '../../model/lease-store.ts'
import type { Handler } from '../../options/options.ts'
import { createGuard } from '../guard.ts'

const DEADLINE_MS = 10_000

function setUp(handler: Handler<unknown>, leases?: LeaseStore) {
  const clock = new Clock()
  const wallAheadMs = { ms: 0 }
  const inbox = memoryInbox()
  const now = () => (clock.runtime.now() + wallAheadMs.ms) as ReturnType<typeof clock.runtime.now>
  const runtime = { ...clock.runtime, now, alone: createAloneLock() }
  const common = { consumer: 'billing', inbox, leases, deadlineMs: DEADLINE_MS, logger: silent }
  const guard = createGuard({ ...common, runtime }, handler)
  return { clock, guard, inbox, port: portOf(guard), wallAheadMs, now }
}

test('each call has its own budget, also after a call without one, and never less than a millisecond', async () => {
  const leftMs: number[] = []
  const { guard, now, port, wallAheadMs } = setUp((_, { deadlineAt }) => {
    leftMs.push(deadlineAt.getTime() - now())
  })
  await port.run([toDelivery(1)])
  await port.run([toDelivery(2)], { budgetMs: 50 })
  await port.run([toDelivery(3)], { budgetMs: 0 })
  // A wall clock that is wrong changes nothing.
  wallAheadMs.ms = 86_400_000
  await port.run([toDelivery(4)], { budgetMs: 50 })
  await port.run([toDelivery(5)])
  expect(leftMs).toEqual([DEADLINE_MS, 50, 1, 50, DEADLINE_MS])
  await guard.close()
})

test('each call has its own signals, although another one shared one of them', async () => {
  const aborted: unknown[] = []
  const { clock, guard, port } = setUp(({ payload }, { signal }) => {
    signal.addEventListener('abort', () => aborted.push(payload))
    return never()
  })
  const [stop, first, second] = [0, 1, 2].map(() => new AbortController())
  const hooks = [first, second].map((abort) => ({ stop: stop!.signal, abort: abort!.signal }))
  const running = hooks.map((each, index) => port.run([toDelivery(index)], each))
  await turn()
  second!.abort()
  expect(aborted).toEqual([1])
  first!.abort()
  expect(aborted).toEqual([1, 0])
  await clock.until(Promise.all(running))
  await clock.until(guard.close())
})

test('each call has its own stop, although another one shared its abort', async () => {
  const { guard, port } = setUp(() => undefined)
  const abort = new AbortController().signal
  await port.run([toDelivery(1)], { abort, stop: new AbortController().signal })
  const [settlement] = await port.run([toDelivery(2)], { abort, stop: AbortSignal.abort() })
  expect(settlement).toMatchObject({ kind: 'abandon', reason: 'closing' })
  await guard.close()
})

test('a replayed event takes no lease: its row decides', async () => {
  const memory = memoryLeases()
  let claims = 0
  const claim: LeaseStore['claim'] = (asked) => {
    claims += 1
    return memory.claim(asked)
  }
  let runs = 0
  const handler = (): void => {
    runs += 1
    if (runs === 1) throw new FatalError('no')
  }
  const { clock, guard, inbox, port } = setUp(handler, { ...memory, claim })
  await port.run([toDelivery(1)])
  expect([claims, runs]).toEqual([1, 1])
  for (const { ref } of inbox.deadLetters()) inbox.replay(ref)
  for (let n = 0; n < 100 && runs === 1; n += 1) {
    clock.advance(1_000)
    for (let turns = 0; turns < 5; turns += 1) await turn()
  }
  expect([claims, runs]).toEqual([1, 2])
  await guard.close()
})
