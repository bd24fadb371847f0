import { systemRuntime } from '@onceward/core/ports'
import { expect, test } from 'vitest'
import { testRegistration } from './fixtures/registration.ts'
import type { Namespace } from './keys.ts'
import { BoundHistory, fixedHistory } from './postgres-history.ts'

const unbound: Namespace = { name: 'orders', markMs: 1_000, bucketSecret: 's', keepMs: 1_000 }

/** A history whose clock and whose reads the test moves. */
function setUp(read: () => Promise<string> = async () => 'first') {
  const clock = { nowMs: 1_000_000 }
  const reads: number[] = []
  const registration = testRegistration({
    runtime: { ...systemRuntime, monotonic: () => clock.nowMs },
    identity: () => {
      reads.push(clock.nowMs)
      return read()
    },
  })
  return { clock, reads, registration, history: new BoundHistory(registration, unbound) }
}

const believed = (history: BoundHistory): boolean => {
  const namespace = history.namespace()
  return namespace !== undefined && history.believes(namespace)
}

// Red when the age counts from the answer: Postgres may have failed over while the answer was on its way.
test.each([0, 1, 2_000, 4_999, 5_000, 5_001])(
  'an identity whose answer took %s ms is believed for five seconds after its question',
  async (tookMs) => {
    const { clock, history } = setUp(async () => {
      clock.nowMs += tookMs
      return 'first'
    })
    await history.refresh()
    expect(believed(history)).toBe(tookMs <= 5_000)
    clock.nowMs = 1_000_000 + Math.max(tookMs, 5_000)
    expect(believed(history)).toBe(tookMs <= 5_000)
    clock.nowMs = Math.max(clock.nowMs, 1_005_001)
    expect(believed(history)).toBe(false)
  },
)

test('a young identity is not read again, an older one in the background, and an outdated one before the claim', async () => {
  const gates: PromiseWithResolvers<string>[] = []
  const { clock, reads, history } = setUp(() => {
    const gate = Promise.withResolvers<string>()
    gates.push(gate)
    return gate.promise
  })
  const first = history.refresh()
  gates[0]!.resolve('first')
  await first
  clock.nowMs += 1_999
  await history.refresh()
  expect(reads).toHaveLength(1)
  clock.nowMs += 1
  await history.refresh()
  await history.refresh()
  expect(reads).toHaveLength(2)
  expect(believed(history)).toBe(true)
  clock.nowMs += 3_001
  let isOver = false
  const waiting = history.refresh().then(() => {
    isOver = true
  })
  await new Promise((resolve) => setImmediate(resolve))
  expect(isOver).toBe(false)
  gates[1]!.resolve('first')
  await waiting
  // The answer is as old as its question.
  clock.nowMs += 1_999
  expect(believed(history)).toBe(true)
  clock.nowMs += 1
  expect(believed(history)).toBe(false)
})

test('a read that fails is tried again after half a second, and what was known goes out of date', async () => {
  let isDown = false
  const { clock, reads, registration, history } = setUp(async () => {
    if (isDown) throw new Error('the database is down')
    return 'first'
  })
  await history.refresh()
  isDown = true
  clock.nowMs += 5_001
  await history.refresh()
  clock.nowMs += 499
  await history.refresh()
  expect(reads).toHaveLength(2)
  expect(registration.logged).toMatchObject([
    { level: 'debug', fields: { consumer: 'billing', err: { message: 'the database is down' } } },
  ])
  expect([believed(history), history.namespaces()]).toEqual([false, [history.namespace()]])
  clock.nowMs += 1
  isDown = false
  await history.refresh()
  expect(reads).toHaveLength(3)
  expect(believed(history)).toBe(true)
})

test('another history has a namespace of its own, the one before stays for its claims, and the one before that is dropped', async () => {
  const names = ['first', 'second', 'second', 'third']
  const { clock, registration, history } = setUp(async () => names.shift() ?? '')
  const seen: (Namespace | undefined)[] = []
  for (let n = 0; n < 4; n++) {
    await history.refresh()
    seen.push(history.namespace())
    clock.nowMs += 6_000
  }
  const [first, second, again, third] = seen
  expect(new Set(seen).size).toBe(3)
  expect(again).toBe(second)
  expect(first?.name).not.toBe(second?.name)
  expect(history.namespaces()).toEqual([third, second])
  expect(registration.logged.slice(0, 2)).toMatchObject([
    { level: 'warn', fields: { consumer: 'billing' } },
    { level: 'warn', fields: { consumer: 'billing' } },
  ])
  expect(registration.logged).toHaveLength(2)
  // Its marks may stand for commits that the new history does not have.
  clock.nowMs -= 6_000
  expect([history.believes(third!), history.believes(second!)]).toEqual([true, false])
  clock.nowMs += 6_000
  // Without an identity nothing changes.
  await history.refresh()
  expect(history.namespaces()).toEqual([third, second])
})

test('a namespace that is distrusted is believed no more', async () => {
  const { history } = setUp()
  await history.refresh()
  expect(believed(history)).toBe(true)
  history.distrust(history.namespace()!)
  expect(believed(history)).toBe(false)
})

test('an identity that is still believed is not waited for', async () => {
  const answers = [async () => 'first', () => new Promise<string>(() => undefined)]
  const { clock, history } = setUp(() => (answers.shift() as () => Promise<string>)())
  await history.refresh()
  clock.nowMs += 5_000
  await history.refresh()
  expect(believed(history)).toBe(true)
})

test('without an inbox there is one namespace, which is always believed', async () => {
  const history = fixedHistory(unbound)
  await history.refresh()
  history.distrust(unbound)
  expect([history.namespace(), history.namespaces()]).toEqual([unbound, [unbound]])
  expect(history.believes(unbound)).toBe(true)
  expect(await history.refresh()).toBeUndefined()
})
