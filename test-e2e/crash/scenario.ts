import { deadLetters } from '@onceward/postgres'
import { expect } from 'vitest'
import type { RunningBroker } from '../brokers/broker.ts'
import { BROKERS } from '../brokers/index.ts'
import { severCommit, targetOf, through } from '../support/crash/wire-faults.ts'
import { Testbed } from '../support/testbed.ts'
import type { Order } from '../support/workers/protocol.ts'
import type { WorkerProcess } from '../support/workers/worker-process.ts'
import { type Cache, openCache } from './cache.ts'
import type { Scenario } from './matrix.ts'
import { type Row, wordOf } from './rows.ts'

/** The event in whose run the process dies. The others are sent around it. */
const VICTIM = 'order-victim'
const OTHERS: readonly Order[] = ['order-1', 'order-2', 'order-3', 'order-4'].map((id) => ({ id }))
/** The victim's effect on the wire: two parameters, each after its length. Other transactions name the victim too. */
const EFFECT = `${VICTIM}\0\0\0\u0005first`
/** MikroORM writes parameters into the text. */
const EFFECT_IN_TEXT = `'${VICTIM}', 'first'`
/** Long: a failed event becomes due when the test says so, not by the time that passes on a slow machine. */
const RETRY_MS = 300_000
/** The longest wait of a message that the dead worker deferred. */
const LONGEST_DEFER_MS = 2_000

/** One worker dies at the point, another one takes over, and then the database and the broker are checked. */
export async function play(scenario: Scenario, broker: RunningBroker): Promise<void> {
  const { nest, orm, row, fate, transaction } = scenario
  await using cache = await openCache(fate)
  await using testbed = await Testbed.open({
    queue: await broker.createQueue({ isWatched: wordOf(row) !== undefined }),
    worker: {
      ...{ nest, orm, transaction, longestDeferMs: LONGEST_DEFER_MS },
      ...{ retryBaseMs: RETRY_MS, random: 0.5 },
      ...{ replies: isOfReply(row), splits: row.split === true },
      ...cache.config,
    },
  })
  await using first = await firstWorker(testbed, scenario)
  // If Redis is down, the budget for it is as short as in production.
  const next = fate === 'down' ? { redisBudgetMs: 20 } : {}
  const other = scenario.to === 'another process' ? testbed.spawn('other', next) : undefined
  await other?.heard('ready')
  await begin(testbed, { row, first: first.worker })

  await first.reached()
  await cache.strike()
  // Not awaited: a member that joins a Kafka group waits for the member that is in it.
  const started = other?.start()
  await first.die()
  await started
  const successor =
    other ?? (await restarted({ testbed, cache }, scenario, () => testbed.spawn('restarted', next)))

  if (row.finds === 'not-due') await makeDue({ testbed, cache, successor })
  await becomesTrue(testbed, row)
  await settledAs(testbed, row, successor)
}

/** In the message of the victim, if that has several events. */
const BESIDE = ['order-item-1', 'order-item-2']

function victimOf({ deed, split }: Row): Order {
  if (deed !== undefined) return { id: VICTIM, deed }
  const [first = '', last = ''] = BESIDE
  return split === true
    ? { id: 'order-message', items: [{ id: first }, { id: VICTIM }, { id: last }] }
    : { id: VICTIM }
}

interface Beginning {
  readonly row: Row
  readonly first: WorkerProcess
}

/** Sends the victim among the others; alone after them if the crash point is a word on the wire. */
async function begin(testbed: Testbed, { row, first }: Beginning): Promise<void> {
  const victim = victimOf(row)
  const isAlone = wordOf(row) !== undefined
  await testbed.send(isAlone ? OTHERS : [...OTHERS.slice(0, 2), victim, ...OTHERS.slice(2)])
  await first.start()
  if (isAlone) {
    await effectsAre(testbed, OTHERS.length)
    await testbed.drained()
    await testbed.send([victim])
  }
  if (row.replayed) await replay(testbed)
}

interface Doomed extends AsyncDisposable {
  readonly worker: WorkerProcess
  /** Resolves when the worker has reached the point, where it waits. */
  reached(): Promise<unknown>
  die(): Promise<void>
}

async function firstWorker(testbed: Testbed, { orm, row: { death } }: Scenario): Promise<Doomed> {
  if (death.kind === 'at') {
    const worker = testbed.spawn('first', { crash: { at: death.point, id: VICTIM } })
    return {
      worker,
      reached: () => worker.heard('reached'),
      die: async () => {
        worker.say({ kind: 'go' })
        expect(await worker.ended()).toBe('SIGKILL')
      },
      [Symbol.asyncDispose]: async () => undefined,
    }
  }
  const { arrives } = death
  const target = targetOf(testbed.databaseUrl)
  const text = orm === 'mikro-orm' ? EFFECT_IN_TEXT : EFFECT
  const severed = await severCommit(target, { text, arrives, by: 'silence' })
  const worker = testbed.spawn('first', {
    databaseUrl: through(testbed.databaseUrl, severed.proxy),
    // As a worker that is to die at a point.
    redisHold: 'always',
  })
  return {
    worker,
    reached: () => severed.reached,
    die: () => worker.kill(),
    [Symbol.asyncDispose]: () => severed.proxy.stop(),
  }
}

