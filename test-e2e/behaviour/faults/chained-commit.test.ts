// @module-tag nightly

import { type DataHook, proxy } from '@onceward/testing'
import { describe, expect, test } from 'vitest'
import { targetOf, through } from '../../support/crash/wire-faults.ts'
import { onceEach } from '../../support/effects.ts'
import { ManualBroker } from '../../support/manual-broker.ts'
import { Testbed } from '../../support/testbed.ts'
import type { Order } from '../../support/workers/protocol.ts'

const VICTIM = 'order-victim'
/** Begins behind the COMMIT of the victim: one handler runs at a time, and the next event waits for its turn. */
const RIDER = 'order-rider'
const ORDERS: readonly Order[] = ['order-1', 'order-2', VICTIM, RIDER, 'order-3'].map((id) => ({
  id,
}))

/** Holds a text that commits and begins, where the trigger stands, until the gate opens. */
const GATE = `create table gate (is_open boolean);
create function wait_for_gate() returns trigger language plpgsql as $$
begin
  while current_query() like '%; commit; begin %' and exists (select from public.effects where id = '${VICTIM}')
    and not exists (select from public.gate)
  loop perform pg_sleep(0.01); end loop;
  return new;
end $$;`
const HELD = `select from pg_stat_activity where datname = current_database() and query like '%; commit; begin %'`

interface Point {
  readonly name: string
  /** Stops the text inside of the server. */
  readonly trigger?: string
  /** Whether the proxy keeps the text of the victim's COMMIT from the server, or the answer from the worker. */
  readonly drops?: 'text' | 'answer'
  /** How the backend that works on the text is seen. Undefined if the text never arrives. */
  readonly seenAs?: string
}

const POINTS: readonly Point[] = [
  // Red when an error of the text is taken for one of the next event alone: the victim would be acknowledged.
  { name: 'before the server has read the text', drops: 'text' },
  // Red when the end of the connection is taken for a failure of the victim.
  {
    name: 'inside the text, before COMMIT',
    trigger: `create constraint trigger held after insert on effects deferrable initially deferred
      for each row when (new.id = '${VICTIM}') execute function wait_for_gate()`,
    seenAs: `wait_event = 'PgSleep'`,
  },
  // Red when the next event is taken for begun.
  {
    name: 'between COMMIT and the next claim',
    trigger: `create trigger held before insert on onceward.processed_events
      for each row execute function wait_for_gate()`,
    seenAs: `wait_event = 'PgSleep'`,
  },
  // Red when the claim behind COMMIT outlives its connection, or counts an attempt.
  { name: 'behind both', drops: 'answer', seenAs: `state = 'idle in transaction'` },
]

describe.concurrent('a text that commits one event and begins the next', () => {
  test.each(POINTS)('the process dies $name: each event has its effect once', async (point) => {
    await using scene = await sceneOf(point)
    const { broker, testbed } = scene

    const delivering = broker.run()
    await scene.reached()
    const [first] = testbed.workers
    await first?.kill()
    await scene.openGate()

    expect(await delivering).toBe(1)
    await allOnce(scene)
    const [writer] = await testbed.committed(VICTIM)
    expect(writer?.worker).toBe(point.drops === 'text' ? 'worker-2' : 'worker-1')
    // The first worker has not begun it, so this is its first attempt.
    expect(await testbed.committed(RIDER)).toEqual([{ worker: 'worker-2', attempt: 1 }])
  })

  test.each(POINTS)('the connection is cut $name: the worker goes on', async (point) => {
    await using scene = await sceneOf(point)
    const { broker, testbed } = scene

    const delivering = broker.run()
    await scene.reached()
    scene.cut()
    await scene.openGate()

    expect(await delivering).toBe(0)
    await allOnce(scene)
    const runs = (await testbed.runs()).map(({ id }) => id)
    expect(runs.filter((id) => id === VICTIM)).toHaveLength(point.drops === 'text' ? 2 : 1)
    expect(runs.filter((id) => id === RIDER)).toHaveLength(1)
  })
})

/** Nothing is lost, doubled or dead. */
async function allOnce({ broker, testbed }: Pick<Scene, 'broker' | 'testbed'>): Promise<void> {
  expect(await testbed.effects()).toEqual(onceEach(ORDERS))
  expect(await testbed.troubles()).toEqual([])
  expect(broker.dead).toEqual([])
}

interface Scene extends AsyncDisposable {
  readonly testbed: Testbed
  readonly broker: ManualBroker
  /** Resolves when the text has reached the point. */
  reached(): Promise<void>
  cut(): void
  openGate(): Promise<unknown>
}

async function sceneOf({ drops, seenAs, trigger }: Point): Promise<Scene> {
  const testbed = await Testbed.open({ worker: { transaction: 'each', concurrency: 1 } })
  await testbed.pool.query(GATE)
  if (trigger !== undefined) await testbed.pool.query(trigger)
  const drop = Promise.withResolvers<void>()
  const link = await proxy(targetOf(testbed.databaseUrl), { onData: dropping(drops, drop.resolve) })
  const broker = new ManualBroker(testbed, ORDERS, {
    databaseUrl: through(testbed.databaseUrl, link),
  })
  const isSeen = async (): Promise<boolean> => {
    return (await testbed.pool.query(`${HELD} and ${seenAs}`)).rowCount === 1
  }
  return {
    testbed,
    broker,
    cut: () => link.cut(),
    reached: async () => {
      if (drops !== undefined) await drop.promise
      if (seenAs !== undefined) await testbed.until(isSeen, { what: 'a text in the server' })
    },
    openGate: () => testbed.pool.query('insert into gate values (true)'),
    [Symbol.asyncDispose]: async () => {
      await testbed[Symbol.asyncDispose]()
      await link.stop()
    },
  }
}

/** Drops all that follows on one connection: the text behind the victim's effect, or its answer. */
function dropping(what: Point['drops'], onDrop: () => void): DataHook {
  let isOver = what === undefined
  return (direction, chunk, { notes }) => {
    if (notes.has('dropping')) return 'drop'
    if (isOver) return 'pass'
    const drop = (): 'drop' => {
      isOver = true
      notes.set('dropping', true)
      onDrop()
      return 'drop'
    }
    if (direction === 'down') return notes.has('committing') ? drop() : 'pass'
    const said = chunk.toString('latin1')
    if (said.includes(`${VICTIM}\0`)) notes.set('writing', true)
    else if (notes.has('writing') && said.includes('; commit; begin ')) {
      if (what === 'text') return drop()
      notes.set('committing', true)
    }
    return 'pass'
  }
}
