import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import type { CountedEvent, Fingerprint, IdentifiedEvent } from '@onceward/core/ports'
import { until } from '@onceward/testing'
import { counted, fresh, newEvent, strangeToken } from '@onceward/testing/conformance'
import type pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { lockWaiters, newEvents, type TestInbox, testInbox } from '../fixtures/inbox.ts'

let inbox: TestInbox

beforeAll(async () => {
  inbox = await testInbox()
})
afterAll(() => inbox[Symbol.asyncDispose]())

/** A successor that has locked and counted the event, and has not committed yet. */
async function countingSuccessor({ event }: CountedEvent): Promise<pg.PoolClient> {
  const client = await inbox.pool.connect()
  await client.query('begin')
  await client.query('select 1 from onceward.processed_events where event_id = $1 for update', [
    event.id,
  ])
  await client.query(
    'update onceward.failed_events set token = $2, attempt = 2, counted_at = now() where event_id = $1',
    [event.id, strangeToken()],
  )
  await client.query("update onceward.processed_events set state = 'r' where event_id = $1", [
    event.id,
  ])
  return client
}

async function finish(client: pg.PoolClient): Promise<void> {
  await client.query('commit')
  client.release()
}

const verdicts = {
  fail: ({ event, token, attempt }: CountedEvent) =>
    inbox.session.fail([{ event, token, attempt, error: 'late', delayMs: 0 }]),
  bury: ({ event, token, attempt }: CountedEvent) =>
    inbox.session.bury([{ event, token, attempt, error: 'late', reason: 'fatal' }]),
  release: ({ event, token }: CountedEvent) =>
    inbox.session.release([{ event, token, as: 'given-back' }]),
}

describe('a verdict that waits for its row while a successor counts the event', () => {
  // Red when the token is read from the snapshot that the statement began with: the state is still r.

  it.each(Object.entries(verdicts))('is lost: %s', async (_, verdict) => {
    const { pool, steps } = inbox
    const old = await steps.suspect(newEvent())
    const successor = await countingSuccessor(old)
    const answer = verdict(old)
    await until(async () => (await lockWaiters(pool)) === 1)
    await finish(successor)
    expect(await answer).toEqual(['lost'])
    expect(await steps.known(old.event)).toMatchObject({ kind: 'running', attempt: 2 })
  })

  it('is lost: the claim of the business transaction', async () => {
    const { pool, session, steps } = inbox
    const old = await steps.suspect(newEvent())
    const successor = await countingSuccessor(old)
    const claim = session.begin({ ...counted(old), waitMs: 5_000 })
    await until(async () => (await lockWaiters(pool)) === 1)
    await finish(successor)
    expect(await claim).toMatchObject({ kind: 'none' })
  })
})

describe('a verdict whose row is locked by another transaction', () => {
  // Red when the verdict locks the failure record first: a count locks in the other order, so they deadlock.
  it.each(Object.entries(verdicts))('locks nothing else meanwhile: %s', async (_, verdict) => {
    const { pool, steps } = inbox
    const mine = await steps.suspect(newEvent())
    const { id } = mine.event
    const other = await pool.connect()
    await other.query('begin')
    await other.query('select from onceward.processed_events where event_id = $1 for update', [id])
    const answer = verdict(mine)
    await until(async () => (await lockWaiters(pool)) === 1)
    const details = 'select from onceward.failed_events where event_id = $1 for update nowait'
    const free = await other.query(details, [id]).catch((error: unknown) => error)
    await finish(other)
    await answer
    expect(free).toMatchObject({ rowCount: 1 })
  })

  // Red when a verdict locks its events in the order it finds them: two statements that share some would deadlock.
  it('locks no later events in the order of ids', async () => {
    const { pool, session, steps } = inbox
    const owned = []
    for (const event of newEvents(20)) owned.push(await steps.suspect(event))
    const [first, ...rest] = owned.map(({ event }) => event.id).toSorted()
    const other = await pool.connect()
    await other.query('begin')
    const lock = 'select from onceward.processed_events where event_id = any($1) for update nowait'
    await other.query(lock, [[first]])
    const failing = session.fail(owned.map((one) => ({ ...one, error: 'x', delayMs: 0 })))
    await until(async () => (await lockWaiters(pool)) === 1)
    const free = await other.query(lock, [rest]).catch((error: unknown) => error)
    await finish(other)
    await failing
    expect(free).toMatchObject({ rowCount: rest.length })
  })

  it('is the only one that is lost: other verdicts of its statement are recorded', async () => {
    const { pool, session, steps } = inbox
    const [held, other] = [await steps.suspect(newEvent()), await steps.suspect(newEvent())]
    const successor = await countingSuccessor(held)
    const failures = [held, other].map((one) => ({ ...one, error: 'x', delayMs: 0 }))
    expect(await session.fail(failures)).toEqual(['lost', 'recorded'])
    await finish(successor)
    expect(await steps.known(other.event)).toMatchObject({ kind: 'waiting' })
    expect(await lockWaiters(pool)).toBe(0)
  })
})