async function effectsAre(testbed: Testbed, count: number): Promise<void> {
  await testbed.until(async () => Object.keys(await testbed.effects()).length === count, {
    what: `${count} effects`,
  })
}

/** Waits until the victim is dead-lettered and gone from the queue, mends the cause, and replays it. */
async function replay(testbed: Testbed): Promise<void> {
  await testbed.until(async () => (await testbed.troubles())[0]?.published, {
    what: 'a dead letter',
  })
  await testbed.drained()
  expect(await testbed.troubles()).toMatchObject([{ id: VICTIM, state: 'x', published: true }])
  await testbed.pool.query('insert into mended (id) values ($1)', [VICTIM])
  const { done } = await deadLetters(testbed.pool).replay({ consumer: 'orders' })
  expect(done).toHaveLength(1)
}

/** No worker runs between the two lives, so what the dead worker left can be checked: its row, and its lease. */
async function restarted(
  { testbed, cache }: Omit<Waiting, 'successor'>,
  { row, broker }: Scenario,
  spawn: () => WorkerProcess,
): Promise<WorkerProcess> {
  // Only what arrives soon after an assignment is a suspect, so a slow machine may leave no record.
  const maySuspect = row.begun === true && BROKERS[broker].traits.firstDeliveryIsSuspect
  const leaves = maySuspect ? [row.leaves, 'r'] : [row.leaves]
  await testbed.until(async () => leaves.includes(await testbed.state(VICTIM)), {
    what: `a row in state ${leaves.join(' or ')}`,
  })
  const isCounted = (await testbed.state(VICTIM)) === 'r'
  const lease = await cache.leaseOf(VICTIM)
  if (lease !== undefined) expect(lease, 'the lease of the dead worker').toBe(row.lease)
  const worker = spawn()
  await worker.start()
  if (row.begun === true) await effectIsOf(testbed, isCounted ? 2 : 1)
  return worker
}

/** A run that was recorded before its worker died counts; one that was rolled back with its transaction does not. */
async function effectIsOf(testbed: Testbed, attempt: number): Promise<void> {
  await testbed.until(async () => (await testbed.committed(VICTIM)).length > 0, {
    what: 'an effect',
  })
  expect(await testbed.committed(VICTIM)).toMatchObject([{ attempt }])
}

interface Waiting {
  readonly testbed: Testbed
  readonly cache: Cache
  readonly successor: WorkerProcess
}

async function makeDue({ testbed, cache, successor }: Waiting): Promise<void> {
  await testbed.until(async () => successor.settled.some(({ why }) => why === 'not-due'), {
    what: 'a redelivery that is not due',
  })
  await testbed.pool.query('update onceward.failed_events set next_try = now()')
  await cache.makeDue()
}

async function becomesTrue(testbed: Testbed, row: Row): Promise<void> {
  const beside = row.split === true ? BESIDE : []
  const ids = [...OTHERS.map(({ id }) => id), ...beside, ...(row.effects === 1 ? [VICTIM] : [])]
  await effectsAre(testbed, ids.length)
  await testbed.drained()
  expect(await testbed.effects()).toEqual(Object.fromEntries(ids.map((id) => [id, 1])))
}

const isOfReply = ({ death }: Row): boolean => death.kind === 'at' && death.point === 'before-reply'

/** Until the dead worker's lease expires, its successor defers the event. */
const isWaiting = (why: string): boolean => why === 'in-progress' || why === 'store-down'

async function settledAs(testbed: Testbed, row: Row, successor: WorkerProcess): Promise<void> {
  const finds = (): string | undefined =>
    successor.settled.find(({ id, why }) => id === VICTIM && !isWaiting(why))?.why
  await testbed.until(async () => finds(), { what: 'a redelivery, or the run of a parked event' })
  expect(finds()).toBe(row.finds)
  if (isOfReply(row)) {
    const { rows } = await testbed.pool.query('select * from replies where id = $1', [VICTIM])
    expect(rows).toContainEqual({ id: VICTIM, is_of_duplicate: true })
  }
  const dead = row.effects === 0 ? [{ id: VICTIM, state: 'x', reason: 'fatal' }] : []
  // RabbitMQ does not count messages in flight, so an empty queue does not mean that all are settled.
  await testbed.until(async () => (await testbed.troubles()).every(({ published }) => published), {
    what: 'dead letters to be published',
  })
  expect(await testbed.troubles()).toMatchObject(dead)
  const letters = Array.from({ length: row.deadLetters }, () => ({ id: VICTIM, reason: 'fatal' }))
  expect(await testbed.queue?.deadLetters()).toEqual(letters)
}
