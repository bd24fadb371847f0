import { describe, expect, it, test } from 'vitest'
import { diceOf } from '../support/dice.ts'
import { playLater } from './later-scenario.ts'
import { everyScenario, laterScenariosToPlay, nameOf, sampleOf, scenariosToPlay } from './matrix.ts'
import { play } from './scenario.ts'

describe.concurrent('the process of a server dies', () => {
  for (const scenario of scenariosToPlay()) test(nameOf(scenario), () => play(scenario))
})

describe.concurrent('the process that has accepted a webhook dies', () => {
  for (const scenario of laterScenariosToPlay()) {
    test(`${scenario.row.title}, on ${scenario.framework}`, () => playLater(scenario))
  }
})

describe('the scenarios that npm test plays', () => {
  it('are five of different rows, whatever the seed', () => {
    for (let seed = 1; seed <= 20; seed += 1) {
      expect(new Set(sampleOf(diceOf(seed)).map(({ row }) => row)).size).toBe(5)
    }
  })

  it('are all scenarios in time', () => {
    const left = new Set(everyScenario().map(nameOf))
    for (let seed = 1; seed <= 3_000; seed += 1) {
      for (const scenario of sampleOf(diceOf(seed * 7_919))) left.delete(nameOf(scenario))
    }
    expect([...left]).toEqual([])
  })
})
