import { createGuard, type Logger } from '@onceward/core'
import { createHttpGuard } from '@onceward/http'
import { nodeListener } from '@onceward/http/node'
import { startRelay } from '@onceward/postgres/outbox'
import { pgInbox } from '@onceward/postgres/pg'
import pg from 'pg'
import { listen } from '../../../packages/http/src/fixtures/servers.ts'
import { BROKERS } from '../../brokers/index.ts'
import type { ServiceConfig } from './service.ts'

const { databaseUrl, kafka, part, sqs } = JSON.parse(process.argv[2] ?? '') as ServiceConfig

const log = (fields: object, text?: string): void =>
  void process.stderr.write(`${part} ${text}: ${JSON.stringify(fields, errors)}\n`)
const errors = (_name: string, value: unknown): unknown =>
  value instanceof Error ? String(value) : value
const ignore = (): void => undefined
const logger: Logger = { debug: ignore, info: ignore, warn: log, error: log }

const pool = new pg.Pool({ connectionString: databaseUrl, max: 12 })
// Postgres is killed while this process runs.
pool.on('error', ignore)
const inbox = pgInbox(pool)
/** More deaths than the test causes must not make an event a dead letter. */
const common = { inbox, logger, retry: { attempts: 50 } }
const orderOf = (payload: unknown): string => (payload as { order: string }).order

const PARTS: Readonly<Record<ServiceConfig['part'], () => Promise<string>>> = {
  route: async () => {
    const guard = createHttpGuard(
      { consumer: 'route', inbox, logger, tenant: 'none' },
      async ({ payload }, { outbox, tx }) => {
        const order = orderOf(payload)
        await tx.query('insert into charged values ($1)', [order])
        outbox.send({ to: 'captures', key: order, payload: { order } })
        return { status: 201, body: { order } }
      },
    )
    return (await listen(nodeListener(guard))).url
  },
  capture: async () => {
    const guard = createGuard(
      { consumer: 'capture', ...common },
      async ({ payload }, { outbox, tx }) => {
        const order = orderOf(payload)
        await tx.query('insert into captured values ($1)', [order])
        outbox.send({ to: 'mails', key: order, payload: { order } })
      },
    )
    const { consume } = await BROKERS.kafka.consumer()
    await consume(kafka, guard, { onReceive: ignore })
    return 'consuming'
  },
  mail: async () => {
    const guard = createGuard({ consumer: 'mail', ...common }, async ({ payload }, { tx }) => {
      await tx.query('insert into mailed values ($1)', [orderOf(payload)])
    })
    const { consume } = await BROKERS.sqs.consumer()
    await consume(sqs, guard, { onReceive: ignore })
    return 'consuming'
  },
  relay: async () => {
    const [toTopic, toQueue] = await Promise.all([
      BROKERS.kafka.destination?.(),
      BROKERS.sqs.destination?.(),
    ])
    if (toTopic === undefined || toQueue === undefined) throw new Error('expected destinations')
    const [captures, mails] = await Promise.all([toTopic(kafka as never), toQueue(sqs as never)])
    await startRelay({ pool, destinations: { captures, mails }, logger, leaseMs: 2_000 })
    return 'relaying'
  },
}

// Of a test that was over before it ended its processes.
process.on('disconnect', () => process.exit())
process.send?.(await PARTS[part]())
