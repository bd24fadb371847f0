import { expect, test } from 'vitest'
import { troubled } from '../fixtures/troubled.ts'
import { toDelivery } from '../memory/index.ts'

const named = (name: string) => toDelivery(name, { messageId: name })
const suspect = (name: string) => ({ ...named(name), redelivered: true })
const processed = { kind: 'ack', by: 'processed' } as const
const batch = { transaction: 'batch' } as const

// Red when the suspect joins the transaction of the new event: a message that kills its process would never be counted.
test('a suspect behind a new event is counted before its run', async () => {
  const { asked, guard } = troubled(() => undefined, {}, batch)
  expect(await guard.processBatch([named('a'), suspect('b')])).toEqual([processed, processed])
  expect(asked.begins.map(({ claim }) => claim.kind)).toEqual(['fresh', 'counted'])
  await guard.close()
})

test('events that run on after their lane-mate stopped keep their counted attempt', async () => {
  const { asked, guard } = troubled(
    ({ payload }) => {
      if (payload === 'a1') throw new Error('not now')
    },
    {},
    batch,
  )
  const inLane = (name: string) => ({ ...suspect(name), orderingKey: name.slice(0, 1) })
  expect(await guard.processBatch(['a1', 'b1', 'a2'].map(inLane))).toMatchObject([
    { kind: 'defer', reason: 'failed' },
    processed,
    { kind: 'defer' },
  ])
  const released = asked.releases.map(({ event }) => event.delivery.messageId)
  expect(released).toEqual(['a2'])
  await guard.close()
})
