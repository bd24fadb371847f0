/*
 * Counts what a broker's adapter and the guard cost one clean event: promises and timers, and the calls of functions of
 * the adapter. The client answers from memory, and the inbox does nothing. Prints one line of JSON.
 */
import { createGuard } from '@onceward/core'
import { systemRuntime } from '../../../packages/core/src/concurrency/system-runtime.ts'
import { BROKERS, isBrokerName } from '../../brokers/index.ts'
import { callsOf, promisesAndTimers } from './counting.ts'
import { nothingInbox } from './nothing-inbox.ts'

const EVENTS = 400

const [name = ''] = process.argv.slice(2)
if (!isBrokerName(name)) throw new TypeError(`no broker: ${name}`)
let aheadMs = 0
const runtime = { ...systemRuntime, monotonic: () => performance.now() + aheadMs }
const guard = createGuard(
  { consumer: 'counted', inbox: nothingInbox, concurrency: 16, runtime },
  (_, context) => void context.tx,
)
const { consumeInMemory } = await BROKERS[name].inMemory()
const { prepare } = await consumeInMemory(guard)
// Deliveries of the first fetch after an assignment, and soon after it, may have run before, which costs more.
await prepare(EVENTS)()
aheadMs = 10_000

const scripts = new RegExp(`packages/(core/src/(?:adapter|flow)|${name}/src/(?!fixtures))`)
const costs = {
  ...(await promisesAndTimers(prepare(EVENTS), EVENTS)),
  calls: await callsOf(scripts, prepare(EVENTS), EVENTS),
}
console.log(JSON.stringify(costs))
// A drain would wait for a long poll.
process.exit()
