import { describe, expect, it, test } from 'vitest'
import { diceOf } from '../support/dice.ts'
import { nameOf, sampleOf, scenesToPlay } from './matrix.ts'
import { ROWS } from './rows.ts'
import { play } from './scene.ts'

describe.concurrent('the process of a server dies', () => {
  for (const scene of scenesToPlay()) test(nameOf(scene), () => play(scene))
})

describe('the scenes that npm test plays', () => {
  it('hold every row once, whatever the seed', () => {
    for (let seed = 1; seed <= 20; seed += 1) {
      expect(sampleOf(diceOf(seed)).map(({ row }) => row)).toEqual(ROWS)
    }
  })
})
