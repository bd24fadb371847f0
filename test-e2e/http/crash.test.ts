import { describe, expect, it, test } from 'vitest'
import { diceOf } from '../support/dice.ts'
import { playLater } from './later-scene.ts'
import { everyScene, laterScenesToPlay, nameOf, sampleOf, scenesToPlay } from './matrix.ts'
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
  it('are five of different rows, whatever the seed', () => {
    for (let seed = 1; seed <= 20; seed += 1) {
      expect(new Set(sampleOf(diceOf(seed)).map(({ row }) => row)).size).toBe(5)
    }
  })

  it('are all scenes in time', () => {
    const left = new Set(everyScene().map(nameOf))
    for (let seed = 1; seed <= 3_000; seed += 1) {
      for (const scene of sampleOf(diceOf(seed * 7_919))) left.delete(nameOf(scene))
    }
    expect([...left]).toEqual([])
  })
})
