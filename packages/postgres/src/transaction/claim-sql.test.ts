import { systemRuntime } from '@onceward/core/ports'
import { counted, fresh, newEvent, strangeToken } from '@onceward/testing/conformance'
import { describe, expect, it } from 'vitest'
import { settingMs } from '../driver/session-settings.ts'
import { newEvents } from '../fixtures/inbox.ts'
import { DEFAULT_SETTINGS } from '../fixtures/session-settings.ts'
import { boundsOf, claimFailure, claimSilenceMs, slotRequest } from './claim.ts'
import {
  boundTexts,
  claimTexts,
  isOfFewRows,
  sessionBoundTexts,
  takingTexts,
  unknownBoundText,
} from './claim-sql.ts'

const TARGET = { schema: '"onceward"', consumerId: 7, returning: '' }
const BOUNDS = { lockMs: 250, budgetMs: 60_000 }

describe('time settings', () => {
  it.each([
    ['0', 0],
    ['250ms', 250],
    ['30s', 30_000],
    ['5min', 300_000],
    ['2h', 7_200_000],
    ['1d', 86_400_000],
    ['1500', 1_500],
    ["0'; drop", undefined],
    ['', undefined],
  ])('%j are %s ms', (setting, ms) => {
    expect(settingMs(setting)).toBe(ms)
  })
})

