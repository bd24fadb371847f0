// @module-tag nightly

import { type Server, type SqsConnection, sqs } from '@onceward/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createSqsQueue } from '../../brokers/sqs/queue.ts'
import { onceEach, orders } from '../../support/effects.ts'
import { Testbed } from '../../support/testbed.ts'
import { Crew } from '../../support/workers/crew.ts'

const ATTEMPTS = 3

let queue: Server<SqsConnection>
beforeAll(async () => {
  queue = await sqs({ process: true })
})
afterAll(() => queue.stop())

describe.concurrent.each(['each', 'batch'] as const)("transaction '%s'", (transaction) => {
  // Red when attempts are counted inside the business transaction: the poison never dies, and kills workers for ever.
  test('trap T13: an attempt counter survives the rollback, and acceptance A14: a poison message that kills every process is dead-lettered', async () => {
    await using testbed = await Testbed.open({
      queue: await createSqsQueue(queue.connection),
      worker: { transaction, attempts: ATTEMPTS },
    })
    const innocent = orders(100)
    await testbed.send([...innocent.slice(0, 50), { id: 'order-poison', deed: 'poison' }])
    await testbed.send(innocent.slice(50))
    const crew = await Crew.of(3, testbed)

    await testbed.drained()
    crew.end()

    expect(crew.deaths.length).toBeLessThanOrEqual(ATTEMPTS + 1)
    expect(new Set(crew.deaths)).toEqual(new Set(['SIGKILL']))
    expect(await testbed.effects()).toEqual(onceEach(innocent))
    expect(await testbed.troubles()).toEqual([
      {
        id: 'order-poison',
        state: 'x',
        attempt: ATTEMPTS,
        reason: 'attempts-spent',
        published: true,
      },
    ])
    expect(await testbed.queue?.deadLetters()).toEqual([
      { id: 'order-poison', reason: 'attempts-spent' },
    ])
    const counts = (await testbed.runs()).filter(({ id }) => id !== 'order-poison')
    expect(Math.max(...counts.map(({ attempt }) => attempt))).toBeLessThanOrEqual(2)
  })

  // Red when each process has a count of its own.
  test('trap T14: three processes together make as many attempts as one', async () => {
    await using testbed = await Testbed.open({
      queue: await createSqsQueue(queue.connection),
      worker: { transaction },
    })
    const failing = orders(9, { deed: 'fail-always' })
    await Crew.of(3, testbed, { config: { retryBaseMs: 10 } })
    await testbed.send(failing)

    await testbed.drained()

    const troubles = await testbed.troubles()
    expect(troubles.map(({ attempt, reason }) => [attempt, reason])).toEqual(
      failing.map(() => [5, 'attempts-spent']),
    )
    const told = testbed.workers.flatMap(({ settled }) => settled)
    for (const { id } of failing) {
      const failed = told.filter((each) => each.id === id && each.why === 'failed')
      expect(failed.map(({ attempt }) => attempt).toSorted()).toEqual([1, 2, 3, 4])
    }
    expect(await testbed.effects()).toEqual({})
  })

  // Red when redeliveries count as attempts, by the receive count of SQS or before the row is asked.
  test('an event whose effect is committed never becomes dead, however often it is redelivered', async () => {
    await using testbed = await Testbed.open({
      queue: await createSqsQueue(queue.connection, { visibilityMs: 1_000 }),
      worker: { transaction, attempts: ATTEMPTS },
    })
    await testbed.send(orders(1))
    for (let death = 0; death < 2 * ATTEMPTS; death += 1) {
      const worker = testbed.spawn(`doomed-${death}`, {
        crash: { at: 'before-ack', id: 'order-0' },
      })
      await worker.start()
      await worker.heard('reached')
      worker.say({ kind: 'go' })
      expect(await worker.ended()).toBe('SIGKILL')
    }
    const last = testbed.spawn('last')
    await last.start()

    await testbed.drained()

    const told = testbed.workers.flatMap(({ settled }) => settled.map(({ why }) => why))
    const times = (why: string): number => told.filter((each) => each === why).length
    expect(times('processed')).toBe(1)
    expect(times('duplicate')).toBeGreaterThanOrEqual(2 * ATTEMPTS)
    // On a busy machine the message is visible again before its first run has ended.
    expect(told.length - times('processed') - times('duplicate')).toBe(times('in-progress'))
    expect(await testbed.effects()).toEqual({ 'order-0': 1 })
    expect(await testbed.runs()).toHaveLength(1)
    expect(await testbed.troubles()).toEqual([])
    expect(await testbed.queue?.deadLetters()).toEqual([])
  })
})
