import { expect, test } from 'vitest'
import { setUp } from '../fixtures/guard.ts'
import { toDelivery } from '../memory/index.ts'

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
