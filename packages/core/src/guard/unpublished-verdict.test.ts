import { expect, test } from 'vitest'
import { silent } from '../fixtures/inbox.ts'
import { memoryInbox, memoryLeases, toDelivery } from '../memory/index.ts'
import type { DeadLetter, Publish } from '../model/dead-letter.ts'
import type { Delivery } from '../model/delivery.ts'
import { FatalError } from '../model/errors.ts'
import { portOf } from '../model/guard-port.ts'
import type { OutcomeRecord } from '../options/options.ts'
import { createGuard } from './guard.ts'

/** A guard whose handler always fails, and a dead-letter place that fails until it is told not to. */
function setUp(store: 'inbox' | 'leases') {
  const kit = { runs: 0, isDown: true, letters: 0, records: [] as OutcomeRecord[] }
  const common = {
    consumer: 'billing',
    onMissingKey: 'unguarded',
    eventKey: () => undefined,
    logger: silent,
    observe: (record: OutcomeRecord) => void kit.records.push(record),
  } as const
  const handler = (): void => {
    kit.runs += 1
    throw new FatalError('no such order')
  }
  const guard =
    store === 'inbox'
      ? createGuard({ ...common, inbox: memoryInbox() }, handler)
      : createGuard({ ...common, leases: memoryLeases(), onTakeover: 'retry' }, handler)
  const publish: Publish = async () => {
    if (kit.isDown) throw new Error('not authorised')
    kit.letters += 1
  }
  const settle = async (delivery: Delivery): Promise<string> => {
    const settlement = await guard.process(delivery)
    expect(settlement).toMatchObject({ kind: 'dead-letter', reason: 'fatal' })
    return (await portOf(guard).publishDeadLetter(settlement, publish)).kind
  }
  return { kit, guard, settle }
}

const source = { broker: 'sqs', queue: 'orders', position: 'm-1' }
const MESSAGES = [
  ['received again', () => toDelivery(1, { headers: {}, source, raw: {} })],
  ['kept in hand', (raw: object) => toDelivery(1, { headers: {}, raw })],
] as const

// Red when the verdict is lost: each try to publish the dead letter runs the handler, with its effects outside of Postgres.
for (const store of ['inbox', 'leases'] as const) {
  test.each(MESSAGES)(
    `with ${store}, a message without a key that is %s runs no second time because its dead letter could not be published`,
    async (_, message) => {
      const { kit, guard, settle } = setUp(store)
      const raw = {}
      for (let turn = 0; turn < 3; turn += 1) expect(await settle(message(raw))).toBe('retry')
      expect(kit.runs).toBe(1)
      expect(kit.records.map(({ repeated }) => repeated ?? false)).toEqual([false, true, true])
      kit.isDown = false
      // The place is left alone for a moment after it failed.
      const untilMs = Date.now() + 10_000
      while ((await settle(message(raw))) === 'retry') expect(Date.now()).toBeLessThan(untilMs)
      expect([kit.runs, kit.letters]).toEqual([1, 1])

      // It comes again although its dead letter is published: somebody wants it to run again.
      await settle(message(raw))
      expect(kit.runs).toBe(2)
      await guard.close()
    },
  )
}

test('another message without a key runs, also if it is equal', async () => {
  const { kit, guard, settle } = setUp('leases')
  await settle(MESSAGES[1][1]({}))
  await settle(MESSAGES[1][1]({}))
  expect(kit.runs).toBe(2)
  await guard.close()
})

// Red when the letter has the attempts of the row: `refused_messages` counts none, because most of its messages never ran.
for (const store of ['inbox', 'leases'] as const) {
  test(`with ${store}, the dead letter of a message without a key says which delivery of it failed last`, async () => {
    const { guard } = setUp(store)
    const letters: DeadLetter[] = []
    const settlement = await guard.process(toDelivery(1, { headers: {}, deliveryCount: 3 }))
    await portOf(guard).publishDeadLetter(settlement, async (letter) => void letters.push(letter))
    expect(letters).toMatchObject([{ attempts: 3, reason: 'fatal' }])
    await guard.close()
  })
}
