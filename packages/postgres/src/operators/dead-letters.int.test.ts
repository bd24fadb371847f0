import type { DeadLetterRef, Refusal } from '@onceward/core/ports'
import { counted, fresh, newDelivery, newEvent, RIGHT_MS } from '@onceward/testing/conformance'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { all, newEvents, type TestInbox, testInbox } from '../fixtures/inbox.ts'
import { type DeadLetterFilter, deadLetters, type StoredDeadLetter } from '../index.ts'

let inbox: TestInbox

beforeEach(async () => {
  inbox = await testInbox()
})
afterEach(() => inbox[Symbol.asyncDispose]())

async function listed(filter?: DeadLetterFilter): Promise<readonly StoredDeadLetter[]> {
  return all(inbox.deadLetters.list(filter))
}

async function refused(over: Partial<Refusal> = {}): Promise<DeadLetterRef> {
  const refusal = { delivery: newDelivery(), reason: 'invalid-payload', error: 'no JSON' } as const
  const [ref] = await inbox.session.refuse([{ ...refusal, ...over }])
  if (ref === undefined) throw new Error('refuse() gave no answer')
  return ref
}

describe('list', () => {
  it('returns buried events and refused messages with all their fields, oldest first', async () => {
    const event = newEvent({ tenant: 'acme' })
    await inbox.steps.buried(event)
    const ref = await refused({ key: 'k\0' })
    const [first, second, ...rest] = await listed()
    expect(rest).toEqual([])
    expect(first).toMatchObject({
      ...{ id: event.id, key: event.key, tenant: 'acme', consumer: 'billing', reason: 'fatal' },
      ...{ ref: { kind: 'event', id: event.id }, attempts: 1, published: false },
      delivery: event.delivery,
    })
    expect(first?.lastFailedAt.getTime()).toBeGreaterThanOrEqual(
      first?.firstFailedAt.getTime() ?? 0,
    )
    expect(second).toMatchObject({ id: ref.id, ref, key: 'k\0', reason: 'invalid-payload' })
  })

  it('does not return events that are clean, running, waiting or done', async () => {
    const { steps, session } = inbox
    await steps.commit(fresh(newEvent()))
    const waiting = await steps.suspect(newEvent())
    await session.fail([{ ...waiting, error: 'x', delayMs: 0 }])
    await steps.suspect(newEvent())
    expect(await listed()).toEqual([])
  })

  it('reads page by page and returns each dead letter once, whatever happens meanwhile', async () => {
    const events = newEvents(120)
    const burials = events.map((event) => {
      return { event, attempt: 1, error: 'x', reason: 'fatal' } as const
    })
    await inbox.session.bury(burials)
    const seen: string[] = []
    for await (const { id } of inbox.deadLetters.list()) {
      seen.push(id)
      if (seen.length === 10) await inbox.deadLetters.replay(seen[0] ?? '')
      if (seen.length === 60) await inbox.deadLetters.discard(seen[1] ?? '', 'x')
    }
    expect(seen.toSorted()).toEqual(events.map(({ id }) => id).toSorted())
    expect(await listed({ limit: 7 })).toHaveLength(7)
    expect(await listed({ limit: 60 })).toHaveLength(60)
    expect(await listed({ limit: 0 })).toEqual([])
  })

  it('filters by consumer, reason, kind and time', async () => {
    const other = await inbox.open({ consumer: 'mailing' })
    const [mine, old] = [newEvent(), newEvent()]
    await inbox.steps.buried(old)
    await inbox.pass(3_600_000)
    await inbox.steps.buried(mine)
    const ref = await refused()
    const event = newEvent()
    await other.bury([{ event, attempt: 5, error: 'x', reason: 'attempts-spent' }])
    const ids = async (filter: DeadLetterFilter) => (await listed(filter)).map(({ id }) => id)
    const recent = new Date(Date.now() - 60_000)
    expect(await ids({ consumer: 'mailing' })).toEqual([event.id])
    expect(await ids({ reason: 'fatal' })).toEqual([old.id, mine.id])
    expect(await ids({ kind: 'refused' })).toEqual([ref.id])
    expect(await ids({ kind: 'event', consumer: 'billing' })).toEqual([old.id, mine.id])
    expect(await ids({ until: recent })).toEqual([old.id])
    expect(await ids({ since: recent, consumer: 'billing' })).toEqual([mine.id, ref.id])
    expect(await ids({ consumer: "x' or true --" })).toEqual([])
  })

  it('takes every date and limit that JavaScript can hold', async () => {
    const event = newEvent()
    await inbox.steps.buried(event)
    const [first, last] = [new Date(-8.64e15), new Date(8.64e15)]
    expect(await listed({ since: first, until: last })).toHaveLength(1)
    expect(await listed({ since: new Date('0000-01-01') })).toHaveLength(1)
    expect([...(await listed({ since: last })), ...(await listed({ until: first }))]).toEqual([])
    const target = { until: last, limit: Number.MAX_SAFE_INTEGER }
    expect((await inbox.deadLetters.replay(target)).done).toEqual([event.id])
  })
})

