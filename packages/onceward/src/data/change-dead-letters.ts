import type { OperatorReport } from '@onceward/postgres'
import { Failure } from '../failure.ts'

/** Dead letters that were changed, and those that were left as they are. */
export interface Changed {
  readonly done: string[]
  readonly untouched: OperatorReport['untouched'][number][]
}

export interface ChangeOutcome {
  readonly changed: Changed
  /** Why the rest was not tried. */
  readonly failure?: unknown
}

export interface ChangeSteps {
  /** How many ids each `act` gets. */
  readonly size: number
  readonly act: (ids: readonly string[]) => Promise<OperatorReport>
  /** Called after each `act`; false ends the work, and the rest is not tried. */
  readonly goesOn: (count: number) => boolean
}

/** Group by group: what was changed stays so if the work is interrupted. Never throws. */
export async function changeEach(
  ids: readonly string[],
  { act, goesOn, size }: ChangeSteps,
): Promise<ChangeOutcome> {
  const changed: Changed = { done: [], untouched: [] }
  try {
    for (let at = 0; at < ids.length; at += size) {
      const group = ids.slice(at, at + size)
      const report = await act(group)
      changed.done.push(...report.done)
      changed.untouched.push(...report.untouched)
      // A broker that has just kept one waiting would keep the others waiting too.
      if (report.untouched.some(isSilent)) return { changed, failure: unconfirmed(report) }
      if (!goesOn(at + group.length)) break
    }
    return { changed }
  } catch (failure) {
    return { changed, failure }
  }
}

const isSilent = ({ error, why }: Changed['untouched'][number]): boolean =>
  why === 'unconfirmed' && error !== undefined

const unconfirmed = ({ untouched }: OperatorReport): Failure =>
  new Failure(
    `The broker did not confirm the message (${untouched[0]?.error}), so no more were sent. Try again when it answers.`,
  )
