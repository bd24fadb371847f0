import { setTimeout as sleep } from 'node:timers/promises'
import { pauseConsumer, resumeConsumer } from '@onceward/postgres'
import { skipped } from '@onceward/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { RunningBroker } from '../../brokers/broker.ts'
import { BROKER_NAMES, BROKERS } from '../../brokers/index.ts'
import { endsWithEverythingOnce } from '../../support/audit.ts'
import { createDice, seedOfCommit } from '../../support/dice.ts'
import { effectsReach, onceEach, orders, stillAlive } from '../../support/effects.ts'
import { Testbed } from '../../support/testbed.ts'
import { Crew } from '../../support/workers/crew.ts'
import {
  type Deed,
  NEST_KINDS,
  type Order,
  type WorkerConfig,
} from '../../support/workers/protocol.ts'

const dice = createDice(seedOfCommit())
const SERVERS = BROKER_NAMES.map((name) => ({
  ...BROKERS[name].servers.acceptance,
  // A service of NestJS keeps the same promises. The seed chooses how its handler is declared.
  nest: dice.pick(NEST_KINDS),
}))

/** How long another worker processes the event. */
const BUSY_MS = 5_000

const STALLED = { id: 'order-stalled', deed: 'stall' } as const

/** Ways in which a handler may upset the client library that calls it. */
const OUTRAGES: readonly Deed[] = [
  'throw-type-error',
  'throw-unretriable',
  'throw-undefined',
  'throw-at-once',
  'never-end',
]

