import { setImmediate as turn } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { type Troubles, troubled, troubledBatch } from '../fixtures/troubled.ts'
import { toDelivery } from '../memory/index.ts'
import { portOf } from '../model/guard-port.ts'

const named = (name: string) => toDelivery(name, { messageId: name })
const processed = { kind: 'ack', by: 'processed' } as const
/** The statements of the first transaction fail, so its events run again. */
const conflicting: Troubles = {
  session: () => ({ diagnose: () => 'serialization' }),
  transaction: (_, n) => (n === 1 ? { status: () => 'failed' } : {}),
}

/** A schema that answers asynchronously from the second run on, and only for some messages. */
function validating(isSlow: (text: unknown) => boolean) {
  const gate = Promise.withResolvers<void>()
  const seen = new Map<unknown, number>()
  const validate = (text: unknown) => {
    const times = (seen.get(text) ?? 0) + 1
    seen.set(text, times)
    const answer = { value: { text } }
    return times > 1 && isSlow(text) ? gate.promise.then(() => answer) : answer
  }
  return { gate, schema: { '~standard': { version: 1, vendor: 'test', validate } } as const }
}

test('a handler for one event gets the payload that the schema made again asynchronously', async () => {
  const { gate, schema } = validating(() => true)
  gate.resolve()
  const payloads: unknown[] = []
  const { clock, guard } = troubled(
    ({ payload }, { deadlineAt, signal }) => {
      payloads.push([payload, signal.aborted, deadlineAt instanceof Date])
      if (payloads.length === 1) throw new Error('could not serialize access')
    },
    conflicting,
    { schema },
  )
  expect(await clock.until(guard.process(named('a')))).toEqual(processed)
  expect(payloads).toEqual(Array(2).fill([{ text: 'a' }, false, true]))
  await guard.close()
})

test('a handler for whole batches gets payloads only, if the schema makes some of them asynchronously', async () => {
  const { gate, schema } = validating((text) => text === 'a')
  gate.resolve()
  const payloads: unknown[] = []
  const { clock, guard } = troubledBatch(
    (events) => {
      payloads.push(events.map(({ payload }) => payload))
      if (payloads.length === 1) throw new Error('could not serialize access')
    },
    conflicting,
    { schema },
  )
  const settlements = clock.until(guard.processBatch([named('a'), named('b')]))
  expect(await settlements).toEqual([processed, processed])
  expect(payloads).toEqual(Array(2).fill([{ text: 'a' }, { text: 'b' }]))
  await guard.close()
})

// Red when the handler starts anyway: its transaction has been rolled back.
test.each([
  ['one event', troubled],
  ['whole batches', troubledBatch],
] as const)(
  'a handler for %s does not start if the deadline passes while its payload is made',
  async (_, make) => {
    const { gate, schema } = validating(() => true)
    let runs = 0
    const { clock, guard } = make(
      () => {
        runs += 1
        if (runs === 1) throw new Error('could not serialize access')
      },
      conflicting,
      { schema },
    )
    // The budget of a call may end long before the time that the schema has.
    const [settlement] = await clock.until(portOf(guard).run([named('a')], { budgetMs: 9_000 }))
    expect(settlement).toMatchObject({
      kind: 'defer',
      error: { code: 'ONCEWARD_DEADLINE_EXCEEDED' },
    })
    gate.resolve()
    await turn()
    await turn()
    expect(runs).toBe(1)
    await clock.until(guard.close())
  },
)
