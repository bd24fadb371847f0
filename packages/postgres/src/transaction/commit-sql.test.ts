import { expect, it } from 'vitest'
import { DEFAULT_SETTINGS } from '../fixtures/session-settings.ts'
import { commitTexts } from './commit-sql.ts'

const DURABLE = 'set local synchronous_commit = on'

// `unreplicated.int.test.ts` shows what the warning is for, with handlers that change settings.
it.each([
  ['notice', []],
  ['error', ['set local client_min_messages = warning']],
])('a commit under client_min_messages = %s hears warnings', (clientMinMessages, heard) => {
  const texts = commitTexts(
    { results: new Map(), recovered: [] },
    {
      schema: 'onceward',
      settings: { ...DEFAULT_SETTINGS, clientMinMessages },
      hasChangedSettings: false,
      budgetMs: 1_000,
    },
  )
  expect(texts).toEqual([...heard, DURABLE, 'commit'])
})
