import { expect, test } from 'vitest'
import { setUp } from '../fixtures/guard.ts'
import { newEvent, silent } from '../fixtures/inbox.ts'
import { toDelivery } from '../memory/index.ts'
import { InvalidPayloadError } from '../model/errors.ts'
import type { ResolvedOptions } from '../options/resolved-options.ts'
import { eventFor, type PendingEvent } from '../transaction/pending-event.ts'
import { Deferring } from './deferral.ts'
import { type ContextParts, contextFor, watchTx } from './handler-context.ts'

/** V8 makes the class of an object with a getter of its own anew for every event, which costs some 2 µs. */
const gettersOf = (context: object): readonly string[] =>
  Object.entries(Object.getOwnPropertyDescriptors(context))
    .filter(([, { get }]) => get !== undefined)
    .map(([name]) => name)

// Red when the context of every event notices whether its handler reads `tx`.
test('once a handler has read tx, contexts have no getters of their own', async () => {
  const getters: (readonly string[])[] = []
  const { guard } = setUp((_event, context) => {
    getters.push(gettersOf(context))
    expect(context.tx).toBeUndefined()
  })
  for (let event = 0; event < 3; event += 1) await guard.process(toDelivery({ event }))
  expect(getters).toEqual([['tx'], [], []])
  await guard.close()
})

/** The fields of a line that a handler logs in a run with these parts. */
function loggedBy(parts: Pick<ContextParts<undefined>, 'event'>): object | undefined {
  let logged: object | undefined
  const info = (fields: object): void => {
    logged = fields
  }
  const handlerLogger = { ...silent, info }
  const options = { consumer: 'billing', handlerLogger } as unknown as ResolvedOptions
  const deferring = new Deferring(options, () => false)
  const run = {
    deferring: () => deferring,
    tx: undefined,
    aborting: new AbortController(),
    deadlineAt: new Date(0),
  }
  contextFor(options, { ...run, ...parts }).logger.info({ own: 1 }, 'a line')
  return logged
}

test('lines of a handler name its consumer and its event, which has no id without a key', () => {
  const event = { attempt: 2, idempotencyKey: 'an-id', key: 'a-key' }
  const common = { consumer: 'billing', own: 1 }
  expect(loggedBy({ event })).toEqual({ ...common, eventId: 'an-id', attempt: 2 })
  const keyless = loggedBy({ event: { ...event, key: '' } })
  expect(keyless).toStrictEqual({ ...common, attempt: 2 })
  expect(loggedBy({})).toStrictEqual(common)
})

/** The payloads of two runs of an event, whose body is decoded to the number of the time. */
async function payloadsOf(refusal?: InvalidPayloadError): Promise<readonly unknown[]> {
  let decoded = 0
  const decodeAgain = async (): Promise<number> => {
    decoded += 1
    return decoded
  }
  const member = {
    index: 0,
    event: newEvent(),
    payload: 'of step 1',
    lane: undefined,
    suspect: false,
  }
  const pending = { member: { ...member, refusal }, runs: 0 } as unknown as PendingEvent
  const runs: unknown[] = []
  for (let run = 0; run < 3; run += 1) {
    const { attempt, payload } = await eventFor({ decodeAgain }, pending, 1)
    expect(attempt).toBe(1)
    runs.push(payload)
  }
  return runs
}

test('each run after the first gets a payload of its own, unless the message is refused', async () => {
  expect(await payloadsOf()).toEqual(['of step 1', 1, 2])
  const refusal = new InvalidPayloadError('no')
  expect(await payloadsOf(refusal)).toEqual(['of step 1', 'of step 1', 'of step 1'])
})

/** Watches, and what it has reported. */
function watched() {
  const reports: unknown[] = []
  const reportOnce = (_level: string, fields: object, text: string): void =>
    void reports.push(fields, text)
  const watch = watchTx({ consumer: 'billing', reportOnce } as unknown as ResolvedOptions)
  const committed = (events: number, transaction: object, hasMessages = false): void => {
    const tx = {}
    if (watch.isWatching)
      watch.committed(events, { transaction: { tx, ...transaction }, hasMessages })
  }
  return { watch, committed, reports }
}

test('a handler that used no tx in ten events is reported, but not one that has none', () => {
  const { committed, reports, watch } = watched()
  committed(20, { tx: undefined })
  committed(20, { isAmbient: true })
  committed(9, {})
  expect(reports).toEqual([])
  expect(watch.onTx).toBeTypeOf('function')
  committed(1, {})
  const fields = { consumer: 'billing', events: 10 }
  expect(reports).toEqual([fields, expect.stringContaining('never used tx')])
  expect(watch).toMatchObject({ onTx: undefined, isWatching: false })
})

// Red before: a helper that nobody awaits sends its statements after every commit.
test('ten events in a row that were committed without a statement are reported once', () => {
  const { committed, reports, watch } = watched()
  const silent = { hasSent: () => false }
  watch.onTx?.()
  committed(9, silent)
  for (const other of [{ hasSent: () => true }, { hasSent: () => undefined }, {}]) {
    committed(1, other)
    committed(9, silent)
  }
  // What it sends is an effect.
  committed(1, silent, true)
  committed(9, silent)
  expect(reports).toEqual([])
  committed(1, silent)
  committed(20, silent)
  const fields = { consumer: 'billing', events: 10 }
  expect(reports).toEqual([fields, expect.stringContaining('without any statement')])
})
