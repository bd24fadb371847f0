import { writeSync } from 'node:fs'
import { createGuard, type Destination, type Inbox } from '@onceward/core'
import { toDelivery } from '@onceward/core/memory'
import { startRelay } from '@onceward/postgres/outbox'
import { pgInbox } from '@onceward/postgres/pg'
import { streamDestination } from '@onceward/redis-streams'
import { Redis } from 'ioredis'
import pg from 'pg'
import { connectOrm } from '../../support/workers/orm-inboxes.ts'
import { chargeText, type Death, FATAL_ORDER, KEYS, type Told } from './protocol.ts'

const [url = '', port = '', stream = '', death = 'never'] = process.argv.slice(2) as [
  string,
  string,
  string,
  Death,
]

const end = (signal: 'SIGKILL' | 'SIGSTOP'): void => void process.kill(process.pid, signal)
const isFatal = (n: number, here: Death): boolean => death === here && n === FATAL_ORDER

const ignore = (): void => undefined
const silent = { debug: ignore, info: ignore, warn: ignore, error: ignore }
const pool = new pg.Pool({ connectionString: url, max: 5 })
// Prisma sends COMMIT when the flush is answered; over pg both travel in one text.
const orm = death === 'before-commit' ? ({ orm: 'prisma' } as const) : {}
const connected = await connectOrm({ ...orm, databaseUrl: url })
const inbox = connected?.inbox({ pool }) ?? (pgInbox(pool) as Inbox<unknown>)
const run = async (tx: unknown, text: string): Promise<unknown> =>
  connected?.runOn(tx)(text) ?? (tx as pg.PoolClient).query(text)
const orders = createGuard(
  {
    ...{ consumer: 'orders', inbox, logger: silent },
    afterCommit: (_result, { payload }) => {
      if (isFatal((payload as { n: number }).n, 'after-commit')) end('SIGKILL')
    },
  },
  async ({ payload }, { outbox, tx }) => {
    const { n } = payload as { n: number }
    await run(tx, chargeText(n))
    outbox.send({ to: 'payments', key: `key-${n % KEYS}`, payload: { n } })
    if (isFatal(n, 'before-flush')) end('SIGKILL')
  },
)

const redis = new Redis(Number(port))
const { publish } = streamDestination(redis, { stream })
const payments: Destination = {
  batch: 100,
  publish: async (messages, signal) => {
    if (death === 'publishing') {
      await publish(messages.slice(0, 1), signal)
      end('SIGKILL')
    }
    if (death === 'frozen') {
      writeSync(1, 'frozen\n')
      end('SIGSTOP')
    }
    const answers = await publish(messages, signal)
    if (death === 'before-delete') end('SIGKILL')
    return answers
  },
}

let relay: Awaited<ReturnType<typeof startRelay>> | undefined
async function handle(told: Told): Promise<string> {
  if (told === 'drain') {
    await relay?.drain()
    return 'drained'
  }
  if (told === 'relay') {
    relay = await startRelay({
      ...{ pool, destinations: { payments }, logger: silent, leaseMs: 1_000 },
    })
    return 'relaying'
  }
  const headers = { 'idempotency-key': `order-${told}` }
  return (await orders.process(toDelivery({ n: told }, { headers, redelivered: true }))).kind
}

process.on('message', (told: Told) => {
  handle(told).then(
    (answer) => process.send?.(answer),
    (error: unknown) => process.send?.(String(error)),
  )
})
// Of a test that was over before it ended its processes.
process.on('disconnect', () => process.exit())
