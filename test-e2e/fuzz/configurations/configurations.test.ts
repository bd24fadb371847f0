// @module-tag nightly

import { skipped } from '@onceward/testing'
import { afterAll, describe, expect, test } from 'vitest'
import { type Cell, cellsOfOne, cellsOfPairs, nameOf, randomCell, sampleOf } from './grid.ts'
import { GRIDS, isPlayable, playCell } from './index.ts'
import { judge } from './judge.ts'
import { pairwise } from './pairwise.ts'
import { Servers } from './servers.ts'
import { DEAD_IDS, type History, ORDERS } from './story.ts'

/** How many cells of a grid run side by side: they mostly wait. */
const WIDTH = 4

describe('the grid', () => {
  test('has every two values of different dimensions in one cell', () => {
    const cells = pairwise([[0, 1, 2], [0, 1], [0, 1, 2, 3], [0]], () => true)
    for (const first of [0, 1, 2]) {
      for (const third of [0, 1, 2, 3]) {
        expect(cells.some((cell) => cell[0] === first && cell[2] === third)).toBe(true)
      }
    }
    expect(cells.length).toBeLessThan(3 * 2 * 4)
  })

  test.each(GRIDS)(
    '$grid.name has each value in a cell of its own and in the sample',
    ({ grid }) => {
      const all = grid.dimensions.flatMap(({ choices }) => choices)
      const valuesOf = (cells: readonly Cell[]) => new Set(cells.flatMap(({ choices }) => choices))
      const whole = valuesOf([...cellsOfOne(grid), ...cellsOfPairs(grid)])
      expect(all.filter((choice) => !whole.has(choice)).map(({ name }) => name)).toEqual([])
      const sample = valuesOf(sampleOf(grid))
      expect(all.filter((choice) => !sample.has(choice)).map(({ name }) => name)).toEqual([])
    },
  )

  test('makes the same cell of the same seed', () => {
    for (const { grid } of GRIDS) {
      expect(nameOf(randomCell(grid, 7))).toBe(nameOf(randomCell(grid, 7)))
    }
  })
})

describe('the judge', () => {
  const good: History = {
    start: 'started',
    reason: '',
    warnings: ['a setting'],
    effects: Object.fromEntries(ORDERS.map(({ id }) => [id, 1])),
    published: DEAD_IDS,
    left: [],
    faults: [],
  }
  const cell: Cell = {
    ...{ grid: 'test', chosen: {}, settings: {}, choices: [{ name: 'a' }] },
    ...{ refusing: [], bypassing: [], warning: [], hasStrays: false },
  }

  test('accepts a history in which all is well', () => {
    expect(judge(cell, good)).toEqual([])
  })

  test.each<[string, Partial<History>]>([
    ['a lost effect', { effects: { ...good.effects, 'plain-0': 0 } }],
    ['a doubled effect', { effects: { ...good.effects, 'plain-0': 2 } }],
    ['an effect of what was never sent', { effects: { ...good.effects, 'aborted-2': 1 } }],
    ['a missing dead letter', { published: ['fatal'] }],
    ['a dead letter of a healthy event', { published: [...DEAD_IDS, 'plain-0'] }],
    ['a row that was left', { left: ['plain-0 r'] }],
    ['a fault that the scenario names', { faults: ['Redis was not used'] }],
    ['a step that did not end', { missed: 'an empty queue' }],
    ['a refusal', { start: 'refused', reason: 'ConfigurationError' }],
  ])('sees %s', (_what, change) => {
    expect(judge(cell, { ...good, ...change })).toHaveLength(1)
  })

  test('sees a start that is not refused, refused without a type, or without the name', () => {
    const refusing = { ...cell, refusing: ['the setting'] }
    const told = (change: Partial<History>): readonly string[] =>
      judge(refusing, { ...good, effects: {}, ...change })
    expect(told({ start: 'refused', reason: 'the setting is wrong' })).toEqual([])
    expect(told({})).toHaveLength(1)
    expect(told({ start: 'failed', reason: 'the setting is wrong' })).toHaveLength(1)
    expect(told({ start: 'refused', reason: 'something is wrong' })).toHaveLength(1)
    const { effects } = good
    expect(told({ start: 'refused', reason: 'the setting is wrong', effects })).toHaveLength(1)
  })

  test('accepts a copy in the dead-letter place only where the server itself puts one there', () => {
    const history = { ...good, published: [...DEAD_IDS, 'plain-0'] }
    expect(judge({ ...cell, hasStrays: true }, history)).toEqual([])
    const lost = { ...history, effects: { ...good.effects, 'plain-0': 0 } }
    expect(judge({ ...cell, hasStrays: true }, lost)).toHaveLength(1)
    expect(judge({ ...cell, hasStrays: true }, { ...good, published: [] })).not.toEqual([])
  })

  test('accepts that a server is not used only where a warning says why', () => {
    const bypassing = { ...cell, bypassing: ['a setting', 'another'] }
    expect(judge(bypassing, good)).toEqual([])
    expect(judge(bypassing, { ...good, warnings: [] })).toHaveLength(1)
    expect(judge({ ...bypassing, refusing: ['a right'] }, good)).toEqual([])
  })

  test('sees a warning that is missing, and a consumer that waits without a reason', () => {
    expect(judge({ ...cell, warning: ['a setting'] }, good)).toEqual([])
    expect(judge({ ...cell, warning: ['another'] }, good)).toHaveLength(1)
    const waiting = { ...cell, choices: [{ name: 'a', waits: 'standby' }] }
    const idle = { ...good, effects: {}, published: [] }
    expect(judge(waiting, { ...idle, reason: 'a standby' })).toEqual([])
    expect(judge(waiting, { ...idle, reason: '' })).toHaveLength(1)
    expect(judge(waiting, { ...good, reason: 'a standby' })).toHaveLength(1)
  })
})

// All cells are played by `npm run fuzz -- configurations`.
describe('a sample of the cells', () => {
  const servers = new Servers()
  afterAll(() => servers[Symbol.asyncDispose]())

  // The grids run side by side too, because the start of their servers is most of the time.
  test.concurrent.each(GRIDS)(
    'of $grid.name work or are refused by name',
    async ({ grid, needs }) => {
      if (needs.some(skipped)) return
      const rest = [...sampleOf(grid)]
      const wrong: string[] = []
      const work = async (): Promise<void> => {
        for (let cell = rest.shift(); cell !== undefined; cell = rest.shift()) {
          const violation = (await isPlayable(cell)) ? await playCell(servers, cell) : undefined
          if (violation !== undefined) wrong.push(violation)
        }
      }
      await Promise.all(Array.from({ length: WIDTH }, work))
      expect(wrong).toEqual([])
    },
    // Hundreds of processes and connections: a machine that is busy besides took ten times as long as a quiet one.
    600_000,
  )
})
