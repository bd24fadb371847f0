// @module-tag nightly

import { type Server, type SqsConnection, sqs } from '@onceward/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createSqsQueue } from '../../brokers/sqs/queue.ts'
import {
  effectsReach,
  everythingOnce,
  onceEach,
  orders,
  stillAlive,
} from '../../support/effects.ts'
import { Testbed } from '../../support/testbed.ts'
import type { Order } from '../../support/workers/protocol.ts'

const DAY_MS = 86_400_000

let queue: Server<SqsConnection>
beforeAll(async () => {
  queue = await sqs({ process: true })
})
afterAll(() => queue.stop())

describe.concurrent.each(['each', 'batch'] as const)("transaction '%s'", (transaction) => {
  /*
   * Red when an instant of the worker's own clock is stored (a retry that one worker makes due tomorrow, the other
   * never gets), or compared with one of the server's.
   */
  test('trap T32: two workers whose clocks are wrong by a day, one each way, share the work', async () => {
    await using testbed = await Testbed.open({
      queue: await createSqsQueue(queue.connection),
      worker: { transaction, retryBaseMs: 1_000 },
    })
    const ahead = testbed.spawn('ahead', { clockOffsetMs: DAY_MS })
    const behind = testbed.spawn('behind', { clockOffsetMs: -DAY_MS })
    const workers = [ahead, behind]
    await Promise.all(workers.map((worker) => worker.start()))
    const all: Order[] = []
    // The broker decides who receives what: the first worker that polls may take a whole wave.
    do {
      const wave = orders(20, { deed: 'fail-once' }, `wave-${all.length}`)
      all.push(...wave)
      await testbed.send(wave)
      await effectsReach(testbed, all.length)
    } while (all.length < 400 && workers.some((worker) => worker.settled.length === 0))

    await everythingOnce(testbed, all)

    stillAlive(workers)
    for (const worker of workers) expect(worker.settled.length).toBeGreaterThan(0)
    const waits = workers.flatMap(({ settled }) => settled.flatMap(({ waitMs = 0 }) => waitMs))
    expect(Math.max(...waits)).toBeLessThan(60_000)
  })

  // Red when the wait for a connection has no limit, or when it counts as a failure of the event.
  test("a pool that the user's own code has exhausted defers everything until it is free", async () => {
    await using testbed = await Testbed.open({
      queue: await createSqsQueue(queue.connection),
      worker: { transaction, poolMax: 5, concurrency: 3, attempts: 1 },
    })
    const worker = testbed.spawn('worker')
    await worker.start()
    worker.say({ kind: 'take-pool' })
    await worker.heard('pool-taken')
    const all = orders(10)
    await testbed.send(all)
    await testbed.until(async () => worker.settled.some(({ why }) => why === 'store-down'), {
      what: 'a delivery that waits for the store',
    })
    expect(await testbed.effects()).toEqual({})
    worker.say({ kind: 'free-pool' })

    await everythingOnce(testbed, all)
    stillAlive([worker])
    expect(worker.settled.map(({ error = '' }) => error).join()).toMatch(
      /No connection of the pool/,
    )
  })

  // Red when a failure that cannot be recorded ends an event. Two attempts: one counts where the disk is free in time.
  test('a full disk (53100) does not count as a failure of the event', async () => {
    await using testbed = await Testbed.open({
      queue: await createSqsQueue(queue.connection),
      worker: { transaction, attempts: 2 },
    })
    await fillDisk(testbed)
    const worker = testbed.spawn('worker')
    await worker.start()
    const all = orders(10, { deed: 'fill-disk' })
    await testbed.send(all)
    await testbed.until(async () => (await worker.health()).state === 'paused', {
      what: 'a consumer that waits for the store',
    })
    expect(await testbed.effects()).toEqual({})
    await testbed.pool.query('delete from full_disk')

    await everythingOnce(testbed, all)
    stillAlive([worker])
    expect(worker.settled.map(({ error = '' }) => error).join()).toMatch(/No space left on device/)
  })

  // Red when each of these runs counts as an attempt without a recorded result: six of them would make it dead.
  test('a disk that is full for a long time counts against no event, including redelivered ones', async () => {
    await using testbed = await Testbed.open({
      queue: await createSqsQueue(queue.connection, { longestHiddenMs: 2_000 }),
      worker: { transaction, attempts: 2 },
    })
    await fillDisk(testbed)
    const all = orders(1, { deed: 'fill-disk' })
    await testbed.send(all)
    const first = testbed.spawn('first')
    await first.start()
    await testbed.until(async () => first.settled.length > 0, { what: 'a first run' })
    await first.kill()
    const second = testbed.spawn('second')
    await second.start()
    await testbed.until(async () => second.settled.length >= 7, { what: 'seven deferrals' })
    await testbed.pool.query('delete from full_disk')

    await everythingOnce(testbed, all)
    stillAlive([second])
  })

  // Red when the codes of a store that is down open the breaker, wherever they come from.
  test('an error 53100 that only the handler gets, from a server of its own, is a failure of its event alone', async () => {
    await using testbed = await Testbed.open({
      queue: await createSqsQueue(queue.connection),
      worker: { transaction, attempts: 1 },
    })
    await testbed.pool.query('insert into full_disk values (true)')
    const worker = testbed.spawn('worker')
    await worker.start()
    const healthy = orders(20)
    await testbed.send([{ id: 'order-foreign', deed: 'fill-disk' }, ...healthy])
    await effectsReach(testbed, 20)
    await testbed.until(async () => (await testbed.troubles())[0]?.state === 'x', {
      what: 'a dead event',
    })
    expect((await worker.health()).state).toBe('running')
    await testbed.drained()
    expect(worker.settled.map(({ why }) => why)).not.toContain('store-down')
  })

  /*
   * Red when such a run counts for the neighbours too (all of a batch end dead), and when a delivery that was begun
   * counts as a first one for ever (it never ends).
   */
  test('an event that breaks its connection in every run is dead-lettered alone, with reason no-verdict', async () => {
    await using testbed = await Testbed.open({
      queue: await createSqsQueue(queue.connection, { longestHiddenMs: 2_000 }),
      worker: { transaction, attempts: 1 },
    })
    const worker = testbed.spawn('worker')
    const innocent = orders(9)
    const breaker = { id: 'order-breaker', deed: 'break-connection' } as const
    await testbed.send([...innocent.slice(0, 5), breaker, ...innocent.slice(5)])
    await worker.start()

    await testbed.drained()
    expect(await testbed.effects()).toEqual(onceEach(innocent))
    expect(await testbed.troubles()).toMatchObject([
      { id: breaker.id, state: 'x', reason: 'no-verdict', published: true },
    ])
    expect(await testbed.queue?.deadLetters()).toEqual([{ id: breaker.id, reason: 'no-verdict' }])
    stillAlive([worker])
  })
})

/** The disk is full for what handlers write and for what onceward records. */
async function fillDisk({ pool }: Testbed): Promise<void> {
  await pool.query(`create function fill_disk_too() returns trigger language plpgsql as $$
    begin
      if exists (select from public.full_disk) then
        raise sqlstate '53100' using message = 'could not extend file: No space left on device';
      end if;
      return new;
    end $$`)
  await pool.query(`create trigger full_disk before insert or update on onceward.failed_events
    for each row execute function public.fill_disk_too()`)
  await pool.query('insert into full_disk values (true)')
}
