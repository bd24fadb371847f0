import { expect, test } from 'vitest'
import { Recovery } from './recovery.ts'

function recorded() {
  const said: [string, object][] = []
  const say = (fields: object, text: string): void => void said.push([text, fields])
  const logger = { debug: say, info: say, warn: say, error: say }
  return { said, setbacks: new Recovery(logger, { queue: 'orders' }) }
}

test('is logged when it begins, when it changes and when it is over, not at each try', () => {
  const { said, setbacks } = recorded()
  const refused = { state: 'recovering', reason: 'refused' } as const
  const down = { state: 'paused', reason: 'the store is down' } as const
  for (const setback of [refused, { ...refused }, down]) setbacks.begin(setback)
  expect(setbacks.current).toBe(down)
  expect(setbacks.end()).toBe(down)
  expect(setbacks.current).toBeUndefined()
  expect(said).toEqual([
    ['consuming nothing now', { queue: 'orders', ...refused }],
    ['consuming nothing now', { queue: 'orders', ...down }],
    ['consuming again', { queue: 'orders' }],
  ])
})

test('says nothing of an end without a beginning', () => {
  const { said, setbacks } = recorded()
  expect(setbacks.end()).toBeUndefined()
  expect(said).toEqual([])
})
