import { type Cell, isWorking, nameOf } from './grid.ts'
import { DEAD_IDS, type History, ORDERS } from './story.ts'

/** Everything in which the cell and what happened in it differ. */
export function judge(cell: Cell, history: History): readonly string[] {
  const waiting = cell.choices.flatMap(({ waits }) => waits ?? [])
  // A guard that waits for its server, or works without it, has not seen yet what it would refuse.
  const isUnseen = waiting.length + cell.bypassing.length > 0 && history.start === 'started'
  if (cell.refusing.length > 0 && !isUnseen) return judgeRefusal(cell.refusing, history)
  if (history.start !== 'started') return [`the start was not expected to fail: ${history.reason}`]
  const wrong = waiting.length > 0 ? judgeWaiting(waiting, history) : judgeWork(cell, history)
  const isSaid = (words: string): boolean =>
    history.warnings.some((warning) => warning.includes(words))
  const unsaid = cell.warning.filter((words) => !isSaid(words))
  const { bypassing } = cell
  if (bypassing.length > 0 && !bypassing.some(isSaid)) unsaid.push(bypassing.join('" or "'))
  return [...wrong, ...unsaid.map((words) => `no warning contains "${words}"`)]
}

function judgeRefusal(
  refusing: readonly string[],
  { start, reason, effects }: History,
): readonly string[] {
  if (start === 'started') return ['the start was expected to be refused']
  if (start === 'failed') return [`the start was refused without a ConfigurationError: ${reason}`]
  const isNamed = refusing.some((words) => reason.includes(words))
  return [
    ...(isNamed ? [] : [`the refusal names none of "${refusing.join('", "')}": ${reason}`]),
    ...noEffects(effects),
  ]
}

function judgeWaiting(waiting: readonly string[], { reason, effects }: History): readonly string[] {
  const isNamed = waiting.some((words) => reason.includes(words))
  return [
    ...(isNamed ? [] : [`health names none of "${waiting.join('", "')}": ${reason}`]),
    ...noEffects(effects),
  ]
}

const noEffects = (effects: History['effects']): readonly string[] =>
  Object.keys(effects).length === 0 ? [] : ['there are effects']

function judgeWork({ hasStrays }: Cell, history: History): readonly string[] {
  const { missed, effects, published, left, faults, reason } = history
  if (missed !== undefined) return [`missed: ${missed} (${reason})`]
  const wrong = ORDERS.filter(({ id }) => effects[id] !== 1)
  const unknown = Object.keys(effects).filter((id) => !ORDERS.some((order) => order.id === id))
  const missing = DEAD_IDS.filter((id) => !published.includes(id))
  const innocent = hasStrays ? [] : published.filter((id) => !DEAD_IDS.includes(id))
  return [
    ...wrong.map(({ id }) => `${id} has ${effects[id] ?? 0} effects`),
    ...unknown.map((id) => `${id} was never sent`),
    ...missing.map((id) => `${id} has no dead letter`),
    ...innocent.map((id) => `${id} was dead-lettered`),
    ...left.map((row) => `a row was left: ${row}`),
    ...faults,
  ]
}

/** Undefined if all is well. */
export function sentenceOf(cell: Cell, history: History): string | undefined {
  const wrong = judge(cell, history)
  if (wrong.length === 0) return undefined
  const hints = history.warnings.slice(-5).map((warning) => `  ${warning.slice(0, 400)}`)
  const works = cell.refusing.length === 0 && cell.choices.every(isWorking)
  const kind = works ? 'works' : 'is refused or waits'
  return [`${nameOf(cell)} (said to be a cell that ${kind}):`, ...wrong, ...hints].join('\n')
}
