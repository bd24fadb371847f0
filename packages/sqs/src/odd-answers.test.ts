import { expect, test } from 'vitest'
import { receiving } from './fixtures/receiving.ts'

// Red when the room of a failed receive is given back twice: each answer that cannot be read lets ten more messages in hand.
test('an answer that cannot be read is a failed receive, and leaves the room as it was', async () => {
  const kit = await receiving().started()
  for (let round = 0; round < 5; round++) {
    kit.receives.at(-1)?.answerOddly([undefined])
    await kit.clock.advance(60_000)
    expect(kit.receiver.outage?.reason).toMatch(/^TypeError: /)
  }
  kit.receives.at(-1)?.answer('a1')
  await kit.clock.advance(0)
  expect(kit.receiver.outage).toBeUndefined()
  // With all of the room reserved by one receive, there is no second one beside it.
  kit.world.room = 9
  kit.receives.at(-1)?.answer('a2')
  await kit.clock.advance(0)
  const { length } = kit.receives
  expect(kit.receives.at(-1)?.max).toBe(9)
  await kit.clock.advance(1_000)
  expect(kit.receives).toHaveLength(length)
})

// Red when an answer counts before it is read: the same two lines are logged for each receive, twice a second.
test('answers that cannot be read are logged once, and asked for ever less often', async () => {
  const kit = await receiving().started()
  for (let second = 0; second < 60; second++) {
    kit.receives.at(-1)?.answerOddly([undefined])
    await kit.clock.advance(1_000)
  }
  expect(kit.logged.map(({ text }) => text)).toEqual(['the consumer receives nothing now'])
  expect(kit.receives.length).toBeLessThan(20)
})
