import { StoreUnavailableError } from '@onceward/core'
import { newEvent } from '@onceward/testing/conformance'
import { expect, test } from 'vitest'
import { scriptedDriver } from '../fixtures/scripted-driver.ts'
import { readDone } from './done-events.ts'

const events = [newEvent(), newEvent(), newEvent(), newEvent()] as const
const [silent, , answered, nothing] = events

// Red when a handler that returned null looks like one that returned nothing: an HTTP client would get another answer.
test('events that are done come in the order they were asked in, with the result they have', async () => {
  const { asked, context } = scriptedDriver([
    [answered.id, '-7', [{ paid: true }], 30],
    [nothing.id, '8', [null], 20],
    [silent.id, '9', null, 10],
  ])
  expect(await readDone(context, events)).toStrictEqual([
    { kind: 'done', fingerprint: 9n, ageMs: 10 },
    undefined,
    { kind: 'done', fingerprint: -7n, ageMs: 30, result: { paid: true } },
    { kind: 'done', fingerprint: 8n, ageMs: 20, result: null },
  ])
  // Without parameters, because it also travels in one text with statements of a claim.
  expect(asked).toHaveLength(1)
  expect(asked[0]).toMatchObject({ by: 'query', values: undefined })
  for (const { id } of events) expect(asked[0]?.text).toContain(id)
})

test('a read that fails says nothing of any event, and its claim reports what is wrong', async () => {
  const { context } = scriptedDriver(new StoreUnavailableError('down'))
  expect(await readDone(context, events)).toEqual([undefined, undefined, undefined, undefined])
})
