import type { Exploration } from './explore.ts'

export interface World {
  readonly name: string
  /** What goes wrong in it; undefined if nothing may. */
  readonly breaks?: string | undefined
  /** Too large for every run of the tests. */
  readonly isLarge?: boolean | undefined
  readonly explore: () => Exploration
}
