import type { EpochMs } from '@onceward/core'
import { type Runtime, systemRuntime } from '@onceward/core/ports'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type TestInbox, testInbox } from '../fixtures/inbox.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const WINDOW_MS = 15 * DAY_MS

/** A runtime whose clocks are off. The server cannot be set, so the process is. */
function offBy() {
  const off = { wallMs: 0, monotonicMs: 0 }
  const runtime: Runtime = {
    ...systemRuntime,
    now: () => (systemRuntime.now() + off.wallMs) as EpochMs,
    monotonic: () => systemRuntime.monotonic() + off.monotonicMs,
  }
  return { off, runtime }
}

describe('the sweep on real tables', () => {
  let inbox: TestInbox
  let errors: { readonly fields: Record<string, unknown>; readonly message: string | undefined }[]

  const guard = (runtime: Runtime) => {
    const note = (fields: object, message?: string): void => {
      errors.push({ fields: fields as Record<string, unknown>, message })
    }
    const quiet = (): void => undefined
    const logger = { error: note, warn: quiet, info: quiet, debug: quiet }
    return inbox.open({ runtime, logger })
  }

  /** A row that a right clock calls old. */
  const insertOld = () =>
    inbox.pool.query(
      `insert into onceward.processed_events (event_id, fingerprint, consumer_id, processed_at)
       select gen_random_uuid(), 1, id, now() - interval '16 days' from onceward.consumers`,
    )

  beforeEach(async () => {
    errors = []
    inbox = await testInbox({ dedupWindowMs: WINDOW_MS })
    await insertOld()
  })
  afterEach(() => inbox[Symbol.asyncDispose]())

  const NOTHING = { deleted: 0, finished: true }
  const settings = (text: string) => inbox.pool.query(`update onceward.settings set ${text}`)

  // Red when the server's clock alone decides.
  it.each([-1, 1])(
    'deletes nothing while the clocks of the server and the process differ: %i day',
    async (days) => {
      const { off, runtime } = offBy()
      const session = await guard(runtime)
      off.wallMs = days * DAY_MS
      expect(await session.sweep()).toEqual(NOTHING)
      expect(errors).toMatchObject([
        {
          fields: {
            doubt: expect.stringContaining('of this process'),
            confirm: 'select "onceward".trust_clock()',
          },
          message: expect.stringContaining('set the clocks right'),
        },
      ])
      // It goes on when they agree again, and another guard has never stopped.
      off.wallMs = 0
      expect(await session.sweep()).toEqual({ deleted: 1, finished: true })
      expect(errors).toHaveLength(1)
    },
  )

  it('deletes nothing after the server was set forward between two steps, until an operator confirms', async () => {
    const [first, second] = [offBy(), offBy()]
    const sessions = [await guard(first.runtime), await guard(second.runtime)] as const
    for (const session of sessions) await session.sweep()
    await insertOld()
    // As seen from the process: less time has passed than the server says.
    for (const { off } of [first, second]) off.monotonicMs = -2 * HOUR_MS
    for (const session of sessions) expect(await session.sweep()).toEqual(NOTHING)
    expect(errors).toHaveLength(2)
    await inbox.pool.query(String(errors[0]?.fields['confirm']))
    // Once is enough for all guards.
    expect(await sessions[0].sweep()).toEqual({ deleted: 1, finished: true })
    for (const session of sessions) expect(await session.sweep()).toEqual(NOTHING)
    expect(errors).toHaveLength(2)
  })

  it.each([
    { swept: "now() + interval '2 hours'", why: 'is behind' },
    { swept: "now() - interval '8 days'", why: 'no sweep has run for long' },
  ])('of a guard that starts after the clock was set deletes nothing: $why', async (found) => {
    const session = await guard(offBy().runtime)
    await settings(`swept_at = ${found.swept}`)
    expect(await session.sweep()).toEqual(NOTHING)
    expect(errors).toMatchObject([{ fields: { doubt: expect.stringContaining(found.why) } }])
    await inbox.pool.query('select onceward.trust_clock()')
    expect(await session.sweep()).toEqual({ deleted: 1, finished: true })
  })

  it('goes on after a pause that is short for its windows, and a time is never moved back', async () => {
    const session = await guard(offBy().runtime)
    await settings("swept_at = now() - interval '7 days'")
    expect(await session.sweep()).toEqual({ deleted: 1, finished: true })
    await settings("swept_at = now() + interval '59 minutes'")
    await session.sweep()
    const { rows } = await inbox.pool.query(
      'select swept_at > now() as kept from onceward.settings',
    )
    expect(rows).toEqual([{ kept: true }])
    expect(errors).toEqual([])
  })
})
