import { expect, test } from 'vitest'
import { silent } from '../fixtures/inbox.ts'
import { memoryInbox, toDelivery } from '../memory/index.ts'
import { createGuard } from './guard.ts'

/** What two guards of one consumer say when both have run. */
async function saidBy(one: () => unknown, other: () => unknown, isClosed = false) {
  const said: string[] = []
  const logger = { ...silent, error: (_: object, text: string) => void said.push(text) }
  const inbox = memoryInbox()
  const options = { consumer: 'billing', inbox, logger, eventKey: () => 'a' }
  const guards = [one, other].map((handler) => createGuard(options, async () => void handler()))
  const [first, second] = guards.map((guard, at) =>
    at === 0 ? guard : createGuard(options, other as () => Promise<void>),
  )
  await first?.process(toDelivery({}))
  if (isClosed) await first?.close()
  await second?.process(toDelivery({}))
  await Promise.all(guards.map((guard) => guard.close()))
  await second?.close()
  return said
}

// Red before: nothing was said, and the events of one of them never ran.
test('two guards of one consumer with different handlers are told at start, until one is closed', async () => {
  const other = async (): Promise<void> => undefined
  expect(await saidBy(() => 1, other)).toEqual([expect.stringContaining('different handlers')])
  expect(await saidBy(() => 1, other, true)).toEqual([])
})

test('guards that one factory makes have the same handler', async () => {
  const said: string[] = []
  const logger = { ...silent, error: (_: object, text: string) => void said.push(text) }
  const inbox = memoryInbox()
  const make = (n: number) =>
    createGuard({ consumer: 'billing', inbox, logger, eventKey: () => 'a' }, async () => {
      expect(n).toBeGreaterThan(0)
    })
  const guards = [make(1), make(2)]
  for (const guard of guards) await guard.process(toDelivery({}))
  await Promise.all(guards.map((guard) => guard.close()))
  expect(said).toEqual([])
})
