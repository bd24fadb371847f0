import { type ConsumerRegistration, systemRuntime } from '@onceward/core/ports'
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
    ...{ hides_rows: 'false', encoding: 'UTF8', changed_tables: '[]' },
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

// Red when only `migrate` looks: the tables may have been made by other means.
test.each([
  ['CockroachDB CCL v25.2.1 (x86_64-pc-linux-gnu)', 'CockroachDB'],
  ['PostgreSQL 15.2-YB-2025.1.0.0-b0 on x86_64-pc-linux-gnu', 'YugabyteDB'],
])('a guard on %s is refused by name', async (server, name) => {
  await expect(opened({ settings: { server } })).rejects.toThrow(`The server is ${name}`)
  // It may refuse the statement that reads the settings.
  const driver = {
    poolSize: 10,
    shortTransaction: () => Promise.reject(new Error('unknown function')),
    query: async () => ({ rows: [{ answer: server }], rowCount: 1 }),
  }
  const opening = open(driver as never, statements, registration(systemRuntime))
  await expect(opening).rejects.toThrow(`The server is ${name}`)
})
