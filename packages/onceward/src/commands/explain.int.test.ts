import { createGuard, FatalError } from '@onceward/core'
import { toDelivery } from '@onceward/core/memory'
import { eventIdOf } from '@onceward/core/ports'
import { postgresLeases } from '@onceward/postgres'
import { pgInbox } from '@onceward/postgres/pg'
import { silent } from '@onceward/testing/conformance'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { answer, cli } from '../fixtures/cli.ts'
import { type Operated, operated } from '../fixtures/operated.ts'

let at: Operated

beforeAll(async () => {
  at = await operated()
})
afterAll(() => at[Symbol.asyncDispose]())

interface Told {
  readonly id: string
  readonly isKnown: boolean
  readonly next: { readonly kind: string; readonly reason?: string; readonly attempt?: number }
  readonly chapters: readonly { readonly atMs: number; readonly what: string }[]
}

const explain = (key: string, ...more: readonly string[]): Promise<Told> =>
  answer<Told>(['explain', key, '--consumer', 'billing', '--tenant', 'acme', ...more], at)

const idOf = (key: string): string => eventIdOf('billing', 'acme', key)
const set = (key: string, assignments: string, state: string): Promise<unknown> =>
  at.pool.query(`
    with event as (update onceward.processed_events set state = '${state}' where event_id = '${idOf(key)}')
    update onceward.failed_events set ${assignments} where event_id = '${idOf(key)}'`)

/** What `explain` foretells, in the words of the settlement that the guard then gives. */
describe('the foretold answer is the answer of a guard', () => {
  const states: Readonly<Record<string, (key: string) => Promise<unknown>>> = {
    absent: async () => undefined,
    done: (key) => at.send(key, {}),
    dead: (key) => at.kill(key, 'no'),
    'waiting, not due': async (key) => {
      await at.kill(key, 'no')
      await set(key, "reason = null, next_try = now() + interval '1 hour'", 'w')
    },
    'waiting, due': async (key) => {
      await at.kill(key, 'no')
      await set(key, "reason = null, attempt = 1, next_try = now() - interval '1 second'", 'w')
    },
    'running elsewhere': async (key) => {
      await at.kill(key, 'no')
      await set(key, "reason = null, counted_at = clock_timestamp() + interval '4 seconds'", 'r')
    },
    'counted before the clock was set back': async (key) => {
      await at.kill(key, 'no')
      await set(key, "reason = null, counted_at = clock_timestamp() + interval '1 minute'", 'r')
    },
    'left behind by a killed process': async (key) => {
      await at.kill(key, 'no')
      await set(key, "reason = null, attempt = 1, counted_at = now() - interval '1 minute'", 'r')
    },
    replayed: async (key) => {
      await at.kill(key, 'no')
      await cli(['dead-letters', 'replay', idOf(key), '--yes'], at)
    },
    discarded: async (key) => {
      await at.kill(key, 'no')
      await cli(['dead-letters', 'discard', idOf(key), '--why', 'x', '--yes'], at)
    },
  }

  test.each(Object.entries(states))('%s', async (name, prepare) => {
    const key = `state ${name}`
    await prepare(key)
    const before = at.runs()
    const { next } = await explain(key)
    // The running guard of this test may run the replayed event at any moment.
    if (name === 'replayed' && next.kind !== 'run') {
      return expect(['in-progress', 'fatal']).toContain(next.reason)
    }
    const payload = name === 'absent' || name === 'done' ? {} : { fail: 'no' }
    const settlement = await at.send(key, payload)
    expect(at.runs() - before).toBe(next.kind === 'run' ? 1 : 0)
    if (name === 'replayed' && settlement.kind === 'defer') {
      return expect(settlement.reason).toBe('in-progress')
    }
    switch (next.kind) {
      case 'run':
        return expect(['ack processed', 'dead-letter fatal']).toContain(told(settlement))
      case 'ack':
        return expect(told(settlement)).toBe(`ack ${next.reason}`)
      default:
        return expect(told(settlement)).toBe(`${next.kind} ${next.reason}`)
    }
  })
})

const told = (settlement: Awaited<ReturnType<Operated['send']>>): string =>
  `${settlement.kind} ${settlement.kind === 'ack' ? settlement.by : settlement.reason}`

test('the story is in the order of time: run, failure, dead letter, what operators did', async () => {
  await at.kill('story', 'card\u001b[31m declined')
  await cli(
    ['dead-letters', 'discard', idOf('story'), '--why', 'refunded', '--by', 'bob', '--yes'],
    at,
  )
  const { chapters, id, isKnown } = await explain('story')
  expect({ id, isKnown }).toEqual({ id: idOf('story'), isKnown: true })
  expect(chapters.map(({ what }) => what)).toEqual([
    'dead-lettered (fatal) after 1 attempt',
    expect.stringMatching(/discarded|bob discarded it/),
    expect.stringMatching(/discarded|bob discarded it/),
  ])
  const times = chapters.map(({ atMs }) => atMs)
  expect(times).toEqual(times.toSorted((one, other) => one - other))
  const { stdout } = await cli(['explain', '--id', id], at)
  expect(stdout).toMatch(/key +story\ntenant +acme\n/)
  expect(stdout).toContain('RangeError: card\\u{1b}[31m declined')
})

test('a message with another payload is part of the story of its key', async () => {
  await at.send('conflict', { cents: 1 })
  await at.send('conflict', { cents: 2 })
  const { chapters, next } = await explain('conflict')
  expect(chapters.map(({ what }) => what).join('\n')).toContain(
    'refused (fingerprint-mismatch), once',
  )
  expect(next).toMatchObject({ kind: 'ack', reason: 'duplicate' })
})