describe('burials of large deliveries', () => {
  // Red when all go into one statement, whatever their total size.
  it('are recorded in several statements', async () => {
    const { pool, session, steps } = inbox
    const events = newEvents(3).map((event) => {
      const delivery = { ...event.delivery, body: new Uint8Array(3 * 1024 * 1024) }
      return { ...event, delivery }
    })
    const owned = []
    for (const event of events) owned.push(await steps.suspect(event))
    const successor = await countingSuccessor(owned[2]!)
    const burials = owned.map((one) => ({ ...one, error: 'x', reason: 'fatal' as const }))
    const burying = session.bury(burials)
    await until(async () => (await lockWaiters(pool)) === 1)
    const known = await session.classify(events)
    await finish(successor)
    expect(known.map(({ kind }) => kind)).toEqual(['dead', 'dead', 'running'])
    expect(await burying).toEqual(['recorded', 'recorded', 'lost'])
  })
})

describe('an error of PostgreSQL', () => {
  // Red when any error counts as a held row: the caller would not learn that nothing was recorded.
  it('for a suspect is thrown, and not reported as a held row', async () => {
    const event = newEvent({ fingerprint: (1n << 70n) as Fingerprint })
    await expect(inbox.session.suspect([event], 1_000)).rejects.toThrow(/out of range/)
  })

  it('for a verdict is thrown, and not reported as lost', async () => {
    const { session, steps } = inbox
    const mine = await steps.suspect(newEvent())
    const impossible = { ...mine, error: 'x', delayMs: Number.NaN }
    await expect(session.fail([impossible])).rejects.toThrow(/null value in column "next_try"/)
    expect(await steps.known(mine.event)).toMatchObject({ kind: 'running' })
  })
})

describe('statements over many events', () => {
  it('lock rows in one order, so that two of them never deadlock', async () => {
    const { pool, session, steps } = inbox
    const events = newEvents(60).toSorted((a, b) => (a.id < b.id ? -1 : 1))
    const backwards = events.toReversed()
    // Held in the middle, so that statements that went from both ends would each hold what the other needs.
    const middle = await steps.begin(fresh(events[30] ?? newEvent()))
    const suspecting = [events, backwards].map((some) => session.suspect(some, 600_000))
    await until(async () => (await lockWaiters(pool)) === 2)
    await middle.rollback()
    const suspects = await Promise.all(suspecting)
    const owned = suspects.flatMap((answer) =>
      answer.kind === 'answered' ? answer.counted.filter((one) => one !== undefined) : [],
    )
    expect(owned).toHaveLength(events.length)
    const failures = owned.map((one) => ({ ...one, error: 'x', delayMs: 0 }))
    const answers = await Promise.all([
      session.fail(failures),
      session.fail(failures.toReversed()),
      session.count(events, 'together'),
      session.count(backwards, 'together'),
    ])
    const recorded = answers.flat().filter((answer) => answer === 'recorded')
    expect(recorded).toHaveLength(events.length)
  })

  it('insert rows in one order too, so that verdicts of clean runs never deadlock', async () => {
    const { pool, session, steps } = inbox
    const events = newEvents(60).toSorted((a, b) => (a.id < b.id ? -1 : 1))
    const failures = events.map((event) => ({ event, attempt: 1, error: 'x', delayMs: 0 }))
    const middle = await steps.begin(fresh(events[30] ?? newEvent()))
    const failing = [failures, failures.toReversed()].map((some) => session.fail(some))
    await until(async () => (await lockWaiters(pool)) === 2)
    await middle.rollback()
    const answers = (await Promise.all(failing)).flat()
    // If the machine stalls for two seconds, both statements lose the locked event.
    const recorded = answers.filter((answer) => answer === 'recorded').length
    expect([events.length, events.length - 1]).toContain(recorded)
  })

  it('wait for one row only for its share of the total', async () => {
    const { session, steps } = inbox
    const event = newEvent()
    const transaction = await steps.begin(fresh(event))
    // The total is longer than the limit of a statement.
    const waitMs = 20_000
    expect(await session.suspect([...newEvents(49), event], waitMs)).toEqual({ kind: 'held' })
    await transaction.rollback()
  })
})

