import { expect, test } from 'vitest'
import { seededRandom } from '../fixtures/random.ts'
import { createWaitingLine } from './waiting-line.ts'

test('in random histories the first is who joined first of those that have not left', () => {
  for (let seed = 0; seed < 200; seed += 1) {
    const random = seededRandom(seed)
    const line = createWaitingLine<number>()
    const waiting: { readonly item: number; readonly leave: () => void }[] = []
    const gone: (() => void)[] = []
    for (let step = 0; step < 100; step += 1) {
      const what = random()
      if (what < 0.5) waiting.push({ item: step, leave: line.join(step) })
      else if (what < 0.9) {
        const [left] = waiting.splice(Math.floor(random() * waiting.length), 1)
        left?.leave()
        if (left !== undefined) gone.push(left.leave)
      } else gone[Math.floor(random() * gone.length)]?.()
      expect(line.first(), `seed ${seed}, step ${step}`).toBe(waiting[0]?.item)
    }
  }
})
