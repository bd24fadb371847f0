import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { BROKER_NAMES, BROKERS, DEFAULT_BROKER } from '../brokers/index.ts'
import { diceOf, seedOf } from '../support/dice.ts'
import { ORM_NAMES } from '../support/workers/orm-inboxes.ts'
import { NEST_KINDS } from '../support/workers/protocol.ts'
import {
  everyScenario,
  nameOf,
  nestScenarios,
  ormScenarios,
  sampleOf,
  withNest,
  withOrms,
} from './matrix.ts'
import { ROWS } from './rows.ts'

describe.each(BROKER_NAMES)('the scenarios of %s that npm test plays', (broker) => {
  const namesOf = (seed: number): readonly string[] => sampleOf(broker, diceOf(seed)).map(nameOf)

  it('are three of different rows, whatever the seed', () => {
    for (let seed = 1; seed <= 50; seed += 1) {
      expect(new Set(sampleOf(broker, diceOf(seed)).map(({ row }) => row)).size).toBe(3)
    }
  })

  it('turn with the commit, and one seed repeats them', () => {
    const commits = ['24e4f6e09adc', '5c69a33b1f00', '7131bddf6e21'].map((commit) => seedOf(commit))
    const played = commits.map((seed) => namesOf(seed).join())
    expect(new Set(played).size).toBe(commits.length)
    expect(commits.map((seed) => namesOf(seed).join())).toEqual(played)
  })

  it('are all scenarios in time', () => {
    const left = new Set(everyScenario(broker).map(nameOf))
    for (let commit = 1; commit <= 3_000; commit += 1) {
      for (const name of namesOf(seedOf((commit * 0x9e37_79b1).toString(16)))) left.delete(name)
    }
    expect([...left]).toEqual([])
  })
})

it('docs/proof.md has the size of the matrix of each broker', () => {
  const sizes = BROKER_NAMES.map((name) => `${BROKERS[name].title} ${everyScenario(name).length}`)
  const page = readFileSync(new URL('../../docs/proof.md', import.meta.url), 'utf8')
  expect(page).toContain(`${sizes.join(', ')} scenarios`)
})

describe('the scenarios in which handlers write in the transaction of an ORM', () => {
  const every = everyScenario(DEFAULT_BROKER)

  it('are two of those that npm test plays, with all ORMs in time', () => {
    const seen = new Set<string>()
    for (let seed = 1; seed <= 100; seed += 1) {
      const dice = diceOf(seed)
      const drawn = sampleOf(DEFAULT_BROKER, dice)
      const played = withOrms(drawn, dice)
      const orms = played.flatMap(({ orm }) => orm ?? [])
      expect(new Set(orms).size).toBe(2)
      expect(played.map(({ row }) => row)).toEqual(drawn.map(({ row }) => row))
      for (const orm of orms) seen.add(orm)
    }
    expect(seen).toEqual(new Set(ORM_NAMES))
  })

  it('are every row with each ORM in the night', () => {
    const rows = ROWS.filter((row) => every.some((scenario) => scenario.row === row))
    const played = ormScenarios(every, diceOf(1)).map(({ orm, row }) => ({ orm, row }))
    expect(played).toEqual(ORM_NAMES.flatMap((orm) => rows.map((row) => ({ orm, row }))))
  })
})

describe('the scenarios whose workers are services of NestJS', () => {
  it('are one of all those that npm test plays, on each broker and of each kind in time', () => {
    const seen = new Set<string>()
    for (let seed = 1; seed <= 100; seed += 1) {
      const played = BROKER_NAMES.flatMap((name) => withNest(sampleOf(name, diceOf(seed)), seed))
      const services = played.filter(({ nest }) => nest !== undefined)
      expect(services).toHaveLength(1)
      for (const { broker, nest } of services) seen.add(`${nest} on ${broker}`)
    }
    expect(seen.size).toBe(BROKER_NAMES.length * NEST_KINDS.length)
  })

  it('are every row of each broker in the night', () => {
    const every = everyScenario(DEFAULT_BROKER)
    const played = nestScenarios(every, diceOf(1))
    expect(new Set(played.map(({ row }) => row))).toEqual(new Set(every.map(({ row }) => row)))
    expect(new Set(played.map(({ nest }) => nest))).toEqual(new Set(NEST_KINDS))
  })
})
