import { causesOf } from './causes.ts'
import type { ProveOptions } from './options.ts'
import type { Play } from './play.ts'
import { POINT_TITLES, type Point } from './points.ts'
import type { ProveBroker } from './proof.ts'
import type { Stage } from './stage.ts'
import { type ProveRow, type Struck, tellStories, type WrongEvent } from './stories.ts'

/** What a proof has found, counted by event. */
export interface ProveResult {
  readonly broker: ProveBroker
  readonly seed: number
  readonly events: number
  /** Messages that were sent, copies included. */
  readonly messages: number
  readonly kills: number
  readonly freezes: number
  readonly effects: number
  readonly lost: number
  readonly doubled: number
  /** Messages that were dead-lettered. */
  readonly deadLetters: number
  /** Messages that were not done when nothing had happened for a long time. */
  readonly left: number
  readonly durationMs: number
  readonly rows: readonly ProveRow[]
  readonly wrong: readonly WrongEvent[]
  /** Points that were due and never seen. */
  readonly unseen: readonly string[]
  /** The usual causes of what was found. */
  readonly causes: readonly string[]
  readonly remarks: readonly string[]
}

/** Whether every event has had its effect once. */
export const isExact = ({
  doubled,
  left,
  lost,
}: Pick<ProveResult, 'doubled' | 'left' | 'lost'>): boolean =>
  lost === 0 && doubled === 0 && left === 0

export async function toResult(
  { broker, events, seed }: ProveOptions,
  stage: Stage,
  play: Play,
  durationMs: number,
): Promise<ProveResult> {
  const { author, identities, place, plan } = stage
  const { byEvent, unknown } = identities.effectsOf(await author.count())
  const effects = Array.from({ length: events }, (_, index) => byEvent.get(index + 1) ?? 0)
  const stories = tellStories(plan, play.struck, effects)
  const killed = (each: Struck): boolean => each.point !== 'frozen'
  const deadLetters = await place.dead().catch(() => 0)
  return {
    ...{ broker, seed, events, deadLetters, left: play.left },
    messages: events + plan.sentTwice.size,
    kills: play.struck.filter(killed).length,
    freezes: play.struck.filter((each) => !killed(each)).length,
    effects: effects.reduce((sum, each) => sum + each, 0),
    lost: effects.filter((each) => each === 0).length,
    doubled: effects.filter((each) => each > 1).length,
    durationMs: Math.round(durationMs),
    ...stories,
    unseen: play.unseen.map((point: Point) => POINT_TITLES[point].replace('killed ', '')),
    causes: causesOf(stories),
    remarks: remarksOf(stage, play, { deadLetters, unknown }),
  }
}

interface Found {
  readonly deadLetters: number
  readonly unknown: readonly string[]
}

function remarksOf(
  { crew }: Stage,
  play: Play,
  { deadLetters, unknown }: Found,
): readonly string[] {
  const remarks: string[] = []
  if (unknown.length > 0) {
    remarks.push(
      `count() has ${unknown.length} keys that stand for no event, such as ${unknown[0]}. They are left out: let it count by a value of the body.`,
    )
  }
  for (const [text, times] of [...crew.unawaited].slice(0, 3)) {
    remarks.push(`A promise was rejected that nothing awaits, ${times} times: ${text}`)
  }
  if (crew.ownEnds > 0) {
    remarks.push(`Workers ended by themselves ${crew.ownEnds} times, without a kill.`)
  }
  if (deadLetters > 0) remarks.push(`${deadLetters} messages were dead-lettered.`)
  if (play.left > 0) {
    remarks.push(
      `${play.left} messages were not done after a long time in which nothing happened. Run it with fewer events, or look at what a worker wrote last:\n${play.stuckLines}`,
    )
  }
  return remarks
}