describe.each(SERVERS)('$title', ({ nest: drawn, service, start }) => {
  let broker: RunningBroker
  beforeAll(async () => {
    if (!skipped(service)) broker = await start()
  })
  afterAll(() => broker?.server.stop())

  const workers = [
    { title: 'the adapter', nest: undefined, tags: [] },
    { title: `the adapter in a service of NestJS with ${drawn}`, nest: drawn, tags: ['nightly'] },
  ]

  for (const { nest, tags, title } of workers) {
    describe.skipIf(skipped(service)).concurrent(title, { tags }, () => {
      const openTestbed = async (worker: Partial<WorkerConfig> = {}): Promise<Testbed> =>
        Testbed.open({
          queue: await broker.createQueue(),
          worker: { transaction: 'each', concurrency: 4, nest, ...worker },
        })

      // Red when the adapter counts a message as settled before the broker knows, or does not settle it at all.
      test('a process that dies after its acknowledgement leaves no work behind', async () => {
        await using testbed = await openTestbed()
        const all = orders(3)
        const first = testbed.spawn('first')
        await first.start()
        await testbed.send(all)
        await effectsReach(testbed, 3)
        await testbed.drained()
        await testbed.until(async () => (await first.health()).inFlight === 0, {
          what: 'its last ack',
        })
        // RabbitMQ answers no acknowledgement, and one that is on its way dies with the process.
        await testbed.until(async () => ((await testbed.queue?.inFlight?.()) ?? 0) === 0, {
          what: 'the last ack at the broker',
        })
        await first.kill()
        const other = testbed.spawn('other')
        await other.start()
        await testbed.send([{ id: 'order-after' }])

        await endsWithEverythingOnce(testbed, [...all, { id: 'order-after' }])
        expect(other.settled.map(({ why }) => why)).toEqual(['processed'])
      })

      // Red when the message is acknowledged with its first event, or when a dead item takes the others with it.
      test('a message with several events has one effect for each, and a dead letter for the one that fails', async () => {
        await using testbed = await openTestbed({ splits: true })
        const dead = { id: 'order-dead', deed: 'fatal-until-mended' } as const
        const late = { id: 'order-late', deed: 'fail-once' } as const
        await testbed.send([
          { id: 'message-1', items: [{ id: 'order-1' }, dead, late, { id: 'order-2' }] },
          // Another message repeats one of them.
          { id: 'message-2', items: [{ id: 'order-2' }, { id: 'order-3' }] },
        ])
        await testbed.spawn('worker').start()
        await effectsReach(testbed, 4)
        await testbed.drained()
        expect(await testbed.effects()).toEqual({
          ...{ 'order-1': 1, 'order-2': 1, 'order-3': 1, 'order-late': 1 },
        })
        expect(await testbed.queue?.deadLetters()).toEqual([{ id: 'order-dead', reason: 'fatal' }])
      })

      // Red when the message is acknowledged although `afterCommit` threw, or when its event runs again.
      test('a message comes back until afterCommit has succeeded, and its event runs once', async () => {
        await using testbed = await openTestbed({ replies: true })
        await testbed.send([{ id: 'order-1', deed: 'fail-reply-once' }, { id: 'order-2' }])
        await testbed.spawn('worker').start()
        const replies = async (): Promise<readonly unknown[]> =>
          (await testbed.pool.query('select * from replies order by id')).rows
        await testbed.until(async () => (await replies()).length === 2, { what: 'two replies' })
        await testbed.drained()
        expect(await replies()).toEqual([
          { id: 'order-1', is_of_duplicate: true },
          { id: 'order-2', is_of_duplicate: false },
        ])
        expect((await testbed.runs()).map(({ id }) => id).toSorted()).toEqual([
          'order-1',
          'order-2',
        ])
      })

      // Red when a delivery of an event in progress goes back to the broker at once: thousands of deliveries.
      test('an event that is in progress elsewhere for 5 s is delivered at most three times', async () => {
        await using testbed = await openTestbed()
        const owner = testbed.spawn('owner', { source: { kind: 'manual' } })
        const worker = testbed.spawn('worker')
        await Promise.all([owner.heard('ready'), worker.start()])
        owner.say({ kind: 'deliver', deliveries: [{ order: STALLED, deliveryCount: 1 }] })
        await owner.heard('reached')
        await testbed.send([STALLED, ...orders(3)])
        await testbed.until(async () => worker.settled.some(({ why }) => why === 'in-progress'), {
          what: 'a delivery that meets the owner',
        })
        // The test is about this time.
        await sleep(BUSY_MS)
        owner.say({ kind: 'go' })

        await effectsReach(testbed, 4)
        await testbed.drained()
        expect(await worker.received(STALLED.id)).toBeLessThanOrEqual(3)
        expect(await testbed.committed(STALLED.id)).toMatchObject([{ worker: 'owner' }])
        await endsWithEverythingOnce(testbed, [STALLED, ...orders(3)])
      })

      // Red when an error of the handler reaches the client, which ends the consumer, its channel or the process.
      test('handlers that throw anything or never end do not stop the consumer', async () => {
        await using testbed = await openTestbed({ deadlineMs: 2_000 })
        const worker = testbed.spawn('worker')
        await worker.start()
        const outrages = OUTRAGES.map((deed): Order => ({ id: `order-${deed}`, deed }))
        await testbed.send([...outrages, ...orders(5)])
        await effectsReach(testbed, outrages.length + 5)
        await testbed.send([{ id: 'order-after' }])

        await effectsReach(testbed, outrages.length + 6)
        stillAlive([worker])
        expect(await worker.health()).toMatchObject({ state: 'running' })
        await endsWithEverythingOnce(testbed, [...outrages, ...orders(5), { id: 'order-after' }])
        expect(worker.stderr).toBe('')
      })

      // Red when an acknowledgement also covers an earlier event in flight, which is lost with its process.
      test('trap T18: acknowledging later events does not acknowledge an event in flight', async () => {
        await using testbed = await openTestbed()
        const first = testbed.spawn('first')
        await first.start()
        await testbed.send([STALLED, ...orders(20)])
        await first.heard('reached')
        await effectsReach(testbed, 3)
        await first.kill()
        const other = testbed.spawn('other')
        await other.start()
        await other.heard('reached')
        other.say({ kind: 'go' })

        await endsWithEverythingOnce(testbed, [STALLED, ...orders(20)])
      })

      // Red when a failed event is neither deferred nor given back, and when a later acknowledgement covers it.
      test('trap T17: acknowledging later events does not acknowledge a failed event that waits', async () => {
        await using testbed = await openTestbed({ retryBaseMs: 3_000, random: 0.99 })
        const failing = { id: 'order-failing', deed: 'fail-once' } as const
        const first = testbed.spawn('first')
        await first.start()
        await testbed.send([failing, ...orders(20)])
        await testbed.until(async () => (await testbed.state(failing.id)) === 'w', {
          what: 'a failure',
        })
        await effectsReach(testbed, 1)
        await first.kill()
        const other = testbed.spawn('other')
        await other.start()

        await effectsReach(testbed, 21)
        expect(await testbed.committed(failing.id)).toMatchObject([{ worker: 'other', attempt: 2 }])
        await endsWithEverythingOnce(testbed, [failing, ...orders(20)])
      })

      // Red when the claim or the writes of a failed run survive it.
      test('acceptance A19: the writes of a handler that throws are rolled back, and the redelivery is processed', async () => {
        await using testbed = await openTestbed()
        const failing = orders(10, { deed: 'fail-once' })
        const workers = [testbed.spawn('one'), testbed.spawn('two')]
        await Promise.all(workers.map((worker) => worker.start()))
        await testbed.send(failing)

        await endsWithEverythingOnce(testbed, failing)
        const attempts = await Promise.all(failing.map(({ id }) => testbed.committed(id)))
        expect(new Set(attempts.flat().map(({ attempt }) => attempt))).toEqual(new Set([2]))
      })

      // Red when a dead event is acknowledged without a dead letter, or when each delivery publishes one.
      test('an event whose attempts are spent is dead-lettered once', async () => {
        await using testbed = await openTestbed({ attempts: 3, retryBaseMs: 10 })
        const worker = testbed.spawn('worker')
        await worker.start()
        await testbed.send([{ id: 'order-poison', deed: 'fail-always' }, ...orders(20)])

        await effectsReach(testbed, 20)
        await testbed.until(async () => (await testbed.troubles())[0]?.published, {
          what: 'a dead letter',
        })
        await testbed.drained()
        expect(await worker.stop()).toBe(0)
        expect(await testbed.effects()).toEqual(onceEach(orders(20)))
        expect(await testbed.troubles()).toEqual([
          {
            ...{ id: 'order-poison', state: 'x', attempt: 3 },
            ...{ reason: 'attempts-spent', published: true },
          },
        ])
        expect(await testbed.queue?.deadLetters()).toEqual([
          { id: 'order-poison', reason: 'attempts-spent' },
        ])
      })

      // Red when attempts are counted inside the business transaction, or by the broker alone.
      test('acceptance A14: a poison message that kills every process is dead-lettered', async () => {
        await using testbed = await openTestbed({ attempts: 3 })
        await testbed.send([...orders(10), { id: 'order-poison', deed: 'poison' }])
        const crew = await Crew.of(2, testbed)

        await effectsReach(testbed, 10)
        await testbed.until(async () => (await testbed.troubles())[0]?.published, {
          what: 'a dead letter',
        })
        await testbed.drained()
        crew.end()
        expect(crew.deaths.length).toBeLessThanOrEqual(4)
        expect(new Set(crew.deaths)).toEqual(new Set(['SIGKILL']))
        expect(await testbed.effects()).toEqual(onceEach(orders(10)))
        expect(await testbed.queue?.deadLetters()).toEqual([
          { id: 'order-poison', reason: 'attempts-spent' },
        ])
      })

      // Red without the row as a fence: both commit. Red when a settlement of the frozen process has an effect.
      test('traps T19 and A15: another process takes over the event of a frozen one, which cannot commit when it continues', async () => {
        await using testbed = await openTestbed({ deadlineMs: 3_000 })
        const owner = testbed.spawn('owner')
        const successor = testbed.spawn('successor')
        await testbed.send([STALLED])
        await owner.start()
        await owner.heard('reached')
        await owner.kill('SIGSTOP')
        await successor.start()
        await successor.heard('reached')
        successor.say({ kind: 'go' })
        await effectsReach(testbed, 1)
        await owner.kill('SIGCONT')
        owner.say({ kind: 'go' })
        await testbed.until(async () => owner.settled.length > 0, { what: 'the owner to give up' })

        expect(owner.settled.map(({ why }) => why)).not.toContain('processed')
        expect(await testbed.committed(STALLED.id)).toMatchObject([{ worker: 'successor' }])
        await testbed.send(orders(5))
        await endsWithEverythingOnce(testbed, [STALLED, ...orders(5)])
      })

      // Red when a drain aborts running handlers at once, or settles messages that it has not run.
      test('a drain finishes running handlers, and another process gets messages that were not started', async () => {
        await using testbed = await openTestbed({ concurrency: 1 })
        const first = testbed.spawn('first')
        const other = testbed.spawn('other')
        await Promise.all([first.start(), other.heard('ready')])
        await testbed.send([STALLED])
        await first.heard('reached')
        await testbed.send(orders(9))
        first.say({ kind: 'drain' })
        await testbed.until(async () => (await first.health()).state === 'draining', {
          what: 'a drain',
        })
        first.say({ kind: 'go' })
        await first.heard('drained')
        await other.start()

        await endsWithEverythingOnce(testbed, [STALLED, ...orders(9)])
        expect(await testbed.committed(STALLED.id)).toMatchObject([{ worker: 'first' }])
        expect(await testbed.runs()).toHaveLength(10)
      })

      // Red when a pause holds messages instead of giving them back, ends the consumer, or is forgotten by a new process.
      test('a consumer that is paused from outside starts nothing, also in a new process, and goes on without a restart', async () => {
        await using testbed = await openTestbed({ concurrency: 1 })
        const first = testbed.spawn('first')
        await first.start()
        await testbed.send([STALLED])
        await first.heard('reached')
        await testbed.send(orders(5))
        await pauseConsumer(testbed.pool, 'orders', { by: 'ana', why: 'the bank is down' })
        const isPaused = (worker: typeof first) =>
          testbed.until(async () => (await worker.health()).state === 'paused', { what: 'a pause' })
        await isPaused(first)
        const { reason } = await first.health()
        expect(reason).toContain('paused by ana: the bank is down')
        first.say({ kind: 'go' })
        await testbed.until(async () => (await testbed.committed(STALLED.id)).length === 1, {
          what: 'the end of what ran',
        })
        const other = testbed.spawn('other')
        await other.start()
        await isPaused(other)
        expect(await testbed.runs()).toHaveLength(1)

        await resumeConsumer(testbed.pool, 'orders')
        await endsWithEverythingOnce(testbed, [STALLED, ...orders(5)])
        expect(await testbed.runs()).toHaveLength(6)
      })
    })
  }
})
