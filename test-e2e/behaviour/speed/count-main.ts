/*
 * Counts what the guard costs one clean event: promises, timers and calls of functions of core. Over an inbox that does
 * nothing, or over pg if the URL of a database is given, whose handler then sends one statement. Prints one line of JSON.
 */
import { randomUUID } from 'node:crypto'
import { createGuard, type Delivery } from '@onceward/core'
import { pgInbox } from '@onceward/postgres/pg'
import { callsOf, promisesAndTimers } from './counting.ts'
import { nothingInbox } from './nothing-inbox.ts'

const EVENTS = 20
const ROUNDS = 5

const [url] = process.argv.slice(2)
const common = { consumer: 'counted', concurrency: 16 }
const guard =
  url === undefined
    ? createGuard({ ...common, inbox: nothingInbox }, (_, context) => void context.tx)
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

await processEvents(newDeliveries())
const prepare = () => {
  const deliveries = newDeliveries()
  return () => processEvents(deliveries)
}
/** The stand-in for the store is not counted. */
const CORE = /packages\/core\/src\/(?!memory)/
/** The least of several rounds, because work in the background may fall into one. */
const rounds: { promises: number; timers: number; calls: number }[] = []
for (let round = 0; round < ROUNDS; round++) {
  const made = await promisesAndTimers(prepare(), EVENTS)
  rounds.push({ ...made, calls: await callsOf(CORE, prepare(), EVENTS) })
}
const least = (kind: 'promises' | 'timers' | 'calls'): number =>
  Math.min(...rounds.map((round) => round[kind]))
const costs = { promises: least('promises'), timers: least('timers'), calls: least('calls') }
await guard.close()
console.log(JSON.stringify(costs))
