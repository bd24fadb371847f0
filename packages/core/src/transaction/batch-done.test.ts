import { expect, test } from 'vitest'
import { type Troubles, troubled } from '../fixtures/troubled.ts'
import { toDelivery } from '../memory/index.ts'

const named = (name: string) => toDelivery(name, { messageId: name })
const processed = { kind: 'ack', by: 'processed' } as const
const duplicate = { kind: 'ack', by: 'duplicate' } as const

// Red when the claim's answer is ignored: one more statement and one more wait for each duplicate.
test('events that a claim finds done are settled by that answer, and other events are read', async () => {
  const read: unknown[] = []
  const session: Troubles['session'] = (inner) => ({
    classify: (events) => {
      read.push(...events.map(({ delivery }) => delivery.messageId))
      return inner.classify(events)
    },
  })
  const handler = async (event: { readonly payload: unknown }) => {
    if (event.payload === 'later') throw new Error('not yet')
    return 'a result'
  }
  const { guard } = troubled(handler, { session }, { transaction: 'batch' })
  await guard.processBatch([named('done'), named('other')])
  await guard.process(named('later'))
  const other = toDelivery('another payload', { messageId: 'other' })
  expect(await guard.processBatch([named('done'), other, named('later')])).toEqual([
    { ...duplicate, result: 'a result' },
    expect.objectContaining({ kind: 'dead-letter', reason: 'fingerprint-mismatch' }),
    expect.objectContaining({ kind: 'defer', reason: 'not-due' }),
  ])
  expect(read).toEqual(['later'])
  await guard.close()
})

test('an inbox that does not look for done events during a claim is read afterwards', async () => {
  const { guard } = troubled(() => undefined, {
    session: (inner) => ({
      begin: async (request) => {
        const begun = await inner.begin(request)
        return begun.kind === 'none' ? { kind: 'none' } : begun
      },
    }),
  })
  expect([await guard.process(named('a')), await guard.process(named('a'))]).toEqual([
    processed,
    duplicate,
  ])
  await guard.close()
})
