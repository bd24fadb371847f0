import { randomUUID } from 'node:crypto'
import { until } from '@onceward/testing'
import { newEvent } from '@onceward/testing/conformance'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { lockWaiters, type TestInbox, testInbox } from '../fixtures/inbox.ts'
import { createStatements } from '../statements/index.ts'

const DAY_MS = 86_400_000
const GATE = 4_711
const { sweepTroubled } = createStatements()
let inbox: TestInbox

beforeEach(async () => {
  inbox = await testInbox()
})
afterEach(() => inbox[Symbol.asyncDispose]())

/** A sweep that has read the tables and waits, until `meanwhile` has ended, before it locks what it is to delete. */
async function sweptAround(meanwhile: () => Promise<unknown>): Promise<void> {
  const { pool } = inbox
  const role = `sweeper_${randomUUID().slice(0, 8)}`
  await pool.query(`create role ${role};
    grant usage on schema onceward to ${role};
    grant select, update, delete on all tables in schema onceward to ${role};
    create function gate() returns boolean language plpgsql as
      $$ begin perform pg_advisory_xact_lock_shared(${GATE}); return true; end $$;
    create policy gate on onceward.processed_events to ${role} using (gate());
    alter table onceward.processed_events enable row level security`)
  const [gate, sweeper] = [await pool.connect(), await pool.connect()]
  await gate.query('select pg_advisory_lock($1)', [GATE])
  await sweeper.query(`begin; set local role ${role}; set local onceward.sweep = 'on'`)
  const sweeping = sweeper.query(sweepTroubled, ['1000'])
  await until(async () => (await lockWaiters(pool)) === 1)
  await meanwhile()
  await gate.query('select pg_advisory_unlock($1)', [GATE])
  await sweeping
  await sweeper.query('commit')
  gate.release()
  sweeper.release()
}

const old = async () => {
  const event = newEvent()
  await inbox.steps.buried(event)
  await inbox.pass(60 * DAY_MS)
  return event
}

it('deletes an old dead letter', async () => {
  const event = await old()
  await sweptAround(async () => undefined)
  expect(await inbox.session.classify([event])).toMatchObject([{ kind: 'absent' }])
})

// Red when the sweep decides by the failures as it has read them: the event was gone, and its message exists nowhere else.
it('leaves an old dead letter that an operator replays while it sweeps', async () => {
  const event = await old()
  await sweptAround(() => inbox.deadLetters.replay(event.id))
  expect(await inbox.session.due(10)).toMatchObject([{ ref: { id: event.id }, what: 'run' }])
})

it('leaves an old event that is counted for another attempt while it sweeps', async () => {
  const event = newEvent()
  await inbox.steps.suspect(event)
  await inbox.pass(60 * DAY_MS)
  await sweptAround(() => inbox.steps.countAlone(event))
  expect(await inbox.steps.known(event)).toMatchObject({ kind: 'running', attempt: 2 })
})
