import { diceOf } from '../../support/dice.ts'
import { pairwise } from './pairwise.ts'

/** One value of a dimension, and what onceward does under it. */
export interface Choice<Settings> {
  readonly name: string
  /** What it changes in the settings of the cell. Records of settings are merged. */
  readonly set?: Partial<Settings> | undefined
  /** The start is refused by a `ConfigurationError` that contains these words. */
  readonly refused?: string | undefined
  /** As `refused`, in cells with such settings only. `says` is the condition in words. */
  readonly refusedIf?:
    | {
        when(settings: Settings): boolean
        readonly names: string
        readonly says: string
      }
    | undefined
  /** Nothing is processed, and `health().reason` contains these words until the configuration is another one. */
  readonly waits?: string | undefined
  /**
   * It works without the server that the grid is about, and a warning contains these words. Other settings of this server
   * then show nothing.
   */
  readonly bypassed?: string | undefined
  /** It works, and a warning at the start contains these words. */
  readonly warned?: string | undefined
  /** Cells in which nothing has to be warned of, because another setting helps. */
  unwarned?(settings: Settings): boolean
  /** Cells in which the server itself puts messages into the dead-letter place. `says` is what it puts there. */
  readonly strays?: { when(settings: Settings): boolean; readonly says: string } | undefined
}

export interface Dimension<Settings> {
  readonly name: string
  /** The first one is the default. */
  readonly choices: readonly [Choice<Settings>, ...Choice<Settings>[]]
}

export interface Grid<Settings> {
  readonly name: string
  readonly title: string
  readonly base: Settings
  readonly dimensions: readonly Dimension<Settings>[]
  /** Cells that cannot be made, because the servers themselves do not know such a thing. */
  readonly isImpossible?: ((settings: Settings) => boolean) | undefined
}

/** One configuration: a choice for each dimension. */
export interface Cell<Settings = unknown> {
  readonly grid: string
  /** The choices that are no defaults, by dimension. */
  readonly chosen: Readonly<Record<string, string>>
  readonly settings: Settings
  readonly choices: readonly Choice<Settings>[]
  /** Words of the refusals of which the start must show one. Empty where it must succeed. */
  readonly refusing: readonly string[]
  /** Words of which a warning must contain one, because the server of the grid is not used. */
  readonly bypassing: readonly string[]
  /** Words that warnings at the start must contain. */
  readonly warning: readonly string[]
  /** The server itself puts messages into the dead-letter place. */
  readonly hasStrays: boolean
}

export const nameOf = ({ grid, chosen }: Cell): string =>
  [grid, ...Object.entries(chosen).map(([dimension, choice]) => `${dimension}: ${choice}`)].join(
    ', ',
  )

/** Whether a guard does its work under the choice, with all its servers. */
const isWhole = (choice: Pick<Choice<never>, 'refused' | 'waits' | 'bypassed'>): boolean =>
  isWorking(choice) && choice.bypassed === undefined

/** Whether a guard does its work under the choice. */
export const isWorking = ({ refused, waits }: Pick<Choice<never>, 'refused' | 'waits'>): boolean =>
  refused === undefined && waits === undefined

/** A choice for each dimension, by its position. */
type Positions = readonly number[]

function cellAt<Settings>(grid: Grid<Settings>, positions: Positions): Cell<Settings> {
  const choices = grid.dimensions.map(
    ({ choices }, at) => choices[positions[at] ?? 0] ?? choices[0],
  )
  const chosen = grid.dimensions.flatMap(({ name }, at) => {
    const choice = choices[at]
    return choice === undefined || positions[at] === 0 ? [] : [[name, choice.name] as const]
  })
  const settings = choices.reduce((sum, { set = {} }) => merged(sum, set), grid.base)
  const refusing = choices.flatMap(({ refused, refusedIf }) => [
    ...(refused === undefined ? [] : [refused]),
    ...(refusedIf?.when(settings) ? [refusedIf.names] : []),
  ])
  const bypassing = choices.flatMap(({ bypassed }) => bypassed ?? [])
  const warning = choices.flatMap((choice) =>
    choice.warned === undefined || choice.unwarned?.(settings) === true ? [] : [choice.warned],
  )
  return {
    grid: grid.name,
    chosen: Object.fromEntries(chosen),
    settings,
    choices,
    refusing,
    bypassing,
    warning: bypassing.length > 0 ? [] : warning,
    hasStrays: choices.some(({ strays }) => strays?.when(settings) === true),
  }
}

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

function merged<Settings>(settings: Settings, change: Partial<Settings>): Settings {
  const changes = Object.entries(change).map(([name, value]) => {
    const before: unknown = Reflect.get(Object(settings), name)
    return [name, isRecord(before) && isRecord(value) ? { ...before, ...value } : value]
  })
  return { ...settings, ...Object.fromEntries(changes) }
}

const isPossible = <Settings>(grid: Grid<Settings>, positions: Positions): boolean =>
  grid.isImpossible?.(cellAt(grid, positions).settings) !== true

/** Each choice alone, so that a broken cell shows which one it is. The first cell has defaults only. */
export function cellsOfOne<Settings>(grid: Grid<Settings>): readonly Cell<Settings>[] {
  const defaults = grid.dimensions.map(() => 0)
  const single = grid.dimensions.flatMap(({ choices }, at) =>
    choices.slice(1).map((_, index) => defaults.with(at, index + 1)),
  )
  return [defaults, ...single]
    .filter((positions) => isPossible(grid, positions))
    .map((positions) => cellAt(grid, positions))
}

/**
 * Every two choices of different dimensions in one cell at least. Choices under which nothing is processed, or without
 * the server of the grid, are left out: a cell with one of them would show nothing about the others.
 */
export function cellsOfPairs<Settings>(grid: Grid<Settings>): readonly Cell<Settings>[] {
  const working = grid.dimensions.map(({ choices }) =>
    choices.flatMap((choice, at) => (isWhole(choice) ? [at] : [])),
  )
  const cells = pairwise(
    working,
    (positions) => isPossible(grid, positions) && cellAt(grid, positions).refusing.length === 0,
  )
  return cells.map((positions) => cellAt(grid, positions))
}

/** A few cells that together have every value: those that are refused, and enough of the others. */
export function sampleOf<Settings>(grid: Grid<Settings>): readonly Cell<Settings>[] {
  const singles = cellsOfOne(grid)
  const idle = singles.filter(
    ({ refusing, choices }) => refusing.length > 0 || !choices.every(isWhole),
  )
  const seen = new Set<Choice<Settings>>()
  const news = ({ choices }: Cell<Settings>): number =>
    choices.filter((choice) => !seen.has(choice)).length
  const working: Cell<Settings>[] = []
  const left = [...cellsOfPairs(grid)]
  for (;;) {
    const best = left.reduce(
      (most, each) => (news(each) > news(most) ? each : most),
      left[0] as Cell<Settings>,
    )
    if (left.length === 0 || news(best) === 0) return [...idle, ...working]
    for (const choice of best.choices) seen.add(choice)
    working.push(best)
  }
}

/** Any combination, also of choices that are refused. */
export function randomCell<Settings>(grid: Grid<Settings>, seed: number): Cell<Settings> {
  const dice = diceOf(seed)
  for (;;) {
    // Mostly defaults would show little, and many refused choices would hide the rest.
    const positions = grid.dimensions.map(({ choices }) => {
      const at = Math.floor(dice.next() * choices.length)
      const choice = choices[at]
      return choice !== undefined && !isWhole(choice) && dice.next() < 0.7 ? 0 : at
    })
    if (isPossible(grid, positions)) return cellAt(grid, positions)
  }
}
