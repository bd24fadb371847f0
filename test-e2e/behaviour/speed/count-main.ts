/*
 * Counts what the guard costs one clean event: promises, timers and calls of functions of core. Over an inbox that does
 * nothing, or over pg if the URL of a database is given, whose handler then sends one statement. Prints one line of JSON.
 */
import { createHook } from 'node:async_hooks'
import { randomUUID } from 'node:crypto'
import { Session } from 'node:inspector/promises'
import { createGuard, type Delivery, type Inbox, type InboxTransaction } from '@onceward/core'
import { memoryInbox } from '@onceward/core/memory'
import { pgInbox } from '@onceward/postgres/pg'

const EVENTS = 20
const ROUNDS = 5

const transaction: InboxTransaction<object> = {
  tx: {},
  status: () => 'open',
  revoke: () => undefined,
  commit: () => Promise.resolve({ kind: 'committed' }),
  rollback: () => Promise.resolve(),
  rollbackAndFail: () => Promise.resolve([]),
  retract: () => Promise.resolve(),
}

const nothing: Inbox<object> = {
  open: async (registration) => {
    const session = await memoryInbox<object>({}).open(registration)
    return Object.assign(session, {
      messageCounts: undefined,
      begin: ({ claim }: Parameters<typeof session.begin>[0]) => {
        const ids = claim.kind === 'fresh' ? claim.events.map(({ id }) => id) : []
        return Promise.resolve({ kind: 'open' as const, claimed: new Set(ids), transaction })
      },
    })
  },
}

const [url] = process.argv.slice(2)
const common = { consumer: 'counted', concurrency: 16 }
const guard =
  url === undefined
    ? createGuard({ ...common, inbox: nothing }, (_, context) => void context.tx)
    : createGuard({ ...common, inbox: pgInbox({ connectionString: url }) }, async (_, { tx }) => {
        await tx.query('select 1')
      })

function newDelivery(): Delivery {
  const orderId = randomUUID()
  return {
    body: Buffer.from(JSON.stringify({ orderId, cents: 1_999 })),
    headers: { 'idempotency-key': orderId },
    source: { broker: 'none', queue: 'orders' },
  }
}

async function processEvents(deliveries: readonly Delivery[]): Promise<void> {
  for (const delivery of deliveries) {
    const { kind } = await guard.process(delivery)
    if (kind !== 'ack') throw new Error(`expected ack, got ${kind}`)
  }
}

const newDeliveries = (): readonly Delivery[] => Array.from({ length: EVENTS }, newDelivery)

/** How many resources of a type Node makes for an event. */
async function created(wanted: 'PROMISE' | 'Timeout'): Promise<number> {
  let count = 0
  const hook = createHook({
    init: (_, type) => {
      if (type === wanted) count += 1
    },
  })
  const deliveries = newDeliveries()
  hook.enable()
  await processEvents(deliveries)
  hook.disable()
  return count / EVENTS
}

/** An async function counts once more for each of its awaits. The stand-in for the store is not counted. */
async function callsOfCore(): Promise<number> {
  const session = new Session()
  session.connect()
  await session.post('Profiler.enable')
  await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false })
  const deliveries = newDeliveries()
  await session.post('Profiler.takePreciseCoverage')
  await processEvents(deliveries)
  const { result } = await session.post('Profiler.takePreciseCoverage')
  session.disconnect()
  const scripts = result.filter(({ url }) => /packages\/core\/src\/(?!memory)/.test(url))
  const counts = scripts.flatMap(({ functions }) =>
    functions.map(({ ranges }) => ranges[0]?.count ?? 0),
  )
  return counts.reduce((sum, count) => sum + count, 0) / EVENTS
}

/** The least of several rounds, because work in the background may fall into one. */
async function least(measure: () => Promise<number>): Promise<number> {
  const rounds: number[] = []
  for (let round = 0; round < ROUNDS; round++) rounds.push(await measure())
  return Math.min(...rounds)
}

await processEvents(newDeliveries())
const costs = {
  promises: await least(() => created('PROMISE')),
  timers: await least(() => created('Timeout')),
  calls: await least(callsOfCore),
}
await guard.close()
console.log(JSON.stringify(costs))
