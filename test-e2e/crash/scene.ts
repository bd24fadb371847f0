import { deadLetters } from '@onceward/postgres'
import { expect } from 'vitest'
import type { RunningBroker } from '../brokers/broker.ts'
import { BROKERS } from '../brokers/index.ts'
import { severCommit, targetOf, through } from '../support/crash/wire-faults.ts'
import { TestStage } from '../support/test-stage.ts'
import type { Order } from '../support/workers/protocol.ts'
import type { WorkerProcess } from '../support/workers/worker-process.ts'
import { type Cache, openCache } from './cache.ts'
import type { Scene } from './matrix.ts'
import { type Row, wordOf } from './rows.ts'

/** The event in whose run the process dies. The others are sent around it. */
const VICTIM = 'order-victim'
const OTHERS: readonly Order[] = ['order-1', 'order-2', 'order-3', 'order-4'].map((id) => ({ id }))
/** The victim's effect on the wire: two parameters, each after its length. Other transactions name the victim too. */
const EFFECT = `${VICTIM}\0\0\0\u0005first`
/** Long: a failed event becomes due when the test says so, not by the time that passes on a slow machine. */
const RETRY_MS = 300_000
/** The longest wait of a message that the dead worker deferred. */
const LONGEST_DEFER_MS = 2_000

/** One worker dies at the point, another one takes over, and then the database and the broker are checked. */
export async function play(scene: Scene, broker: RunningBroker): Promise<void> {
  const { row, fate, transaction } = scene
  await using cache = await openCache(fate)
  await using stage = await TestStage.open({
    queue: await broker.createQueue(),
    worker: {
      ...{ transaction, retryBaseMs: RETRY_MS, random: 0.5, longestDeferMs: LONGEST_DEFER_MS },
      ...cache.config,
    },
  })
  await using first = await firstWorker(stage, row)
  // If Redis is down, the budget for it is as short as in production.
  const next = fate === 'down' ? { redisBudgetMs: 20 } : {}
  const other = scene.to === 'another process' ? stage.spawn('other', next) : undefined
  await other?.heard('ready')
  await begin(stage, { row, first: first.worker })

  await first.reached()
  await cache.strike()
  // Not awaited: a member that joins a Kafka group waits for the member that is in it.
  const started = other?.start()
  await first.die()
  await started
  const successor =
    other ?? (await restarted({ stage, cache }, scene, () => stage.spawn('restarted', next)))

  if (row.finds === 'not-due') await makeDue({ stage, cache, successor })
  await becomesTrue(stage, row)
  await settledAs(stage, row, successor)
}

const victimOf = ({ deed }: Row): Order =>
  deed === undefined ? { id: VICTIM } : { id: VICTIM, deed }

interface Beginning {
  readonly row: Row
  readonly first: WorkerProcess
}

/** Sends the victim among the others; alone after them if the crash point is a word on the wire. */
async function begin(stage: TestStage, { row, first }: Beginning): Promise<void> {
  const victim = victimOf(row)
  const isAlone = wordOf(row) !== undefined
  await stage.send(isAlone ? OTHERS : [...OTHERS.slice(0, 2), victim, ...OTHERS.slice(2)])
  await first.start()
  if (isAlone) {
    await effectsAre(stage, OTHERS.length)
    await stage.drained()
    await stage.send([victim])
  }
  if (row.replayed) await replay(stage)
}

interface Doomed extends AsyncDisposable {
  readonly worker: WorkerProcess
  /** Resolves when the worker has reached the point, where it waits. */
  reached(): Promise<unknown>
  die(): Promise<void>
}

