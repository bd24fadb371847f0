/*
 * A process of a case whose handlers may kill it. It gets what it must play on its standard input, so that it can be
 * started before it is needed, and writes what happens into a journal.
 */
import { flushCompileCache } from 'node:module'
import { text } from 'node:stream/consumers'
import type { Guard, Settlement } from '@onceward/core'
import { portOf } from '@onceward/core/adapter'
import pg from 'pg'
import { openCase } from '../handlers/case.ts'
import type { RunFact } from '../handlers/history.ts'
import { playRounds, type Rounds } from '../handlers/play.ts'
import { endsWithin, type Mortal } from '../handlers/shared.ts'
import type { Stage } from '../handlers/stage.ts'
import { type Line, openJournal } from './journal.ts'
import type { KillPlan } from './plan.ts'

/** What a process must play. */
export interface ChildTask {
  readonly plan: KillPlan
  readonly url: string
  readonly consumer: string
  readonly journal: string
  /** Of the processes before this one. */
  readonly runs: readonly RunFact[]
  readonly failures: readonly (readonly [event: number, times: number])[]
  /** The events whose messages are delivered. */
  readonly unended: readonly number[]
  readonly isAgain: boolean
}

/** No process plays longer. It is only waited for when something hangs. */
const LONGEST_MS = 40_000

flushCompileCache()
const task = await text(process.stdin)
// Nothing is said to a process that is not needed any more.
if (task !== '') await play(JSON.parse(task) as ChildTask)

async function play(task: ChildTask): Promise<void> {
  const { plan, url, unended, isAgain } = task
  const write = openJournal(task.journal)
  const admin = new pg.Pool({ connectionString: url, max: 2 })
  const stage: Stage = { url, admin, close: () => admin.end() }
  let surprises: readonly string[] = []
  let told = 0
  const tell = (line: Line): void => {
    for (; told < surprises.length; told += 1)
      write({ kind: 'surprise', what: `${surprises[told]}` })
    write(line)
  }
  const zoo = await openCase(stage, plan, mortalOf(task, tell))
  surprises = zoo.surprises
  const rounds: Rounds = {
    zoo: { ...zoo, guards: zoo.guards.map((guard) => settling(guard, tell)) },
    ...{ settled: [], again: [], unended: new Set(unended), isAgain },
  }
  const isInTime = await endsWithin(playRounds(rounds, plan), LONGEST_MS)
  if (!isInTime) zoo.surprises.push('a call did not end')
  for (const { event, settlement } of rounds.again) tell({ kind: 'again', event, settlement })
  const { left } = await zoo.close(isInTime)
  await stage.close()
  tell({ kind: 'finished', left })
}

function mortalOf({ consumer, runs, failures }: ChildTask, tell: (line: Line) => void): Mortal {
  return {
    ...{ consumer, runs, failures: new Map(failures) },
    saved: (fact) => tell({ kind: 'run', fact }),
    failed: (event) => tell({ kind: 'failed', event }),
    nested: (event) => tell({ kind: 'nested', event }),
    dying: (death) => tell({ kind: 'dying', death }),
  }
}

/** The guard as an adapter calls it: a settlement is told to the broker as soon as it is known. */
function settling(guard: Guard, tell: (line: Line) => void): Pick<Guard, 'processBatch'> {
  return {
    processBatch: (deliveries) => {
      const onSettlement = (index: number, settlement: Settlement): void => {
        const event = Number(deliveries[index]?.source.position)
        tell({ kind: 'settled', event, settlement })
      }
      return portOf(guard).run(deliveries, { onSettlement })
    },
  }
}