describe('the bounds of a transaction', () => {
  it('are the rest of the deadline, if the user has set none or longer ones', () => {
    const texts = boundTexts(BOUNDS, { ...DEFAULT_SETTINGS, statementTimeout: '2min' })
    expect(texts).toEqual([
      'set local lock_timeout = 250',
      'set local statement_timeout = 60000',
      'set local idle_in_transaction_session_timeout = 60000',
    ])
  })

  it('do not replace shorter ones of the user', () => {
    const short = { ...DEFAULT_SETTINGS, statementTimeout: '5s', idleTimeout: '1min' }
    expect(boundTexts(BOUNDS, short)).toEqual(['set local lock_timeout = 250'])
  })

  it('are not set again where the session has them, and are set for the whole session elsewhere', () => {
    const own = { ...DEFAULT_SETTINGS, lockTimeout: '250ms', statementTimeout: '1min' }
    expect(boundTexts(BOUNDS, own)).toEqual([
      'set local idle_in_transaction_session_timeout = 60000',
    ])
    expect(sessionBoundTexts(BOUNDS, DEFAULT_SETTINGS)).toEqual([
      'set lock_timeout = 250',
      'set statement_timeout = 60000',
      'set idle_in_transaction_session_timeout = 60000',
    ])
  })

  it('of a session are those of the user where these are shorter', () => {
    const short = { ...DEFAULT_SETTINGS, statementTimeout: '5s', idleTimeout: '2min' }
    expect(sessionBoundTexts(BOUNDS, short)).toEqual([
      'set lock_timeout = 250',
      "set statement_timeout = '5s'",
      'set idle_in_transaction_session_timeout = 60000',
    ])
  })

  it('name every setting where those of the session are not known', () => {
    const names = unknownBoundText(BOUNDS).match(
      /(?<=set_config\(')[^']+', (?:case when|\w+|'\d+')/g,
    )
    expect(names).toEqual([
      "onceward.lock_timeout', lock_timeout",
      "lock_timeout', '250'",
      "statement_timeout', case when",
      "idle_in_transaction_session_timeout', case when",
      "synchronous_commit', case when",
    ])
    expect(unknownBoundText(BOUNDS)).not.toContain('undefined')
  })

  it('include a durable commit if synchronous_commit is off, and only then', () => {
    const durable = (synchronousCommit: string): boolean =>
      boundTexts(BOUNDS, { ...DEFAULT_SETTINGS, synchronousCommit }).some((text) =>
        /synchronous/.test(text),
      )
    expect(['off', 'on', 'local', 'remote_write', 'remote_apply'].filter(durable)).toEqual(['off'])
  })

  it('are whole milliseconds in the range of the server, and never zero', () => {
    const request = fresh(newEvent())
    expect(boundsOf({ ...request, waitMs: 0.2, budgetMs: 0 })).toEqual({ lockMs: 1, budgetMs: 1 })
    expect(boundsOf({ ...request, waitMs: 5.9, budgetMs: 1e12 })).toEqual({
      lockMs: 5,
      budgetMs: 2_147_483_647,
    })
    expect(boundsOf({ ...request, waitMs: 500, budgetMs: 100 })).toEqual({
      lockMs: 100,
      budgetMs: 100,
    })
  })
})

describe('the allowed silence of a claim', () => {
  it('is ten seconds plus its waits, one for each row', () => {
    const one = { waitMs: 300, budgetMs: 5 }
    expect(claimSilenceMs({ ...fresh(...newEvents(3)), ...one })).toBe(10_900)
    expect(claimSilenceMs({ claim: { kind: 'none' }, ...one })).toBe(10_000)
  })
})

describe('the SQL of a claim', () => {
  it('names events in one order, whatever order they come in', () => {
    // Red without sorting: two slices with the same events in another order deadlock.
    const events = newEvents(20)
    const ids = [...events].map(({ id }) => id).sort()
    const texts = (given: typeof events): string => claimTexts(fresh(...given).claim, TARGET).join()
    expect(texts(events)).toBe(texts(events.toReversed()))
    expect(texts(events).match(/[0-9a-f-]{36}/g)).toEqual(ids)
    const owners = events.map((event) => ({ event, token: strangeToken(), attempt: 1 }))
    const lock = claimTexts(counted(...owners).claim, TARGET)[0]
    expect(lock?.match(/[0-9a-f-]{36}/g)).toEqual(ids)
  })

  it('sorts also two events', () => {
    const [one, two] = newEvents(2).toSorted((a, b) => (a.id < b.id ? 1 : -1))
    if (one === undefined || two === undefined) throw new Error('two events')
    const text = claimTexts(fresh(one, two).claim, TARGET).join()
    expect(text.match(/[0-9a-f-]{36}/g)).toEqual([two.id, one.id])
    expect(text).toContain(`'{${two.fingerprint},${one.fingerprint}}'`)
  })

  it('names one event without arrays', () => {
    const event = newEvent()
    expect(claimTexts(fresh(event).claim, TARGET)).toEqual([
      expect.stringContaining(`values ('${event.id}',${event.fingerprint},7) on conflict`),
    ])
  })

  it('gives every counted event its own token', () => {
    const owner = { event: newEvent(), token: strangeToken(), attempt: 1 }
    expect(claimTexts(counted(owner).claim, TARGET)[1]).toContain(
      `(values ('${owner.event.id}'::pg_catalog.uuid,'${owner.token}'::pg_catalog.uuid)) o(id, owner)`,
    )
  })

  it('of several events takes them in its last statement, in one row', () => {
    const { claim } = counted({ event: newEvent(), token: strangeToken(), attempt: 1 })
    const [lock, take] = claimTexts(claim, { ...TARGET, returning: ' returning event_id, xmin' })
    const texts = takingTexts(claim, { schema: '"onceward"', consumerId: 7 }, ', 1 as more')
    expect(texts).toHaveLength(2)
    expect(texts[0]).toBe(lock)
    expect(texts[1]?.startsWith(`with taken as (${take}) select `)).toBe(true)
    expect(texts[1]?.endsWith(' as xid, 1 as more from taken')).toBe(true)
    const [taking, ...others] = takingTexts(fresh(...newEvents(2)).claim, TARGET)
    expect(taking).toMatch(/^with taken as \(insert into .* as xid from taken$/)
    expect(others).toEqual([])
  })

  it('is empty if there is nothing to claim', () => {
    expect(claimTexts({ kind: 'none' }, TARGET)).toEqual([])
  })
})

describe('an error of the claim', () => {
  const coded = (code: string): Error => Object.assign(new Error(code), { code })
  const one = fresh(newEvent()).claim
  const two = fresh(...newEvents(2)).claim

  it('means a held row after a bounded wait or a deadlock', () => {
    for (const code of ['55P03', '57014', '40P01']) {
      expect(claimFailure(coded(code), one)).toBe('held')
    }
  })

  it('means under REPEATABLE READ that a single event is done, and that several are held', () => {
    expect(claimFailure(coded('40001'), one)).toBe('none')
    expect(claimFailure(coded('40001'), two)).toBe('held')
  })

  it('is otherwise an error of the store', () => {
    expect(claimFailure(coded('53100'), one)).toBeUndefined()
    expect(claimFailure(new Error('Connection terminated'), one)).toBeUndefined()
  })

  it('is unlikely after a count, because counted runs go first', () => {
    const owner = { event: newEvent(), token: strangeToken(), attempt: 1 }
    const runtime = systemRuntime
    expect(slotRequest(counted(owner), runtime)).toEqual({ runtime, limitMs: 2_000, first: true })
    expect(slotRequest(fresh(newEvent()), runtime)).toEqual({ runtime, limitMs: 30_000 })
  })
})

it.each([
  [1, false],
  [2, true],
  [16, true],
  [17, false],
])('a claim of %d new events answers a row for each of them: %s', (events, isOfFew) => {
  expect(isOfFewRows(fresh(...newEvents(events)).claim)).toBe(isOfFew)
})
