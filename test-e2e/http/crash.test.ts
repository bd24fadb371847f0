import { describe, expect, it, test } from 'vitest'
import { diceOf } from '../support/dice.ts'
import { playLater } from './later-scene.ts'
import { laterScenesToPlay, nameOf, sampleOf, scenesToPlay } from './matrix.ts'
import { ROWS } from './rows.ts'
import { play } from './scene.ts'

describe.concurrent('the process of a server dies', () => {
  for (const scene of scenesToPlay()) test(nameOf(scene), () => play(scene))
})

describe.concurrent('the process that has accepted a webhook dies', () => {
  for (const scene of laterScenesToPlay()) {
    test(`${scene.row.title}, on ${scene.framework}`, () => playLater(scene))
  }
})

describe('the scenes that npm test plays', () => {
  it('hold every row once, whatever the seed', () => {
    for (let seed = 1; seed <= 20; seed += 1) {
      expect(sampleOf(diceOf(seed)).map(({ row }) => row)).toEqual(ROWS)
    }
  })
})
