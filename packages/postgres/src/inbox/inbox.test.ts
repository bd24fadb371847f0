import { ConfigurationError } from '@onceward/core'
import { type ConsumerRegistration, systemRuntime } from '@onceward/core/ports'
import { newEvent, registration } from '@onceward/testing/conformance'
import { describe, expect, it } from 'vitest'
import type { Driver } from '../driver/driver.ts'
import { createStatements } from '../statements/index.ts'
import { createInbox, type InboxOptions } from './inbox.ts'
import { SCHEMA_VERSION } from './schema-version.ts'

const MIB = 1024 * 1024
const statements = createStatements()
const SETTINGS = {
  version: String(SCHEMA_VERSION),
  readable_from: String(SCHEMA_VERSION),
  secret: '0a0b',
  encoding: 'UTF8',
  changed_tables: '[]',
}

/** An inbox over a database of which only the answers at the start are known. */
function setUp(over: Partial<Driver<undefined>> = {}, options?: InboxOptions) {
  const clock = { nowMs: 1_000_000 }
  const asked: string[] = []
  const counts = { closed: 0 }
  const answers = new Map<string, Readonly<Record<string, unknown>>>([
    [statements.readSettings, SETTINGS],
    [statements.register, { answer: '{"id":5,"dedupWindowMs":1,"formerRule":null}' }],
  ])
  const query: Driver<undefined>['query'] = async (text) => {
    asked.push(text)
    const answer = answers.get(text)
    const rows = answer === undefined ? [] : [answer]
    return { rows, rowCount: rows.length }
  }
  const driver: Driver<undefined> = {
    ...{ query, durable: query, sendsAtOnce: true, poolSize: undefined },
    shortTransaction: (work) => work({ query }),
    begin: () => Promise.reject(new Error('no transaction')),
    diagnose: () => 'store',
    close: async () => {
      counts.closed += 1
    },
    ...over,
  }
  const seen: ConsumerRegistration[] = []
  const inbox = createInbox((registered) => {
    seen.push(registered)
    return driver
  }, options)
  const runtime = { ...systemRuntime, monotonic: () => clock.nowMs }
  return {
    ...{ clock, asked, answers, counts, inbox, seen },
    times: (text: string) => asked.filter((each) => each === text).length,
    open: () => inbox.open(registration(runtime)),
  }
}

describe('the bound on stored deliveries', () => {
  it.each([2 * MIB, 2 * MIB + 1, 1024 * MIB])('may be %s bytes', (maxStoredBytes) => {
    expect(() => setUp({}, { maxStoredBytes })).not.toThrow()
  })

  it.each([2 * MIB - 1, 1024 * MIB + 1, 3 * MIB + 0.5, Number.NaN, '4194304', null])(
    'may not be %s',
    (maxStoredBytes) => {
      const make = (): unknown => setUp({}, { maxStoredBytes: maxStoredBytes as number })
      expect(make).toThrow(ConfigurationError)
      expect(make).toThrow(
        `an integer from 2097152 to 1073741824, got \`${maxStoredBytes}\`. Units are bytes.`,
      )
    },
  )
})

describe('a session', () => {
  // Red when a shorter window of another guard takes over while this guard runs.
  it('that polls registers again every ten minutes', async () => {
    const { open, clock, times } = setUp()
    const session = await open()
    expect(await session.due(10)).toEqual([])
    clock.nowMs += 599_999
    await session.due(10)
    expect(times(statements.register)).toBe(1)
    for (const registered of [2, 3]) {
      clock.nowMs += registered === 2 ? 1 : 600_000
      await session.due(10)
      await session.due(10)
      expect(times(statements.register)).toBe(registered)
    }
    expect(times(statements.dueEvents)).toBe(6)
  })

  // Red when each of many lanes takes a connection to ask about its events.
  it('shares the reads of its lanes when both spare connections are in use', async () => {
    const gate = Promise.withResolvers<void>()
    const sizes: number[] = []
    const { open } = setUp({
      query: async (text, values = []) => {
        if (text === statements.register) {
          return { rows: [{ answer: '{"id":5,"dedupWindowMs":1}' }], rowCount: 1 }
        }
        sizes.push(String(values[0]).split(',').length)
        await gate.promise
        return { rows: [], rowCount: 0 }
      },
    })
    const session = await open()
    const asked = Array.from({ length: 103 }, () => session.classify([newEvent()]))
    await new Promise((resolve) => setImmediate(resolve))
    expect(sizes).toEqual([1, 1])
    gate.resolve()
    expect((await Promise.all(asked)).flat()).toEqual(asked.map(() => ({ kind: 'absent' })))
    expect(sizes).toEqual([1, 1, 100, 1])
  })
})
