import { ConfigurationError, type ConsumerRegistration, systemRuntime } from '@onceward/core'
import { registration } from '@onceward/testing/conformance'
import { expect, test } from 'vitest'
import { type Asked, scriptedDriver, statements } from '../fixtures/scripted-driver.ts'
import { open } from './register-consumer.ts'
import { SCHEMA_VERSION } from './schema-version.ts'

const WINDOW_MS = 3_600_000

interface Given {
  readonly settings?: Readonly<Record<string, unknown>>
  /** What the row of the consumer holds; null where it belongs to another login. */
  readonly registered?: Readonly<Record<string, unknown>> | null
  readonly poolSize?: number | undefined
  readonly over?: Partial<ConsumerRegistration>
}

/** Opens an inbox over a database that answers this. */
async function opened(given: Given = {}) {
  const { settings, registered, poolSize, over } = { poolSize: 10, ...given }
  const told: unknown[][] = []
  const tell =
    (level: string) =>
    (...words: unknown[]) =>
      void told.push([level, ...words])
  const logger = {
    debug: tell('debug'),
    info: tell('info'),
    warn: tell('warn'),
    error: tell('error'),
  }
  const row = {
    ...{ version: String(SCHEMA_VERSION), readable_from: null, secret: '00ff' },
    ...{ hides_rows: 'false', facts: '{"encoding":"UTF8","replicationRole":"origin","tables":[]}' },
    ...settings,
  }
  const { asked, context } = scriptedDriver(
    registered === null
      ? []
      : [{ id: 7, dedupWindowMs: WINDOW_MS, fingerprintRule: 1, formerRule: null, ...registered }],
  )
  const read: Asked[] = []
  const driver = {
    ...context.driver,
    poolSize,
    // One statement, whose answer has columns of its own.
    shortTransaction: (work: (connection: never) => Promise<never>) =>
      work({
        query: async (text: string) => {
          read.push({ text, values: undefined, by: 'short' })
          return { rows: [row], rowCount: 1 }
        },
      } as never),
  }
  const inbox = await open(driver, statements, registration(systemRuntime, { logger, ...over }))
  return { asked, inbox, read, told }
}

test('a guard opens its inbox with what it must know for its claims', async () => {
  const { asked, inbox, read, told } = await opened()
  expect(inbox).toMatchObject({ consumerId: 7, concurrency: 4, secret: new Uint8Array([0, 255]) })
  expect(read.map(({ text }) => text)).toEqual([statements.readSettings])
  expect(asked).toEqual([
    { text: statements.register, values: ['billing', String(WINDOW_MS), '1'], by: 'query' },
  ])
  expect(told).toEqual([])
})

const UNLOGGED = JSON.stringify({
  ...{ encoding: 'UTF8', replicationRole: 'origin' },
  tables: [{ name: 'settings', kind: 'r', kept: 'u', rules: 0, triggers: [], publications: [] }],
})

test.each<[string, Given, string]>([
  ['tables are missing', { settings: { version: null } }, 'run `await migrate(pool)`'],
  ['rows are hidden from it', { settings: { hides_rows: 'true' } }, '`row_security` is off'],
  ['a crash would empty a table', { settings: { facts: UNLOGGED } }, 'is unlogged'],
  ['its consumer belongs to another login', { registered: null }, 'belongs to another login'],
  [
    'the pool is too small for the concurrency that was chosen',
    { over: { concurrency: 9, concurrencyChosen: true } },
    'at least 11 connections (`concurrency` 9 and 2 spare ones), got 10',
  ],
])('a guard does not start where %s', async (_where, given, message) => {
  const opening = opened(given)
  await expect(opening).rejects.toThrow(ConfigurationError)
  await expect(opening).rejects.toThrow(message)
})

test.each<[number | undefined, Partial<ConsumerRegistration>, number]>([
  [10, { concurrency: 8, concurrencyChosen: true }, 8],
  [10, { concurrency: 9 }, 8],
  // As in a Lambda function: everything else queues in the client.
  [2, { concurrency: 4 }, 1],
  [1, { concurrency: 1, concurrencyChosen: true }, 1],
  // A client that does not tell.
  [undefined, { concurrency: 50 }, 50],
])('a pool of %s connections carries %o', async (poolSize, over, expected) => {
  const { inbox, told } = await opened({ poolSize, over })
  expect(inbox.concurrency).toBe(expected)
  const lowered = { consumer: 'billing', concurrency: expected, poolSize }
  const isLowered = over.concurrency !== expected
  expect(told.map(([level, fields]) => [level, fields])).toEqual(
    isLowered ? [['info', lowered]] : [],
  )
})

const LONGER = { dedupWindowMs: WINDOW_MS + 1 }
test.each<[string, Readonly<Record<string, unknown>>, readonly object[]]>([
  ['the first', { formerRule: null }, []],
  ['alike', { formerRule: 1 }, []],
  [
    'of another rule',
    { formerRule: 2 },
    [{ consumer: 'billing', formerRule: 2, fingerprintRule: 1 }],
  ],
  [
    'of a longer window',
    LONGER,
    [{ consumer: 'billing', dedupWindowMs: WINDOW_MS, inForceMs: WINDOW_MS + 1 }],
  ],
])(
  'a guard warns where another one of its consumer differs: %s',
  async (_how, registered, fields) => {
    const { told } = await opened({ registered })
    expect(told).toEqual(fields.map((each) => ['warn', each, expect.any(String)]))
  },
)