describe('show', () => {
  it('finds a dead letter by its id', async () => {
    const { deadLetters, steps } = inbox
    const event = newEvent()
    await steps.buried(event)
    const done = newEvent()
    await steps.commit(fresh(done))
    const ref = await refused()
    expect(await deadLetters.show(event.id)).toMatchObject({ id: event.id, key: event.key })
    expect(await deadLetters.show(ref.id)).toMatchObject({ id: ref.id })
    for (const id of [done.id, newEvent().id, 'no id', '']) {
      expect(await deadLetters.show(id)).toBeUndefined()
    }
  })
})

describe('replay', () => {
  // Red when a replay publishes the message again and leaves the row dead: the copy would be swallowed.
  it('trap T25: parks the event and makes it due now, and its copies find it waiting', async () => {
    const { deadLetters, session, steps } = inbox
    const event = newEvent()
    const ref = await steps.buried(event)
    await steps.published(ref)
    expect(await deadLetters.replay(event.id)).toEqual({ done: [event.id], untouched: [] })
    const waiting = { kind: 'waiting', attempt: 0, alone: true, remainingMs: 0 }
    expect(await steps.known(event)).toMatchObject(waiting)
    expect(await session.begin(fresh(event))).toMatchObject({ kind: 'none' })
    expect(await session.takePublishing(ref, RIGHT_MS)).toEqual({ kind: 'gone' })
    expect(await deadLetters.show(event.id)).toBeUndefined()
  })

  // Red when a replay sets the state without checking the current one.
  it('acceptance A20: never runs an event again whose effect is committed', async () => {
    const { deadLetters, session, steps } = inbox
    const event = newEvent()
    await steps.buried(event)
    await deadLetters.replay(event.id)
    const mine = await steps.countAlone(event)
    expect(await deadLetters.replay(event.id)).toMatchObject({
      untouched: [{ id: event.id, why: 'not-dead' }],
    })
    await steps.commit(counted(mine))
    const untouched = [{ id: event.id, why: 'done' }]
    expect(await deadLetters.replay(event.id)).toEqual({ done: [], untouched })
    expect(await deadLetters.replay({ consumer: 'billing' })).toEqual({ done: [], untouched: [] })
    expect(await session.due(10)).toEqual([])
  })

  it('gives one run, even in a race with itself and with copies of the event', async () => {
    const { deadLetters, session, steps } = inbox
    const event = newEvent()
    await steps.buried(event)
    const replays = await Promise.all([1, 2, 3, 4].map(() => deadLetters.replay(event.id)))
    expect(replays.flatMap(({ done }) => done)).toEqual([event.id])
    const counts = await Promise.all([1, 2, 3, 4].map(() => session.count([event], 'alone')))
    expect(counts.flat().filter(({ kind }) => kind === 'counted')).toHaveLength(1)
  })

  // Red when replay asks only for the lock of the row: the letter of a replayed event would be published.
  it.each(['event', 'refused'] as const)(
    'and discard answer `held` while the letter is being published (%s)',
    async (kind) => {
      const { deadLetters, pass, session, steps } = inbox
      const ref = kind === 'event' ? await steps.buried() : await refused()
      const right = await session.takePublishing(ref, RIGHT_MS)
      const untouched = [{ id: ref.id, why: 'held' }]
      expect(await deadLetters.replay(ref.id)).toEqual({ done: [], untouched })
      expect(await deadLetters.discard({ all: true }, 'why')).toEqual({ done: [], untouched })
      await pass(RIGHT_MS)
      expect((await deadLetters.replay({ all: true })).done).toEqual([ref.id])
      if (right.kind !== 'taken') throw new Error(`expected the right, got ${right.kind}`)
      expect(await session.endPublishing(ref, right.token, 'published')).toBe('lost')
      expect(await session.takePublishing(ref, RIGHT_MS)).toEqual({ kind: 'gone' })
    },
  )

  it('by filter replays each dead letter once, and no more than the limit', async () => {
    const { deadLetters, session } = inbox
    const events = newEvents(20)
    const burials = events.map((event) => {
      return { event, attempt: 1, error: 'x', reason: 'fatal' } as const
    })
    await session.bury(burials)
    await refused()
    const report = await deadLetters.replay({ consumer: 'billing', kind: 'event', limit: 15 })
    expect(report.done).toHaveLength(15)
    expect(await listed({ kind: 'event' })).toHaveLength(5)
    expect((await deadLetters.replay({ all: true })).done).toHaveLength(6)
    expect(await listed()).toEqual([])
  })

  it('makes a refused message due, and a message that is refused again becomes a dead letter again', async () => {
    const { deadLetters, session, steps, pass } = inbox
    const delivery = newDelivery()
    const ref = await refused({ delivery })
    await steps.published(ref)
    expect((await deadLetters.replay(ref.id)).done).toEqual([ref.id])
    expect(await session.takePublishing(ref, RIGHT_MS)).toEqual({ kind: 'gone' })
    expect(await session.due(10)).toMatchObject([{ ref, what: 'run' }])
    expect(await refused({ delivery, error: 'still no JSON' })).toEqual(ref)
    await session.resolveRefused(ref.id)
    expect(await deadLetters.show(ref.id)).toMatchObject({
      error: 'still no JSON',
      published: false,
    })
    await pass(600_000)
    expect(await session.due(10)).toMatchObject([{ ref, what: 'publish' }])
    expect(await steps.published(ref)).toMatchObject({ delivery })
    await pass(3_600_000)
    expect(await session.due(10)).toEqual([])
  })
})

