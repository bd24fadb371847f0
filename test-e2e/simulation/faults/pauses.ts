import type { Dice } from '../world/dice.ts'

/** Some schedules have pauses. */
export interface PausesPlan {
  /** Of an operator, as faults. Of an even target he gives the end, and the others he resumes. */
  readonly faults: readonly {
    readonly kind: 'pause'
    readonly at: { readonly step: number }
    readonly process: 0
    readonly ms: number
    readonly target: number
  }[]
  /** The event whose handler calls `pauseFor`. */
  readonly handler: { readonly event: number; readonly ms: number } | undefined
}

export function drawPauses(dice: Dice): PausesPlan | undefined {
  if (!dice.chance(0.2)) return undefined
  return {
    faults: Array.from({ length: dice.pick([1, 1, 2, 3]) }, () => ({
      kind: 'pause',
      at: { step: dice.below(120) },
      process: 0,
      ms: dice.pick([4_000, 9_000, 20_000]),
      target: dice.below(4),
    })),
    handler: dice.chance(0.5) ? { event: dice.below(4), ms: dice.pick([1_500, 6_000]) } : undefined,
  }
}