// Red when the mark of an event counts as its end, or is believed for as long as the dedup window.
describe('trap T4: a process that dies', () => {
  it('inside the transaction leaves its event to the next process at once', async () => {
    const { steps } = inbox
    const event = newEvent()
    await killedOnce('claimed', event)
    // The server notices the end of the connection by itself, so no wait is longer than a handler's.
    await steps.commit({ ...fresh(event), waitMs: 10_000 })
    expect(await steps.known(event)).toMatchObject({ kind: 'done' })
  })

  it('between the mark and the handler leaves an event that is run again, and counted', async () => {
    const { steps } = inbox
    const event = newEvent()
    await killedOnce('counted', event)
    expect(await steps.known(event)).toMatchObject({ kind: 'running', attempt: 1 })
    const second = await steps.countAlone(event)
    expect(second.attempt).toBe(2)
    await steps.commit(counted(second))
    expect(await steps.known(event)).toMatchObject({ kind: 'done' })
  })
})

const MARKING_WORKER = fileURLToPath(new URL('../fixtures/marking-worker.ts', import.meta.url))

/** A process of its own marks the event, and is killed before its handler would start. */
async function killedOnce(mark: 'claimed' | 'counted', { id }: IdentifiedEvent): Promise<void> {
  const args = ['--conditions=@onceward/source', MARKING_WORKER, inbox.url, id, mark]
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  const ended = once(child, 'exit')
  const [line] = await Promise.race([once(createInterface(child.stdout), 'line'), ended])
  child.kill('SIGKILL')
  await ended
  expect(line).toBe('marked')
  expect(child.signalCode).toBe('SIGKILL')
}

describe('an old failure record of an event without a state', () => {
  // Red when the old record counts for the event: it would run alone without need, or be buried for old runs.
  const beginnings = {
    suspect: (event: IdentifiedEvent) => inbox.session.suspect([event], 1_000),
    fail: (event: IdentifiedEvent) =>
      inbox.session.fail([{ event, attempt: 1, error: 'x', delayMs: 0 }]),
    bury: (event: IdentifiedEvent) =>
      inbox.session.bury([{ event, attempt: 1, error: 'x', reason: 'fatal' }]),
  }

  it.each(Object.entries(beginnings))('does not affect the new one: %s', async (_, begin) => {
    const { pool } = inbox
    const event = newEvent()
    await pool.query(
      `insert into onceward.failed_events (event_id, consumer_id, attempt, no_verdict, key, token,
         parked, alone, published, discarded_at)
       values ($1, 1, 7, 8, 'old', gen_random_uuid(), true, true, true, now())`,
      [event.id],
    )
    await begin(event)
    const { rows } = await pool.query(
      `select attempt, no_verdict, parked, alone, published, discarded_at, key
       from onceward.failed_events where event_id = $1`,
      [event.id],
    )
    const flags = { parked: false, alone: false, published: false, discarded_at: null }
    expect(rows).toEqual([{ attempt: 1, no_verdict: 0, ...flags, key: event.key }])
  })
})

describe('type parsers of the user', () => {
  it('do not change what the inbox reads', async () => {
    await using other = await testInbox()
    // What users set for their own columns: BigInt, dates as text, booleans and json of their own.
    const oids = [16, 20, 21, 23, 114, 1184, 2950, 3802]
    const { types } = (await import('pg')).default
    const before = oids.map((oid) => types.getTypeParser(oid, 'text'))
    for (const oid of oids) types.setTypeParser(oid, (value: string) => ({ parsed: value }))
    try {
      const { session, steps, deadLetters } = other
      const event = newEvent()
      await steps.buried(event)
      expect(await steps.known(event)).toMatchObject({ kind: 'dead', attempt: 1, published: false })
      expect(await deadLetters.show(event.id)).toMatchObject({ key: event.key, attempts: 1 })
      const done = newEvent()
      await steps.commit(fresh(done), new Map([[done.id, '{"n":1}']]))
      expect(await steps.known(done)).toMatchObject({ kind: 'done', result: { n: 1 } })
      expect(await session.sweep()).toEqual({ deleted: 0, finished: true })
    } finally {
      oids.forEach((oid, index) => {
        const parser = before[index]
        if (parser !== undefined) types.setTypeParser(oid, parser)
      })
    }
  })
})
