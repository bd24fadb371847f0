// @module-tag nightly

import { describe, expect, test } from 'vitest'
import { ManualBroker } from '../../support/manual-broker.ts'
import { Testbed } from '../../support/testbed.ts'
import type { Order } from '../../support/workers/protocol.ts'

const POISON = 'order-poison'
const ATTEMPTS = 3
const PLACES = { first: 0, 'in the middle': 50, last: 99 } as const
type Place = keyof typeof PLACES

/*
 * One event of a hundred kills every process that runs it. Red when events that were left without a verdict are
 * claimed in company again (all hundred end dead), and when attempts are counted inside the business transaction
 * (the poison never ends: trap T13).
 */
describe.concurrent.each(['each', 'batch'] as const)("transaction '%s'", (transaction) => {
  test.each(Object.keys(PLACES) as Place[])(
    'only the poison message dies when it stands %s',
    async (place) => {
      await using testbed = await Testbed.open({ worker: { transaction, attempts: ATTEMPTS } })
      const orders = hundred(place)
      const broker = new ManualBroker(testbed, orders)

      const deaths = await broker.run()

      // The first run was a clean first delivery, for which nothing is written.
      expect(deaths).toBe(ATTEMPTS + 1)
      expect(broker.dead).toEqual([POISON])
      expect(await testbed.troubles()).toEqual([
        { id: POISON, state: 'x', attempt: ATTEMPTS, reason: 'attempts-spent', published: false },
      ])
      const innocent = orders.filter(({ id }) => id !== POISON)
      expect(await testbed.effects()).toEqual(Object.fromEntries(innocent.map(({ id }) => [id, 1])))
      const counts = (await testbed.runs()).filter(({ id }) => id !== POISON)
      expect(Math.max(...counts.map(({ attempt }) => attempt))).toBeLessThanOrEqual(2)
    },
  )
})

function hundred(place: Place): readonly Order[] {
  return Array.from({ length: 100 }, (_, index): Order => {
    return index === PLACES[place] ? { id: POISON, deed: 'poison' } : { id: `order-${index}` }
  })
}
