// @module-tag nightly

import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { toDelivery } from '@onceward/core/memory'
import { migrate } from '@onceward/postgres'
import { pgInbox } from '@onceward/postgres/pg'
import { until } from '@onceward/testing'
import { describe, expect, test } from 'vitest'
import { createBilling } from '../../docs/samples/batch.ts'
import { createPayments } from '../../docs/samples/http-effect.ts'
import { createBilling as createKyselyBilling } from '../../docs/samples/kysely-own-pool.ts'
import { createBilling as createSealedBilling } from '../../docs/samples/sealed-billing.ts'
import { aesSeal } from '../../docs/samples/sealing.ts'
import { BROKERS, DEFAULT_BROKER } from '../brokers/index.ts'
import { openScenario, run, runToEnd } from '../support/samples.ts'

const samples = join(import.meta.dirname, '../../docs/samples')

describe('the samples of the documents run as they are', () => {
  test('dead-letters lists, replays and discards what the quick start has dead-lettered', async () => {
    const { start, quickStart } = BROKERS[DEFAULT_BROKER].samples
    await using servers = new AsyncDisposableStack()
    const server = servers.adopt(await start(), (started) => started.stop())
    await using queue = await server.openQueue()
    const { scenario } = queue
    await migrate(scenario.pool)
    await queue.send({ orderId: 'order-1', accountId: 2, cents: 1 })
    await queue.send({ nothing: 'of this schema' })
    await using consumer = run(quickStart, scenario)
    await until(
      async () => {
        expect(consumer.process.exitCode, consumer.output()).toBeNull()
        return (await queue.waiting()) === 0
      },
      { what: 'an empty queue', deadlineMs: 60_000 },
    )
    const output = await runToEnd('dead-letters', scenario)
    expect(output).toMatch(/reason: 'fatal'/)
    expect(output).toMatch(/reason: 'invalid-payload'/)
    expect(output).toContain('0 will run again')
    const { rows } = await scenario.pool.query('select who, action, why from onceward.audit')
    expect(rows).toEqual([{ who: 'alice', action: 'discard', why: 'test data of a producer' }])
  })

  test('sealing opens what another of its keys has sealed, in its place alone', async () => {
    const [first, second] = [Buffer.alloc(32, 1), Buffer.alloc(32, 2)]
    const old = aesSeal(new Map([[1, first]]), 1)
    const rotated = aesSeal(
      new Map([
        [1, first],
        [2, second],
      ]),
      2,
    )
    const body = { consumer: 'billing', field: 'body' } as const
    const bytes = Buffer.from('an order')
    const sealed = await old.seal(bytes, body)
    expect(await rotated.open(sealed, body)).toEqual(bytes)
    expect(() => old.open(sealed, { ...body, field: 'result' })).toThrow(/authenticate/)
    const newer = await rotated.seal(bytes, body)
    expect(() => old.open(newer, body)).toThrow('there is no key 2')
    await using scenario = await openScenario({})
    await migrate(scenario.pool)
    const billing = createSealedBilling(scenario.pool, rotated)
    const order = toDelivery({ orderId: 'a', iban: 'DE02', cents: 1 })
    const settlement = await billing.process(order, { needsResult: true })
    await billing.close()
    expect(settlement).toEqual({ kind: 'ack', by: 'processed', result: { charged: 1 } })
    const { rows } = await scenario.pool.query(
      'select result, payload from onceward.event_results, onceward.outbox_messages',
    )
    expect(rows[0].result).toEqual({ 'onceward-sealed': expect.any(String) })
    expect(rows[0].payload[0]).toBe(2)
  })

  test('batch charges every order of a batch once', async () => {
    await using scenario = await openScenario({})
    await migrate(scenario.pool)
    const billing = createBilling(scenario.pool)
    const orders = ['a', 'b', 'a'].map((orderId) => toDelivery({ orderId, cents: 1 }))
    const settlements = await billing.processBatch(orders)
    await billing.close()
    expect(settlements).toMatchObject([
      { by: 'processed' },
      { by: 'processed' },
      { by: 'duplicate' },
    ])
    const { rows } = await scenario.pool.query('select order_id from charges order by 1')
    expect(rows).toEqual([{ order_id: 'a' }, { order_id: 'b' }])
  })

  test('kysely-own-pool charges every order once, in the transaction of the guard', async () => {
    await using scenario = await openScenario({})
    await migrate(scenario.pool)
    await scenario.pool.query('alter table charges add check (cents > 0)')
    const billing = createKyselyBilling(scenario.env['DATABASE_URL'] ?? '')
    const process = (orderId: string, cents: number) =>
      billing.process(toDelivery({ orderId, cents }))
    expect(await process('a', 1)).toMatchObject({ by: 'processed' })
    expect(await process('a', 1)).toMatchObject({ by: 'duplicate' })
    expect(await process('b', 0)).toMatchObject({ kind: 'defer', reason: 'failed' })
    await billing.close()
    // One transaction wrote the charge and the row of the event.
    const { rows } = await scenario.pool.query(`
      select order_id from charges c join onceward.processed_events p on p.xmin = c.xmin
      where p.state = 'd'`)
    expect(rows).toEqual([{ order_id: 'a' }])
    const { rows: all } = await scenario.pool.query('select from charges')
    expect(all).toHaveLength(1)
  })

  test('http-effect sends the same idempotency key in every attempt', async () => {
    await using scenario = await openScenario({})
    await migrate(scenario.pool)
    const keys: unknown[] = []
    const service = createServer((request, response) => {
      keys.push(request.headers['idempotency-key'])
      response.writeHead(keys.length === 1 ? 503 : 201).end()
    }).listen(0, '127.0.0.1')
    await once(service, 'listening')
    const { port } = service.address() as AddressInfo
    const payments = createPayments(pgInbox(scenario.pool), `http://127.0.0.1:${port}`)
    const order = toDelivery({ orderId: 'a', cents: 1 })
    expect(await payments.process(order)).toMatchObject({ kind: 'defer', reason: 'failed' })
    await until(async () => (await payments.process(order)).kind === 'ack')
    await payments.close()
    service.close()
    expect(keys).toHaveLength(2)
    expect(keys[0]).toEqual(expect.any(String))
    expect(keys[1]).toBe(keys[0])
  })

  test('the SQL of docs/operations.md is valid', async () => {
    await using scenario = await openScenario({})
    await migrate(scenario.pool)
    const text = await readFile(join(samples, '../operations.md'), 'utf8')
    const blocks = [...text.matchAll(/^```sql\n([\s\S]*?)^```/gm)].map(([, sql = '']) => sql)
    expect(blocks.length).toBeGreaterThan(1)
    for (const sql of blocks) await scenario.pool.query(sql)
  })
})