describe('discard', () => {
  it('gives up an event: its copies are settled without a run, and its delivery is deleted', async () => {
    const { deadLetters, pool, session, steps } = inbox
    const event = newEvent()
    const ref = await steps.buried(event)
    expect(await deadLetters.discard(event.id, 'a test\0 order')).toEqual({
      done: [event.id],
      untouched: [],
    })
    expect(await steps.known(event)).toMatchObject({ kind: 'dead', published: true })
    expect(await session.takePublishing(ref, RIGHT_MS)).toEqual({ kind: 'already' })
    expect(await listed()).toEqual([])
    expect(await deadLetters.show(event.id)).toBeUndefined()
    expect(await deadLetters.replay(event.id)).toMatchObject({
      untouched: [{ id: event.id, why: 'unknown' }],
    })
    const { rows } = await pool.query('select body, headers from onceward.failed_events')
    expect(rows).toEqual([{ body: null, headers: null }])
  })

  it('deletes a refused message', async () => {
    const ref = await refused()
    expect((await inbox.deadLetters.discard({ kind: 'refused' }, 'spam')).done).toEqual([ref.id])
    expect(await listed()).toEqual([])
  })

  it('does not touch events that are not dead', async () => {
    const { deadLetters, steps } = inbox
    const [done, unknown] = [newEvent(), newEvent()]
    await steps.commit(fresh(done))
    const running = await steps.suspect(newEvent())
    const why = async (id: string) => (await deadLetters.discard(id, 'x')).untouched[0]?.why
    expect(await why(done.id)).toBe('done')
    expect(await why(unknown.id)).toBe('unknown')
    expect(await why('not an id')).toBe('unknown')
    expect(await why(running.event.id)).toBe('not-dead')
  })
})

it('replay and discard write an audit row with operator, action, dead letter and reason', async () => {
  const { pool, steps } = inbox
  const [one, two] = [newEvent(), newEvent()]
  for (const event of [one, two]) await steps.buried(event)
  const byAlice = deadLetters(pool, { by: 'alice' })
  for (const id of [one.id, one.id]) await byAlice.replay(id)
  await byAlice.discard(two.id, 'a duplicate of ours')
  const { rows } =
    await pool.query(`select who, action, target::text, why, now() - at < interval '1 minute' as recent
    from onceward.audit order by id`)
  expect(rows).toEqual([
    { who: 'alice', action: 'replay', target: one.id, why: null, recent: true },
    { who: 'alice', action: 'discard', target: two.id, why: 'a duplicate of ours', recent: true },
  ])
})

describe('trap T26: a dead letter that cannot be published', () => {
  // Red when due() returns it at every poll: it would cause a hot loop and block the others.
  it('is offered again after growing pauses, and does not block others', async () => {
    const { deadLetters, pass, session, steps } = inbox
    const poison = newEvents(3)
    for (const event of poison) {
      await steps.buried(event)
      await deadLetters.replay(event.id)
      const { token } = await steps.countAlone(event)
      await session.bury([{ event, token, attempt: 1, error: 'x', reason: 'fatal' }])
    }
    const offers = async (limit: number) => (await session.due(limit)).map(({ what }) => what)
    expect(await offers(2)).toEqual(['publish', 'publish'])
    const replayed = newEvent()
    await steps.buried(replayed)
    await deadLetters.replay(replayed.id)
    expect((await offers(2)).toSorted()).toEqual(['publish', 'run'])
    expect(await offers(2)).toEqual(['run'])
    await pass(60_000)
    expect(await offers(10)).toHaveLength(4)
    await pass(20_000)
    expect(await offers(10)).toEqual(['run'])
    await pass(60_000)
    expect(await offers(10)).toHaveLength(4)
    // The pause never exceeds ten minutes.
    await pass(86_400_000)
    expect(await offers(10)).toHaveLength(4)
    await pass(601_000)
    expect(await offers(10)).toHaveLength(4)
  })
})