// Red before: nothing said that the effect of the event is not whole.
test('an event that is done without a statement of its handler says so, and can run again', async () => {
  await at.send('late', { cents: 1 })
  await at.pool.query(
    `insert into onceward.failed_events (event_id, consumer_id, attempt, reason, error, key, tenant, source, properties, headers, body, body_bytes)
     select event_id, consumer_id, 1, 'late-statement', 'it came late', 'late', 'acme', '{"broker":"memory","queue":"memory"}', '{}', '{}', '{}', 2
     from onceward.processed_events where event_id = $1`,
    [idOf('late')],
  )
  const { stdout } = await cli(['explain', '--id', idOf('late')], at)
  expect(stdout).toContain('state     done, but a statement of its handler came after the commit')
  expect(stdout).toContain('dead-letters rerun')
  const doctor = await cli(['doctor'], at)
  expect(doctor.stdout).toContain('1 event of billing is done without a statement of the handler')
  expect(await cli(['dead-letters', 'replay', idOf('late')], at)).toMatchObject({ code: 1 })
  const rerun = ['dead-letters', 'rerun', idOf('late'), '--why', 'await was missing']
  expect(await cli(rerun, at)).toMatchObject({ code: 0 })
  expect((await explain('late')).chapters.map(({ what }) => what).join()).toContain(
    'let it run again',
  )
})

// Red before: an id that the log had printed was not known.
test('a message that was refused is explained by the id of its dead letter, which replay takes too', async () => {
  await at.sendBytes('broken', Buffer.from('no JSON'))
  const letters = ['dead-letters', 'list', '--reason', 'invalid-payload']
  const { letters: refused } = await answer<{ letters: readonly { id: string }[] }>(letters, at)
  const id = refused[0]?.id ?? ''
  const { code, stdout } = await cli(['explain', '--id', id], at)
  expect(code).toBe(0)
  expect(stdout).toContain('a message that was refused, and never became an event')
  expect(stdout).toContain('settled as dead-lettered (invalid-payload)')
  expect(await cli(['dead-letters', 'replay', id], at)).toMatchObject({ code: 0 })
})

test('an event that nobody has heard of is exit code 1', async () => {
  const { code, stdout } = await cli(['explain', 'never', '--consumer', 'nobody'], at)
  expect(code).toBe(1)
  expect(stdout).toContain('no guard of this consumer has ever started here')
})

// Red before: nobody had heard of a dead event, and an event whose owner had died was at its first attempt.
describe('of a guard with leases in PostgreSQL alone, the foretold answer is that of the guard', () => {
  const retry = { attempts: 3, baseMs: 60_000, maxMs: 60_000 }

  test.each([
    ['done', 'works', '', 'ack duplicate'],
    ['dead', 'is fatal', '', 'dead-letter fatal'],
    ['waiting', 'fails', '', 'defer not-due'],
    ['due', 'fails', "ends_at = now() - interval '1 s'", 'run 2'],
    ['left', 'fails', "state = 'p', ends_at = now() - interval '1 s'", 'run 2'],
    ['spent', 'fails', "attempt = 3, ends_at = now() - interval '1 s'", 'run 4'],
  ] as const)('%s', async (key, how, assignments, foretold) => {
    let runs = 0
    const guard = createGuard(
      {
        ...{ consumer: 'mailing', leases: postgresLeases(at.pool), logger: silent, retry },
        onTakeover: 'retry',
        eventKey: ({ messageId }) => messageId,
      },
      () => {
        runs += 1
        if (how === 'is fatal') throw new FatalError('no')
        if (how === 'fails') throw new Error('no')
      },
    )
    const send = () => guard.process(toDelivery({}, { messageId: key }))
    await send()
    if (assignments !== '') {
      const id = eventIdOf('mailing', undefined, key)
      await at.pool.query(`update onceward.leases set ${assignments} where event_id = $1`, [id])
    }
    const { next } = await answer<Told>(['explain', key, '--consumer', 'mailing'], at)
    expect(`${next.kind} ${next.attempt ?? next.reason}`).toBe(foretold)
    runs = 0
    const settlement = await send()
    if (next.kind !== 'run') expect(told(settlement)).toBe(foretold)
    // The text says that an attempt past the guard's last one is not made.
    expect(runs).toBe(foretold === 'run 2' ? 1 : 0)
    await guard.close()
  })
})

test('the type of a message is named, of an event and of a message that no handler is for', async () => {
  const typed = (type: string) => toDelivery({}, { headers: { type, 'idempotency-key': type } })
  const guard = createGuard({
    ...{ consumer: 'orders', inbox: pgInbox(at.pool), logger: silent },
    on: {
      'order.placed': {
        handler: () => {
          throw new FatalError('no')
        },
      },
    },
  })
  await guard.process(typed('order.placed'))
  await guard.process(typed('order.lost'))
  await guard.close()
  const ask = (key: string) => answer<Told>(['explain', key, '--consumer', 'orders'], at)
  expect(await ask('order.placed')).toMatchObject({ type: 'order.placed' })
  expect((await ask('order.lost')).chapters).toMatchObject([
    {
      what: expect.stringContaining('unknown-type'),
      detail: expect.stringMatching(/"order\.lost"/),
    },
  ])
  const letters = ['dead-letters', 'list', '--reason', 'unknown-type']
  const { letters: lost } = await answer<{ letters: readonly { id: string }[] }>(letters, at)
  const shown = await cli(['dead-letters', 'show', lost[0]?.id ?? ''], at)
  expect(shown.stdout).toMatch(/^.*type.* +order\.lost$/m)
})
