import { join } from 'node:path'
import { until } from '@onceward/testing'
import { AGEING } from '../handlers/case.ts'
import { questions } from '../handlers/leftovers.ts'
import { ownPoolName } from '../handlers/shared.ts'
import type { Stage } from '../handlers/stage.ts'
import { traceOf } from '../handlers/steps-deaths.ts'
import type { ChildEnd, Children } from './children.ts'
import type { KillHistory, PlayedRun, ProcessFact } from './history.ts'
import { type Notes, readJournal } from './journal.ts'
import type { KillPlan } from './plan.ts'

/** Where the cases of a campaign are played. */
export interface Ground {
  readonly stage: Stage
  readonly children: Children
}

/** Each event may kill a process in all its attempts, in its first run, and once more when it has been settled. */
const processesOf = ({ attempts, events }: KillPlan): number => 4 + events.length * (attempts + 2)
/** Longer than any wait that a row or a lease may cause. */
const AGE_MS = 60_000
/** A server notices the end of a client soon after the statement that runs. */
const GONE_MS = 10_000

let cases = 0

/** Plays a case in one process after the other, until every message is settled. */
export async function playKills(ground: Ground, plan: KillPlan): Promise<KillHistory> {
  cases += 1
  const story = new Story(ground, plan, `kills-${process.pid}-${cases}`)
  while (!story.isOver) await story.playProcess()
  return story.end()
}

class Story {
  readonly #ground: Ground
  readonly #plan: KillPlan
  readonly #consumer: string
  readonly #unended: Set<number>
  readonly #processes: ProcessFact[] = []
  readonly #runs: PlayedRun[] = []
  readonly #failures = new Map<number, number>()
  readonly #nested = new Set<number>()
  readonly #surprises: string[] = []
  readonly #left: string[] = []
  #again: Notes['again'] = []
  isOver = false

  constructor(ground: Ground, plan: KillPlan, consumer: string) {
    this.#ground = ground
    this.#plan = plan
    this.#consumer = consumer
    this.#unended = new Set(plan.events.keys())
  }

  async playProcess(): Promise<void> {
    const { children, stage } = this.#ground
    const number = this.#processes.length
    const journal = join(children.directory, `${this.#consumer}-${number}`)
    const ended = await children.play(
      {
        ...{ plan: this.#plan, url: stage.url, consumer: this.#consumer, runs: this.#runs },
        failures: [...this.#failures],
        unended: [...this.#unended],
        isAgain: number > 0 || this.#plan.isFirstSuspect,
      },
      journal,
    )
    const notes = readJournal(journal, number)
    const asked = { stage, plan: this.#plan, consumer: this.#consumer }
    this.#processes.push({
      ...{ how: ended.how, isFinished: notes.left !== undefined, deaths: notes.deaths },
      ...{ settled: notes.settled, stored: await questions(asked) },
    })
    this.#take(notes)
    this.#check(ended, notes)
    this.isOver ||= notes.left !== undefined || this.#processes.length >= processesOf(this.#plan)
    if (this.isOver || this.#plan.isPrompt) return
    await this.#lookForConnections()
    await stage.admin.query(AGEING, [AGE_MS])
  }

  #take(notes: Notes): void {
    this.#runs.push(...notes.runs)
    for (const event of notes.failed) {
      this.#failures.set(event, (this.#failures.get(event) ?? 0) + 1)
    }
    for (const event of notes.nested) this.#nested.add(event)
    this.#surprises.push(...notes.surprises)
    this.#left.push(...(notes.left ?? []))
    this.#again = notes.again
    // The broker has not got the settlement of which the process died.
    const lost = notes.left === undefined ? notes.deaths.at(-1) : undefined
    for (const { event, settlement } of notes.settled) {
      const isLost = lost?.isSettled === true && lost.event === event
      const isEnd = settlement.kind === 'ack' || settlement.kind === 'dead-letter'
      if (isEnd && !isLost) this.#unended.delete(event)
    }
  }

  /** A process dies as its handlers wanted, and of nothing else. */
  #check({ how, isInTime, stderr }: ChildEnd, { deaths, left }: Notes): void {
    const ways = deaths.map(({ way }) => traceOf(way))
    const wanted: readonly unknown[] = ways.length > 0 ? ways : [0]
    const isWanted = wanted.includes(how) && (ways.length > 0 || left !== undefined)
    if (isInTime && isWanted) return
    this.isOver = true
    const expected = deaths.map(({ way }) => way).join(', ') || 'its end'
    const what = isInTime ? `ended with ${how}` : 'did not end'
    this.#surprises.push(`a process ${what}, after: ${expected}\n${stderr.slice(-600)}`)
  }

  async #lookForConnections(): Promise<void> {
    const { admin } = this.#ground.stage
    let left: readonly string[] = []
    const isGone = async (): Promise<boolean> => {
      const { rows } = await admin.query<{ what: string }>(LEFT, [
        [this.#consumer, ownPoolName(this.#consumer)],
      ])
      left = rows.map(({ what }) => what)
      return left.length === 0
    }
    await until(isGone, { deadlineMs: GONE_MS, everyMs: 2 }).catch(() => this.#left.push(...left))
  }

  async end(): Promise<KillHistory> {
    await this.#lookForConnections()
    const { stage } = this.#ground
    const stored = await questions({ stage, plan: this.#plan, consumer: this.#consumer })
    return {
      ...{ plan: this.#plan, processes: this.#processes, runs: this.#runs },
      settled: this.#processes.flatMap(({ settled }) => settled),
      ...{ again: this.#again, rows: stored.rows, states: stored.states },
      ...{ nested: [...this.#nested], left: this.#left, surprises: this.#surprises },
      unended: [...this.#unended],
    }
  }
}

/** What the processes of a case have left on the server, besides what is stored. */
const LEFT = `
select 'a connection is ' || state as what from pg_stat_activity where application_name = any($1)
union all
select 'a lock: ' || l.mode from pg_locks l
where l.locktype = 'advisory' and l.database = (select oid from pg_database where datname = current_database())
union all
select 'a prepared transaction' from pg_prepared_xacts where database = current_database()`
