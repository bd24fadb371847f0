import type { EffectRow } from '../handlers/history.ts'
import {
  again,
  eachEvent,
  endOf,
  hasStep,
  judgeBy,
  laneOrder,
  nestedEffects,
  oneRun,
  type Rules,
  refused,
  runsOf,
  seenBy,
  show,
  storedState,
} from '../handlers/judge.ts'
import {
  attemptsAreCounted,
  isDeadRightly,
  neighboursLive,
  poisonIsDead,
  suspectsRunAlone,
} from './attempts.ts'
import type { KillHistory, PlayedRun, ProcessFact } from './history.ts'

/** What must be true of every case whose handlers may kill their process. */
const RULES: Rules<KillHistory> = {
  surprises: ({ surprises }) => surprises,
  'nothing is left': ({ left }) => left,
  'every event ends': ({ unended }) => unended.map((event) => `event ${event} does not end`),
  'settlements are allowed': (history) =>
    history.settled.flatMap((each) => refused(history, each, isDeadRightly)),
  'stored before it is settled': ({ processes }) => processes.flatMap(unstored),
  'one processed': (history) => eachEvent(history, processedOnce),
  'the effect is that of one run': (history) => eachEvent(history, oneRun),
  'nothing runs after its commit': (history) => eachEvent(history, ranAfterCommit),
  'the store knows': (history) => eachEvent(history, storedState),
  'a clean run commits': (history) => eachEvent(history, cleanRunCommits),
  'poison ends': (history) => eachEvent(history, poisonIsDead),
  'attempts are counted': (history) => eachEvent(history, attemptsAreCounted),
  'neighbours live': neighboursLive,
  'suspects run alone': suspectsRunAlone,
  'handlers begin clean': (history) => history.runs.flatMap((run) => seenBy(history, run)),
  'a copy finds the outcome': (history) => history.again.flatMap((each) => again(history, each)),
  'nested effects': (history) => [...nestedEffects(history), ...nestedTwice(history)],
  'lanes keep their order': laneOrder,
}

/** The first promise that was broken, with its name; undefined if none was. */
export const judgeKills = (history: KillHistory): string | undefined => judgeBy(RULES, history)

/** A process may die right after it has told the broker. So what it told must be stored when it has died. */
function unstored({ settled, stored }: ProcessFact, number: number): readonly string[] {
  return settled.flatMap(({ event, settlement }) => {
    const state = stored.states.find((each) => each.event === event)?.state
    const wanted = settlement.kind === 'ack' ? 'd' : 'x'
    const isEnd = settlement.kind === 'ack' || settlement.kind === 'dead-letter'
    if (!isEnd || state === wanted) return []
    const told = `process ${number} settled event ${event} as ${show(settlement)}`
    return [`${told}, and stored ${state ?? 'nothing'}`]
  })
}

const isFinished = ({ processes }: KillHistory, { process }: PlayedRun): boolean =>
  processes[process]?.isFinished ?? false

const ownRows = ({ rows = [] }: KillHistory, event: number): readonly EffectRow[] =>
  rows.filter((row) => row.consumer === 'zoo' && row.event === event)

/** The run whose effect is committed. */
const committed = (history: KillHistory, event: number): PlayedRun | undefined => {
  const [row] = ownRows(history, event)
  const runs = runsOf(history, event) as readonly PlayedRun[]
  return runs.find(({ run }) => run === row?.run)
}

function processedOnce(history: KillHistory, event: number): readonly string[] {
  const acked = history.settled.filter(
    ({ event: each, settlement }) =>
      each === event && settlement.kind === 'ack' && settlement.by === 'processed',
  ).length
  if (acked > 1) return [`event ${event} was processed ${acked} times`]
  const run = committed(history, event)
  // A process that died between its commit and the settlement told nobody.
  const isTold = run === undefined || isFinished(history, run)
  const isHidden = hasStep(history.plan, /^processes/) || !isTold
  const isAcked = endOf(history, event)?.kind === 'ack'
  return isAcked && acked === 0 && !isHidden ? [`event ${event} was acked and not processed`] : []
}

function ranAfterCommit(history: KillHistory, event: number): readonly string[] {
  const run = committed(history, event)
  if (run === undefined) return []
  const wrong = run.overAt === undefined ? [`event ${event} was committed before its end`] : []
  const last = runsOf(history, event).at(-1)
  if (last !== run) wrong.push(`event ${event} ran again after its effect was committed`)
  return wrong
}

/** With a transaction of its own, nothing but the handler decides. */
function cleanRunCommits(history: KillHistory, event: number): readonly string[] {
  if (history.plan.mode !== 'each') return []
  const runs = runsOf(history, event) as readonly PlayedRun[]
  const clean = runs.find(
    (run) => run.doomed === undefined && run.isOver === true && isFinished(history, run),
  )
  if (clean === undefined) return []
  const end = endOf(history, event)
  if (runs.at(-1) === clean && end?.kind === 'ack') return []
  return [`event ${event} had the clean run ${clean.run} and ended as ${show(end)}`]
}

function nestedTwice({ rows = [] }: KillHistory): readonly string[] {
  const events = rows.filter(({ consumer }) => consumer === 'other').map(({ event }) => event)
  return events
    .filter((event, at) => events.indexOf(event) !== at)
    .map((event) => `event ${event} of the other consumer has several effects`)
}
