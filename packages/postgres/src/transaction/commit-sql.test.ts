import type { Commit } from '@onceward/core'
import { describe, expect, it } from 'vitest'
import { ownIdentity, ownSettings } from '../driver/session-settings.ts'
import { newEvents } from '../fixtures/inbox.ts'
import { DEFAULT_SETTINGS } from '../fixtures/session-settings.ts'
import { type CommitTarget, commitTexts, isOwnFailure } from './commit-sql.ts'

const DURABLE = 'set local synchronous_commit = on'
const HEARD = 'set local client_min_messages = warning'
const NOTHING: Commit = { results: new Map(), recovered: [] }

const target = (over: Partial<CommitTarget> = {}): CommitTarget => ({
  ...{ schema: '"inbox"', settings: DEFAULT_SETTINGS, hasChangedSettings: false, budgetMs: 1_000 },
  ...over,
})

describe('a commit', () => {
  // `unreplicated.int.test.ts` shows what the warning is for, with handlers that change settings.
  it.each([
    ['notice', []],
    ['error', [HEARD]],
  ])('under client_min_messages = %s hears warnings', (clientMinMessages, heard) => {
    const settings = { ...DEFAULT_SETTINGS, clientMinMessages }
    expect(commitTexts(NOTHING, target({ settings }))).toEqual([...heard, DURABLE, 'commit'])
  })

  // Red when the statements of onceward run as the role that the handler left, or before its deferred triggers.
  it('stores results and recovered events behind the deferred triggers, as its own user', () => {
    const [one, two] = newEvents(2).map(({ id }) => id)
    const [gone, back] = newEvents(2).map(({ id }) => id)
    const results = new Map([
      [one, '{"a":"it\'s"}'],
      [two, '2'],
    ]) as Commit['results']
    const recovered = [gone, back] as Commit['recovered']
    const storing = [
      `insert into "inbox".event_results (event_id, result) values ('${one}','{"a":"it''s"}'),('${two}','2') on conflict (event_id) do update set result = excluded.result`,
      `delete from "inbox".failed_events where event_id in ('${gone}','${back}')`,
    ]
    const [insert, remove] = storing
    const around = (...texts: readonly unknown[]): unknown[] => [
      ...[DURABLE, 'set constraints all immediate', ...ownIdentity(DEFAULT_SETTINGS)],
      ...[...ownSettings(1_000), ...texts, DURABLE, 'commit'],
    ]
    expect(commitTexts({ results, recovered }, target())).toEqual(around(insert, remove))
    expect(commitTexts({ ...NOTHING, results }, target())).toEqual(around(insert))
    expect(commitTexts({ ...NOTHING, recovered }, target())).toEqual(around(remove))
  })

  // Red when a commit without anything to store trusts the settings that the handler changed.
  it('behind a handler that changed settings undoes them, also where it stores nothing', () => {
    const texts = commitTexts(NOTHING, target({ hasChangedSettings: true }))
    const durable = expect.stringContaining("set_config('synchronous_commit', 'on', true)")
    expect(texts).toEqual([
      ...[durable, 'set constraints all immediate', ...ownIdentity(DEFAULT_SETTINGS)],
      ...[HEARD, durable, 'commit'],
    ])
  })
})

describe('a statement that failed', () => {
  it('is one of onceward behind the deferred triggers and before COMMIT', () => {
    const texts = commitTexts(NOTHING, target({ hasChangedSettings: true }))
    const own = texts.filter((_, completed) => isOwnFailure(texts, completed))
    expect(own).toEqual(texts.slice(2, -1))
  })

  it('is never one of onceward where no trigger is run before COMMIT', () => {
    const texts = commitTexts(NOTHING, target())
    expect(texts.map((_, completed) => isOwnFailure(texts, completed))).toEqual([false, false])
  })
})