async function firstWorker(stage: TestStage, { death }: Row): Promise<Doomed> {
  if (death.kind === 'at') {
    const worker = stage.spawn('first', { crash: { at: death.point, id: VICTIM } })
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
  const target = targetOf(stage.databaseUrl)
  const severed = await severCommit(target, { text: EFFECT, arrives, by: 'silence' })
  const worker = stage.spawn('first', { databaseUrl: through(stage.databaseUrl, severed.proxy) })
  return {
    worker,
    reached: () => severed.reached,
    die: () => worker.kill(),
    [Symbol.asyncDispose]: () => severed.proxy.stop(),
  }
}

async function effectsAre(stage: TestStage, count: number): Promise<void> {
  await stage.until(async () => Object.keys(await stage.effects()).length === count, {
    what: `${count} effects`,
  })
}

/** Waits until the victim is dead-lettered and gone from the queue, mends the cause, and replays it. */
async function replay(stage: TestStage): Promise<void> {
  await stage.until(async () => (await stage.troubles())[0]?.published, { what: 'a dead letter' })
  await stage.drained()
  expect(await stage.troubles()).toMatchObject([{ id: VICTIM, state: 'x', published: true }])
  await stage.pool.query('insert into mended (id) values ($1)', [VICTIM])
  const { done } = await deadLetters(stage.pool).replay({ consumer: 'orders' })
  expect(done).toHaveLength(1)
}

/** No worker runs between the two lives, so what the dead worker left can be checked: its row, and its lease. */
async function restarted(
  { stage, cache }: Omit<Waiting, 'successor'>,
  { row, broker }: Scene,
  spawn: () => WorkerProcess,
): Promise<WorkerProcess> {
  // Only what arrives soon after an assignment is a suspect, so a slow machine may leave no record.
  const maySuspect = row.begun === true && BROKERS[broker].traits.firstDeliveryIsSuspect
  const leaves = maySuspect ? [row.leaves, 'r'] : [row.leaves]
  await stage.until(async () => leaves.includes(await stage.state(VICTIM)), {
    what: `a row in state ${leaves.join(' or ')}`,
  })
  const isCounted = (await stage.state(VICTIM)) === 'r'
  const lease = await cache.leaseOf(VICTIM)
  if (lease !== undefined) expect(lease, 'the lease of the dead worker').toBe(row.lease)
  const worker = spawn()
  await worker.start()
  if (row.begun === true) await effectIsOf(stage, isCounted ? 2 : 1)
  return worker
}

/** A run that was recorded before its worker died counts; one that was rolled back with its transaction does not. */
async function effectIsOf(stage: TestStage, attempt: number): Promise<void> {
  await stage.until(async () => (await stage.committed(VICTIM)).length > 0, { what: 'an effect' })
  expect(await stage.committed(VICTIM)).toMatchObject([{ attempt }])
}

interface Waiting {
  readonly stage: TestStage
  readonly cache: Cache
  readonly successor: WorkerProcess
}

async function makeDue({ stage, cache, successor }: Waiting): Promise<void> {
  await stage.until(async () => successor.settled.some(({ why }) => why === 'not-due'), {
    what: 'a redelivery that is not due',
  })
  await stage.pool.query('update onceward.failed_events set next_try = now()')
  await cache.makeDue()
}

async function becomesTrue(stage: TestStage, row: Row): Promise<void> {
  const ids = [...OTHERS.map(({ id }) => id), ...(row.effects === 1 ? [VICTIM] : [])]
  await effectsAre(stage, ids.length)
  await stage.drained()
  expect(await stage.effects()).toEqual(Object.fromEntries(ids.map((id) => [id, 1])))
}

/** Until the dead worker's lease expires, its successor defers the event. */
const isWaiting = (why: string): boolean => why === 'in-progress' || why === 'store-down'

async function settledAs(stage: TestStage, row: Row, successor: WorkerProcess): Promise<void> {
  const finds = (): string | undefined =>
    successor.settled.find(({ id, why }) => id === VICTIM && !isWaiting(why))?.why
  await stage.until(async () => finds(), { what: 'a redelivery, or the run of a parked event' })
  expect(finds()).toBe(row.finds)
  const dead = row.effects === 0 ? [{ id: VICTIM, state: 'x', reason: 'fatal' }] : []
  // RabbitMQ does not count messages in flight, so an empty queue does not mean that all are settled.
  await stage.until(async () => (await stage.troubles()).every(({ published }) => published), {
    what: 'dead letters to be published',
  })
  expect(await stage.troubles()).toMatchObject(dead)
  const letters = Array.from({ length: row.deadLetters }, () => ({ id: VICTIM, reason: 'fatal' }))
  expect(await stage.queue?.deadLetters()).toEqual(letters)
}
