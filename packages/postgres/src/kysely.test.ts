import { ConfigurationError } from '@onceward/core'

import { fresh, newEvent, registration } from '@onceward/testing/conformance'
import { describe, expect, it, vi } from 'vitest'
import { TABLE_ANSWERS } from './fixtures/claim-server.ts'
import { kyselyOnOther, kyselyOnPg } from './fixtures/kysely.ts'
import { kyselyInbox } from './kysely.ts'

describe('the size of the pool below Kysely', () => {
  const { db } = kyselyOnPg()

  it.each([0, -1, 1.5, Number.NaN, '8'])('is refused where it is %s', (poolSize) => {
    expect(() => kyselyInbox(db, { poolSize: poolSize as number })).toThrow(
      new ConfigurationError(
        `Expected \`poolSize\` to be a positive integer, got \`${String(poolSize)}\`.`,
      ),
    )
  })

  it.each([1, 8, undefined])('may be %s', (poolSize) => {
    expect(() => kyselyInbox(db, { poolSize })).not.toThrow()
  })
})

describe('a client with one connection, as PGlite', () => {
  const single = () =>
    kyselyOnOther(
      (text) => {
        const found = Object.keys(TABLE_ANSWERS).find((words) => text.includes(words))
        return found === undefined ? undefined : { rows: [TABLE_ANSWERS[found]] }
      },
      { isSingle: true },
    )

  it('gets one statement in a text, and one transaction at a time', async () => {
    const { db, sent, clock } = single()
    // The size that the user gives is that of another pool.
    const inbox = kyselyInbox(db, { poolSize: 8 })
    const session = await inbox.open(registration(clock.runtime, { concurrency: 7 }))
    expect(session.concurrency).toBe(7)
    const begun = await session.begin(fresh(newEvent()))
    expect(begun.kind).toBe('open')
    expect(sent.filter((text) => /;/.test(text))).toEqual([])
    const refused = vi.fn()
    session.begin({ ...fresh(newEvent()), budgetMs: 200 }).catch(refused)
    await clock.advance(200)
    expect(String(refused.mock.calls[0]?.[0])).toContain('None of the 1 connections')
  })
})
