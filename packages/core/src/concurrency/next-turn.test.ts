import { expect, test } from 'vitest'
import { nextTurn, onNextTurn } from './next-turn.ts'

test('the next turn begins when all microtasks have run', async () => {
  const order: string[] = []
  const turn = nextTurn().then(() => order.push('turn'))
  const called = new Promise<void>((resolve) => {
    onNextTurn(() => {
      order.push('callback')
      resolve()
    })
  })
  for (let index = 0; index < 5; index += 1) await undefined
  order.push('microtasks')
  await Promise.all([turn, called])
  expect(order).toEqual(['microtasks', 'turn', 'callback'])
})
