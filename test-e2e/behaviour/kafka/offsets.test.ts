// @module-tag nightly

import { resetOffsets } from '@onceward/postgres/operator'
import { skipped } from '@onceward/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { isConfluentBuilt } from '../../../packages/kafka/src/fixtures/confluent-built.ts'
import type { RunningBroker } from '../../brokers/broker.ts'
import { CLIENT_NAMES, drawnClient } from '../../brokers/kafka/clients.ts'
import type { Topic, TopicOptions } from '../../brokers/kafka/queue.ts'
import { startKafka } from '../../brokers/kafka/server.ts'
import { createDice } from '../../support/dice.ts'
import { effectsReach, onceEach, orders } from '../../support/effects.ts'
import { Testbed } from '../../support/testbed.ts'
import { Crew } from '../../support/workers/crew.ts'
import type { Order } from '../../support/workers/protocol.ts'

/** Longer than the session of a member: its partitions have another owner when it wakes up. */
const FROZEN_MS = 6_000
const MEMBERS = 3
const CLEAN = 2_000
const BUILT = CLIENT_NAMES.filter((name) => !name.startsWith('confluent') || isConfluentBuilt())

/** One in a hundred fails once, two fail for good; orders of one account are in one lane. */
function mixed(): readonly Order[] {
  return Array.from({ length: 4_000 }, (_, index): Order => {
    const order = { id: `order-${index}`, lane: `lane-${index % 40}` }
    if (index % 1_999 === 7) return { ...order, deed: 'fail-always' }
    return index % 100 === 3 ? { ...order, deed: 'fail-once' } : order
  })
}

describe.skipIf(skipped('kafka'))("Kafka with identity: 'offsets'", () => {
  let broker: RunningBroker<Topic, TopicOptions>
  beforeAll(async () => {
    broker = await startKafka()
  })
  afterAll(() => broker?.server.stop())

  const open = async (): Promise<Testbed> =>
    Testbed.open({
      queue: await broker.createQueue({ identity: 'offsets', client: drawnClient(BUILT) }),
      worker: { transaction: 'batch', concurrency: 4, attempts: 10, longestDeferMs: 1_000 },
    })

  const rowsOf = async ({ pool }: Testbed): Promise<number> => {
    const { rows } = await pool.query('select count(*)::int as n from onceward.processed_events')
    return rows[0].n
  }

  // Red when the epoch or the old offset is left out of the fence, and when a frozen owner may commit.
  test('members that are killed, frozen and drained at any moment: each record has one effect', async () => {
    await using testbed = await open()
    const all = mixed()
    const good = all.filter(({ deed }) => deed !== 'fail-always')
    const crew = await Crew.of(MEMBERS, testbed)
    const sent = testbed.send(all)
    const dice = createDice()
    const victim = () => dice.pick(crew.members)
    for (let blow = 1; blow <= 8; blow += 1) {
      await effectsReach(testbed, Math.floor((blow * good.length) / 10))
      if (blow % 4 !== 0) await victim()?.kill('SIGKILL')
      else {
        const frozen = victim()
        await frozen?.kill('SIGSTOP')
        setTimeout(() => void frozen?.kill('SIGCONT'), FROZEN_MS)
      }
    }
    await sent
    await effectsReach(testbed, good.length)
    await testbed.drained()
    crew.end()
    await Promise.all(crew.members.map((worker) => worker.stop()))

    const effects = await testbed.effects()
    const wrong = good.filter(({ id }) => effects[id] !== 1).map(({ id }) => id)
    expect(wrong, await testbed.explain(wrong)).toEqual([])
    expect(effects).toEqual(onceEach(good))
    const letters = (await testbed.queue?.deadLetters()) ?? []
    expect(new Set(letters.map(({ id }) => id)).size).toBe(all.length - good.length)
    expect(crew.deaths.filter((how) => how !== 'SIGKILL')).toEqual([])
  }, 400_000)

  // Red when a member goes on with what it claimed before the reset.
  test('a reset while a member runs: it is fenced, and every record runs once more', async () => {
    await using testbed = await open()
    const worker = testbed.spawn('worker')
    await worker.start()
    const [before, after] = [orders(400, {}, 'before'), orders(80, {}, 'after')]
    await testbed.send(before)
    await effectsReach(testbed, before.length)
    const { rows } = await testbed.pool.query('select topic from onceward.kafka_offsets')
    await resetOffsets(testbed.pool, { consumer: 'orders', topic: rows[0].topic, to: 0 })
    // An idle member does not notice.
    await testbed.send(after)
    const total = async (): Promise<number> =>
      Object.values(await testbed.effects()).reduce((sum, times) => sum + times, 0)
    const wanted = 2 * before.length + after.length
    await testbed.until(async () => (await total()) >= wanted, { what: 'a second effect of each' })
    const effects = await testbed.effects()
    expect(before.filter(({ id }) => effects[id] !== 2)).toEqual([])
    expect(after.filter(({ id }) => effects[id] !== 1)).toEqual([])
    await worker.stop()
  })

  // Red when a refusal ends the consumption, or only another start reads the partition again.
  test('a partition that is refused goes on after a reset, and the others do not wait for it', async () => {
    await using testbed = await open()
    const first = testbed.spawn('worker')
    await first.start()
    const [before, after] = [orders(200, {}, 'before'), orders(200, {}, 'after')]
    await testbed.send(before)
    await effectsReach(testbed, before.length)
    await first.stop()
    const { rows } = await testbed.pool.query(`update onceward.kafka_offsets set topic_id = 'old'
      where partition = 0 returning topic, next_offset::float8 as to`)
    const [{ topic, to }] = rows
    expect(to).toBeGreaterThan(0)

    const second = testbed.spawn('worker')
    await second.start()
    await testbed.send(after)
    const ofOthers = async (): Promise<boolean> => {
      const query = 'select topic_id, next_offset > $1 as has_moved from onceward.kafka_offsets'
      const found = await testbed.pool.query(query, [to])
      return found.rows.every(({ has_moved, topic_id }) => has_moved !== (topic_id === 'old'))
    }
    await testbed.until(ofOthers, { what: 'records of the other partitions' })
    await resetOffsets(testbed.pool, { consumer: 'orders', topic, partition: 0, to })
    await effectsReach(testbed, before.length + after.length)
    expect(await testbed.effects()).toEqual(onceEach([...before, ...after]))
    await second.stop()
  })

  test('a record that was clean stores nothing', async () => {
    await using testbed = await open()
    const worker = testbed.spawn('worker')
    await worker.start()
    // What comes in the first moment of an assignment may have been started by the owner before, and has a row.
    let first = 0
    const storesNothing = async (): Promise<boolean> => {
      const rows = await rowsOf(testbed)
      first += 1
      await testbed.send([{ id: `first-${first}` }])
      await effectsReach(testbed, first)
      return (await rowsOf(testbed)) === rows
    }
    await testbed.until(storesNothing, { what: 'a record without a row' })
    const before = await rowsOf(testbed)
    const clean = Array.from({ length: CLEAN }, (_, index): Order => ({ id: `order-${index}` }))
    await testbed.send(clean)
    await effectsReach(testbed, first + CLEAN)
    expect(await rowsOf(testbed)).toBe(before)
  })
})
