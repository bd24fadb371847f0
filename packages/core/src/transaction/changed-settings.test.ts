import { expect, test } from 'vitest'
import { silent } from '../fixtures/inbox.ts'
import { type Troubles, troubled, troubledBatch } from '../fixtures/troubled.ts'
import { toDelivery } from '../memory/index.ts'
import type { BeginRequest } from '../model/inbox.ts'

const named = (name: string) => toDelivery(name, { messageId: name })
const sizeOf = ({ claim }: BeginRequest) => (claim.kind === 'none' ? 0 : claim.events.length)
const processed = { kind: 'ack', by: 'processed' } as const
const changing: Troubles = { transaction: () => ({ hasChangedSettings: () => true }) }

/** A guard whose handlers change settings of their session. */
function setUp(troubles: Troubles = changing) {
  const informed: unknown[] = []
  const info = (fields: object, message: string): void => void informed.push({ fields, message })
  const logger = { ...silent, info }
  const rig = troubled(() => undefined, troubles, { transaction: 'batch', logger })
  const sizes = (): readonly number[] => rig.asked.begins.map(sizeOf)
  const run = async (...names: readonly string[]): Promise<void> => {
    const settlements = await rig.guard.processBatch(names.map(named))
    expect(settlements).toEqual(names.map(() => processed))
  }
  return { ...rig, informed, run, sizes }
}

test('events whose handler changes settings run apart for 60 seconds, and then share again', async () => {
  const { asked, clock, guard, informed, run, sizes } = setUp()
  await run('a', 'b', 'c')
  // Together until the first handler has changed a setting, and then each alone.
  expect(sizes()).toEqual([3, 1, 1, 1])
  expect(informed).toEqual([
    {
      fields: { consumer: 'billing' },
      message: expect.stringContaining('each event gets a transaction of its own'),
    },
  ])
  asked.begins.length = 0
  clock.advance(59_999)
  await run('d', 'e')
  expect(sizes()).toEqual([1, 1])
  asked.begins.length = 0
  clock.advance(1)
  await run('f', 'g')
  expect(sizes()).toEqual([2, 1, 1])
  asked.begins.length = 0
  await run('h', 'i')
  expect(sizes()).toEqual([1, 1])
  expect(informed).toHaveLength(1)
  await guard.close()
})

test('settings that only the last handler of a transaction changes need no transaction of their own', async () => {
  let asks = 0
  const hasChangedSettings = (): boolean => {
    asks += 1
    return asks > 1
  }
  const { guard, informed, run, sizes } = setUp({ transaction: () => ({ hasChangedSettings }) })
  await run('a', 'b')
  expect(sizes()).toEqual([2])
  expect(informed).toEqual([])
  await guard.close()
})

test('a handler for whole batches may change settings, because no other handler sees them', async () => {
  const { asked, guard } = troubledBatch(() => undefined, changing)
  expect(await guard.processBatch([named('a'), named('b')])).toEqual([processed, processed])
  expect(asked.begins).toHaveLength(1)
  await guard.close()
})
