import { expect, it } from 'vitest'
import type { SessionSettings } from '../driver/session-settings.ts'
import { commitTexts } from './commit-sql.ts'

const settings: SessionSettings = {
  lockTimeout: '0',
  handlerLockTimeout: '0',
  statementTimeout: '0',
  idleTimeout: '0',
  synchronousCommit: 'on',
  clientMinMessages: 'notice',
  sessionUser: 'app',
  role: 'none',
}
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
      settings: { ...settings, clientMinMessages },
      hasChangedSettings: false,
      budgetMs: 1_000,
    },
  )
  expect(texts).toEqual([...heard, DURABLE, 'commit'])
})
