import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { createGuard, type Delivery, FatalError, type Guard, type Settlement } from '@onceward/core'
import { portOf } from '@onceward/core/adapter'
import type { DeadLetter } from '@onceward/core/ports'
import { until } from '@onceward/testing'
import { silent } from '@onceward/testing/conformance'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { passTime, type TestInbox, testInbox } from './fixtures/inbox.ts'

const WORKER = fileURLToPath(new URL('./fixtures/publishing-worker.ts', import.meta.url))
/** The longest call of a dead-letter place, ms. */
const PLACE_MS = 10_000
const HEALTHY = 300
const DEAD = 50

let inbox: TestInbox

beforeEach(async () => {
  inbox = await testInbox()
})
afterEach(() => inbox[Symbol.asyncDispose]())

function delivery(key: string): Delivery {
  return {
    body: new TextEncoder().encode('{"cents":1}'),
    headers: { 'idempotency-key': key },
    source: { broker: 'sqs', queue: 'orders', position: key },
  }
}

const DEAD_KEY = /^dead/

/** A guard that buries the events whose key begins with `dead`. */
function newGuard(): Guard {
  return createGuard(
    { consumer: 'billing', inbox: inbox.inbox, logger: silent },
    async (event, { tx }) => {
      if (DEAD_KEY.test(event.key)) throw new FatalError('no such account')
      await tx.query('select 1')
    },
  )
}

async function settlementOf(guard: Guard, one: Delivery): Promise<Settlement> {
  const [settlement] = await portOf(guard).run([one])
  if (settlement === undefined) throw new Error('no settlement')
  return settlement
}

const hanging = (): Promise<void> => new Promise(() => undefined)

// Red when the publisher is called inside a transaction: two hanging calls take both spare connections, the verdicts
// of all other events wait for one, and the guard says that the store is down.
test('healthy messages are processed and the pool is idle while the dead-letter place hangs', async () => {
  const guard = newGuard()
  const port = portOf(guard)
  const answers: Promise<unknown>[] = []
  const keys = Array.from({ length: DEAD + HEALTHY }, (_, n) =>
    n < DEAD ? `dead-${n}` : `ok-${n}`,
  )
  const acked: string[] = []
  for (let start = 0; start < keys.length; start += 50) {
    const some = keys.slice(start, start + 50)
    // Redelivered, so each run takes a statement on a spare connection before it starts.
    await port.run(
      some.map((key) => ({ ...delivery(key), redelivered: true })),
      {
        onSettlement: (index, settlement) => {
          if (settlement.kind === 'ack') acked.push(some[index] ?? '')
          else answers.push(port.publishDeadLetter(settlement, hanging))
        },
      },
    )
  }
  expect(answers).toHaveLength(DEAD)
  expect(acked).toHaveLength(HEALTHY)
  expect(port.availability()).toEqual({ kind: 'available' })
  // A short statement of the guard may be on its way; what waits for the place is there as long as the place hangs.
  await until(
    async () => {
      const { rows } = await inbox.pool.query(
        "select count(*)::int as n from pg_stat_activity where datname = current_database() and state like 'idle in%'",
      )
      return rows[0]?.n === 0
    },
    { deadlineMs: PLACE_MS / 2 },
  )
  expect(inbox.pool.waitingCount).toBe(0)
  const place = { kind: 'retry', cause: 'dead-letter-place-down' }
  for (const answer of await Promise.all(answers)) expect(answer).toMatchObject(place)
  expect(port.availability()).toEqual({ kind: 'available' })
  await guard.close()
}, 30_000)

test.each(['has the right', 'sends'])(
  'a process that is killed when it %s leaves the letter to another one, told by its id',
  async (when) => {
    const child = spawn(
      process.execPath,
      ['--conditions=@onceward/source', WORKER, inbox.url, 'dead-1', when],
      { stdio: ['ignore', 'pipe', 'inherit'] },
    )
    const exit = once(child, 'exit')
    const [line] = (await once(createInterface(child.stdout), 'line')) as [string]
    child.kill('SIGKILL')
    await exit
    const guard = newGuard()
    const port = portOf(guard)
    const letters: DeadLetter[] = []
    const publish = async (letter: DeadLetter): Promise<void> => void letters.push(letter)
    const settle = async () => {
      const settlement = await settlementOf(guard, { ...delivery('dead-1'), redelivered: true })
      expect(settlement.kind).toBe('dead-letter')
      return port.publishDeadLetter(settlement, publish)
    }
    expect(await settle()).toEqual({ kind: 'retry', cause: 'publishing-elsewhere' })
    expect(letters).toEqual([])
    await passTime(inbox.pool, inbox.schema, 15_000)
    expect(await settle()).toEqual({ kind: 'published' })
    expect(await settle()).toEqual({ kind: 'already' })
    expect(letters).toHaveLength(1)
    if (when === 'sends') expect(line).toBe(`sent ${letters[0]?.ref.id}`)
    await guard.close()
  },
)

test('a refused message whose place hangs stays a dead letter, and an operator is told that it is held', async () => {
  const guard = newGuard()
  const port = portOf(guard)
  const settlement = await settlementOf(guard, { ...delivery('x'), headers: {} })
  expect(settlement).toMatchObject({ kind: 'dead-letter', reason: 'missing-event-key' })
  const called = Promise.withResolvers<string>()
  const answer = port.publishDeadLetter(settlement, ({ ref }) => {
    called.resolve(ref.id)
    return hanging()
  })
  const id = await called.promise
  const held = { done: [], untouched: [{ id, why: 'held' }] }
  expect(await inbox.deadLetters.replay(id)).toEqual(held)
  expect(await settlementOf(guard, delivery('ok'))).toMatchObject({ kind: 'ack' })
  expect(await answer).toMatchObject({ kind: 'retry', cause: 'dead-letter-place-down' })
  await guard.close()
}, 30_000)
