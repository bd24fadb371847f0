import { expect, test } from 'vitest'
import { answer, type Receiving, receiving } from './fixtures/receiving.ts'

const reset = new Error('read ECONNRESET')

/** How long the receiver pauses after its latest receive has failed. */
async function pauseAfter(kit: Receiving): Promise<number> {
  kit.receives.at(-1)?.fail(reset)
  const { length } = kit.receives
  const beforeMs = kit.clock.nowMs
  await kit.clock.advance(0)
  while (kit.receives.length === length) await kit.clock.advance(1)
  return kit.clock.nowMs - beforeMs
}

test('pauses grow while receives fail, and an answer or a check makes the next one short again', async () => {
  const kit = await receiving().started()
  const [first, second] = [await pauseAfter(kit), await pauseAfter(kit)]
  expect(second).toBeGreaterThan(first)
  await answer(kit)
  expect(await pauseAfter(kit)).toBe(first)
  const checked = receiving()
  checked.world.check = () => Promise.reject(reset)
  await checked.receiver.start()
  await checked.clock.advance(5_000)
  checked.world.check = async () => undefined
  await checked.clock.advance(5_000)
  expect(await pauseAfter(checked)).toBe(first)
})

test('while SQS fails one receive at a time asks whether it is back', async () => {
  const kit = receiving({ batch: { size: 100 } })
  Object.assign(kit.world, { room: 100, capacity: 100 })
  await kit.started()
  await answer(kit, 'a1')
  expect(kit.receives).toHaveLength(3)
  for (const receive of kit.receives.slice(1)) receive.fail(reset)
  await kit.clock.advance(5_000)
  expect(kit.receives).toHaveLength(4)
})
