import { expect, test } from 'vitest'
import { silent } from '../fixtures/inbox.ts'
import { toDelivery } from '../memory/to-delivery.ts'
import type { GuardPort, RunHooks } from '../model/guard-port.ts'
import type { Settlement } from '../model/settlement.ts'
import { processAndSettle } from './process-and-settle.ts'

const PROCESSED: Settlement = { kind: 'ack', by: 'processed' }
const DUPLICATE: Settlement = { kind: 'ack', by: 'duplicate' }

/** Runs a batch of two under a guard that answers as the test says. */
function running(run: (hooks: RunHooks) => Promise<readonly Settlement[]>) {
  const batch = ['a', 'b'].map((name) => ({ name, delivery: toDelivery(name) }))
  const settled: [string, Settlement][] = []
  const logged: object[] = []
  const given: unknown[] = []
  const gate = Promise.withResolvers<void>()
  const port: Pick<GuardPort, 'run' | 'logger'> = {
    run: (deliveries, hooks = {}) => {
      given.push(deliveries, hooks)
      return run(hooks)
    },
    logger: { ...silent, error: (fields: object) => void logged.push(fields) },
  }
  const { signal } = new AbortController()
  let isOver = false
  const over = processAndSettle(port, batch, {
    ...{ stop: signal, abort: signal, hasDeadLetterPlace: true },
    settle: ({ name }, settlement) => {
      settled.push([name, settlement])
      // Only the broker of the second takes its time.
      return name === 'b' ? gate.promise : undefined
    },
  }).then(() => {
    isOver = true
  })
  return { batch, settled, logged, given, gate, over, signal, isOver: () => isOver }
}

const turn = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve))

test('each delivery is settled once, as soon as it is decided, and the broker is waited for', async () => {
  const { batch, gate, given, isOver, logged, over, settled, signal } = running(
    async ({ onSettlement }) => {
      onSettlement?.(1, DUPLICATE)
      // No delivery has this number.
      onSettlement?.(2, DUPLICATE)
      return [PROCESSED, PROCESSED]
    },
  )
  expect(settled).toEqual([['b', DUPLICATE]])
  await turn()
  expect(settled.slice(1)).toEqual([['a', PROCESSED]])
  expect(isOver()).toBe(false)
  gate.resolve()
  await over
  expect(logged).toEqual([])
  const hooks = { stop: signal, abort: signal, hasDeadLetterPlace: true }
  expect(given).toEqual([
    batch.map(({ delivery }) => delivery),
    { ...hooks, onSettlement: expect.any(Function) },
  ])
})

test('a guard that rejects is logged, and leaves what it has not settled to the redelivery', async () => {
  const error = new Error('a defect')
  const { gate, logged, over, settled } = running(async ({ onSettlement }) => {
    onSettlement?.(0, PROCESSED)
    throw error
  })
  gate.resolve()
  await over
  expect(settled).toEqual([
    ['a', PROCESSED],
    ['b', { kind: 'abandon', reason: 'commit-unknown', error }],
  ])
  expect(logged).toEqual([{ err: error }])
})
