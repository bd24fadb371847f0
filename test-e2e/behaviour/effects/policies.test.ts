import { migrate } from '@onceward/postgres'
import { database, type RedisConnection, redis, type Server, until } from '@onceward/testing'
import { Pool } from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Dynalite, startDynalite } from '../../../packages/dynamodb/src/fixtures/dynalite.ts'
import { PayerProcess } from './payer-process.ts'
import { openPayments, type Payments } from './payments.ts'
import type { PayerConfig } from './protocol.ts'

let server: Server<RedisConnection>
let databaseUrl: string
let dynamo: Dynalite
let table: string
beforeAll(async () => {
  server = await redis()
  dynamo = await startDynalite()
  table = await dynamo.table()
  ;({ url: databaseUrl } = await database())
  const pool = new Pool({ connectionString: databaseUrl, max: 1 })
  await migrate(pool)
  await pool.end()
})
afterAll(() => Promise.all([server.stop(), dynamo[Symbol.asyncDispose]()]))

const newOrder = () => ({ orderId: `order-${crypto.randomUUID()}`, cents: 1999 })
const counts = (payments: Payments): readonly number[] => Object.values(payments.charges())

describe.each(['redis', 'postgres', 'dynamodb'] as const)(
  'an HTTP call guarded by leases in %s',
  (kind) => {
    const storeOf = (): PayerConfig['store'] =>
      ({
        redis: { kind: 'redis', port: server.connection.port },
        postgres: { kind: 'postgres', url: databaseUrl },
        dynamodb: { kind: 'dynamodb', endpoint: dynamo.endpoint, table },
      })[kind] as PayerConfig['store']

    interface Scenario extends AsyncDisposable {
      readonly order: ReturnType<typeof newOrder>
      readonly successor: PayerProcess
      readonly duplicate: PayerProcess
    }

    /** The first worker is killed while it processes the order; two others are running. */
    async function afterDeath(
      payments: Payments,
      { onTakeover, dies = 'before-complete' }: Pick<PayerConfig, 'onTakeover' | 'dies'>,
    ): Promise<Scenario> {
      const config = { store: storeOf(), paymentsUrl: payments.url, onTakeover }
      const order = newOrder()
      const successor = new PayerProcess(config)
      const duplicate = new PayerProcess(config)
      await using first = new PayerProcess({ ...config, dies })
      expect(await first.deliver(order)).toBeUndefined()
      expect(await first.ended()).toBe('SIGKILL')
      return {
        ...{ order, successor, duplicate },
        [Symbol.asyncDispose]: async () => {
          await successor[Symbol.asyncDispose]()
          await duplicate[Symbol.asyncDispose]()
        },
      }
    }

    // Red when the key changes with the attempt, the claim or the process.
    test("'retry': an API that knows the idempotency key charges once", async () => {
      await using payments = await openPayments({ dedups: true })
      await using scenario = await afterDeath(payments, { onTakeover: 'retry' })
      expect(counts(payments)).toEqual([1])
      const result = { chargeId: 'charge-1', cents: 1999 }
      expect(await scenario.successor.settle(scenario.order)).toEqual({
        ...{ kind: 'ack', by: 'processed', result },
      })
      expect(await scenario.duplicate.settle(scenario.order)).toEqual({
        ...{ kind: 'ack', by: 'duplicate', result },
      })
      expect(payments.requested).toHaveLength(2)
      expect(counts(payments)).toEqual([1])
    })

    // The control: it shows that the first worker charged before it died.
    test("'retry': an API that knows no keys charges twice", async () => {
      await using payments = await openPayments({ dedups: false })
      await using scenario = await afterDeath(payments, { onTakeover: 'retry' })
      expect(await scenario.successor.settle(scenario.order)).toMatchObject({ by: 'processed' })
      expect(counts(payments)).toEqual([2])
    })

    // Red when a takeover runs the handler as a retry does.
    test("'dead-letter': the API is not called again, and the event is dead for all workers", async () => {
      await using payments = await openPayments({ dedups: false })
      await using scenario = await afterDeath(payments, { onTakeover: 'dead-letter' })
      const dead = { kind: 'dead-letter', reason: 'takeover' }
      expect(await scenario.successor.settle(scenario.order)).toMatchObject(dead)
      expect(await scenario.duplicate.settle(scenario.order)).toMatchObject(dead)
      expect(payments.requested).toHaveLength(1)
      expect(counts(payments)).toEqual([1])
    })

    // Red when the result of `reconcile` is not stored.
    test('reconcile: the charge that the API has is the result, for duplicates too', async () => {
      await using payments = await openPayments({ dedups: false })
      await using scenario = await afterDeath(payments, { onTakeover: 'ask-payments' })
      const result = { chargeId: 'charge-1', cents: 1999 }
      expect(await scenario.successor.settle(scenario.order)).toEqual({
        ...{ kind: 'ack', by: 'processed', result },
      })
      expect(await scenario.duplicate.settle(scenario.order)).toEqual({
        ...{ kind: 'ack', by: 'duplicate', result },
      })
      expect(payments.requested).toHaveLength(1)
      expect(counts(payments)).toEqual([1])
    })

    test('reconcile: an order that the API has not charged is charged', async () => {
      await using payments = await openPayments({ dedups: false })
      await using scenario = await afterDeath(payments, {
        onTakeover: 'ask-payments',
        dies: 'before-call',
      })
      expect(counts(payments)).toEqual([])
      expect(await scenario.successor.settle(scenario.order)).toMatchObject({ by: 'processed' })
      expect(counts(payments)).toEqual([1])
    })

    // Red when a failed `reconcile` counts as a failed attempt: the next claim would be a retry, and charge again.
    test('reconcile: an API that cannot answer now is asked again before anything is charged', async () => {
      await using payments = await openPayments({ dedups: false })
      await using scenario = await afterDeath(payments, { onTakeover: 'ask-payments' })
      payments.refuseLookups(1)
      expect(await scenario.successor.settle(scenario.order)).toMatchObject({
        by: 'processed',
        result: { chargeId: 'charge-1' },
      })
      expect(counts(payments)).toEqual([1])
    })

    // Red when `complete` does not compare tokens: the owner would be 'processed' too.
    test('an owner that continues after SIGSTOP completes nothing, because its successor has found the charge', async () => {
      const answered = Promise.withResolvers<void>()
      await using payments = await openPayments({ dedups: false, answersAfter: answered.promise })
      const onTakeover = 'ask-payments' as const
      const config = { store: storeOf(), paymentsUrl: payments.url, onTakeover }
      const order = newOrder()
      await using owner = new PayerProcess(config)
      await using successor = new PayerProcess(config)
      const owned = owner.deliver(order)
      await until(() => payments.requested.length === 1, { deadlineMs: 60_000 })
      owner.signal('SIGSTOP')
      const result = { chargeId: 'charge-1', cents: 1999 }
      expect(await successor.settle(order)).toEqual({ kind: 'ack', by: 'processed', result })
      answered.resolve()
      owner.signal('SIGCONT')
      expect(await owned).toMatchObject({ kind: 'abandon', reason: 'lease-lost' })
      expect(await owner.settle(order)).toEqual({ kind: 'ack', by: 'duplicate', result })
      expect(counts(payments)).toEqual([1])
    })

    // Red when the key is made of anything but the event.
    test('the idempotency key is the same in all attempts and processes', async () => {
      await using payments = await openPayments({ dedups: true, refusals: 1 })
      const config = { store: storeOf(), paymentsUrl: payments.url, onTakeover: 'retry' } as const
      const order = newOrder()
      await using first = new PayerProcess({ ...config, dies: 'before-complete' })
      expect(await first.deliver(order)).toMatchObject({ kind: 'defer', reason: 'failed' })
      expect(await first.settle(order)).toBeUndefined()
      expect(await first.ended()).toBe('SIGKILL')
      await using successor = new PayerProcess(config)
      expect(await successor.settle(order)).toMatchObject({ by: 'processed' })
      expect(payments.requested).toHaveLength(3)
      expect(new Set(payments.requested).size).toBe(1)
      expect(counts(payments)).toEqual([1])
    })
  },
)
