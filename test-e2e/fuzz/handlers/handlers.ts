import type { Delivery, Guard, GuardEvent, HandlerContext } from '@onceward/core'
import type pg from 'pg'
import { ENDS, type End } from './ends.ts'
import type { RunFact, Seen } from './history.ts'
import { type RunPlan, runOf } from './plan.ts'
import type { Nested, Playing } from './playing.ts'
import { describe, type Shared, type Single, type Together } from './shared.ts'
import { type Sql, slySql, sqlOf } from './sql.ts'
import { STEPS } from './steps.ts'

interface Guards {
  readonly guard: Guard
  readonly others: readonly Guard[]
}

/** The handlers of one worker. */
export interface Handlers {
  readonly single: Single
  readonly together: Together
  /** Of the other consumer: always clean. */
  readonly other: Single
  /** The guards that handlers may use themselves. */
  use(guards: Guards): void
}

let calls = 0

export function createHandlers(shared: Shared, { pool }: { readonly pool: pg.Pool }): Handlers {
  let guards: Guards | undefined
  const worker: Worker = { shared, pool, inside: new Map(), guards: () => guards as Guards }
  // The processes before this one counted too.
  calls = Math.max(calls, ...shared.runs.map(({ call }) => call))
  const begun = (call: number, event: GuardEvent<unknown>, context: HandlerContext<unknown>) =>
    begin(worker, { call, event, context, failures: shared.failures })
  return {
    single: (event, context) => {
      calls += 1
      const playing = begun(calls, event, context)
      return run(worker, playing, { isLast: true })
    },
    together: async (events, context) => {
      calls += 1
      const call = calls
      // The attempts were given when the call began: one that outlives its deadline still has them.
      const failures = new Map(shared.failures)
      for (const [index, event] of events.entries()) {
        const playing = begin(worker, { call, event, context, failures })
        await run(worker, playing, { isLast: index + 1 === events.length })
      }
    },
    other: async ({ payload }, { tx }) => {
      const { number } = payload as { number: number }
      const values = [`${shared.consumer}-other`, number, 1, 'one']
      await sqlOf(shared, tx)?.(WRITE, values)
      const inside = worker.inside.get(number)
      worker.inside.delete(number)
      await inside?.()
    },
    use: (given) => {
      guards = given
    },
  }
}

interface Worker {
  readonly shared: Shared
  readonly pool: pg.Pool
  /** What the handler of the other consumer does after its write, by event. */
  readonly inside: Map<number, () => Promise<unknown>>
  readonly guards: () => Guards
}

interface Begin {
  readonly call: number
  readonly event: GuardEvent<unknown>
  readonly context: HandlerContext<unknown>
  /** Verdicts per event that were reported before the call. */
  readonly failures: ReadonlyMap<number, number>
}

interface Run {
  readonly playing: Playing
  readonly plan: RunPlan
}

function begin(worker: Worker, { call, event, context, failures }: Begin): Run {
  const { shared } = worker
  const number = Number(event.source.position)
  const before = shared.runs.filter((each) => each.event === number).length
  const company = shared.runs.filter((each) => each.call === call)
  const fact: RunFact = {
    event: number,
    run: before + 1,
    call,
    attempt: event.attempt,
    failuresBefore: failures.get(number) ?? 0,
    isIntact: isIntact(event, shared.delivery(number)),
    isRedelivered: event.redelivered === true,
    parts: [],
    late: [],
    // Events of one call share the transaction.
    doomed: company.find(({ doomed }) => doomed !== undefined)?.doomed,
    isLoose: company.some(({ isLoose }) => isLoose),
  }
  shared.runs.push(fact)
  const eventPlan = shared.plan.events[number]
  if (eventPlan === undefined) throw new Error(`there is no event ${number}`)
  return { playing: playingOf(worker, { fact, event, context }), plan: runOf(eventPlan, fact.run) }
}

function isIntact(
  { payload, headers, body, source, key }: GuardEvent<unknown>,
  delivery: Delivery,
) {
  const was = JSON.parse(new TextDecoder().decode(delivery.body)) as unknown
  return (
    JSON.stringify(payload) === JSON.stringify(was) &&
    JSON.stringify(headers) === JSON.stringify(delivery.headers) &&
    Buffer.from(body).equals(delivery.body) &&
    source.queue === 'zoo' &&
    key === delivery.headers['idempotency-key']
  )
}

/** Longer than a lease, and shorter than the deadline. */
const STILL_MS = 40_000

const WRITE = 'insert into zoo.effects (consumer, event, run, part) values ($1, $2, $3, $4)'

interface Parts {
  readonly fact: RunFact
  readonly event: GuardEvent<unknown>
  readonly context: HandlerContext<unknown>
}

function playingOf(worker: Worker, { fact, event, context }: Parts): Playing {
  const { shared } = worker
  const own = sqlOf(shared, context.tx)
  const sql: Sql = own ?? (() => Promise.reject(new Error('there is no SQL')))
  return {
    ...{ event, context, fact, sql },
    slySql: (first, then) => slySql(shared, context.tx, first, then),
    write: async (part) => {
      if (own === undefined) return
      await own(WRITE, [shared.consumer, fact.event, fact.run, part])
    },
    passDeadline: () => shared.clock.passDeadline(context.deadlineAt),
    standStill: () => shared.clock.advance(STILL_MS),
    endBackend: async () => {
      const [row] = await sql('select pg_catalog.pg_backend_pid() as pid')
      await shared.testbed.admin.query('select pg_terminate_backend($1)', [row?.['pid']])
    },
    nest: (which, inside) => nest(worker, fact.event, { which, inside }),
  }
}

async function nest(
  { guards, inside: insides, shared }: Worker,
  event: number,
  {
    which,
    inside,
  }: { readonly which: Nested; readonly inside?: (() => Promise<unknown>) | undefined },
): Promise<void> {
  const { guard, others } = guards()
  const next = (event + 1) % shared.plan.events.length
  if (which === 'itself' || which === 'neighbour') {
    await guard.process(shared.delivery(which === 'itself' ? event : next))
    return
  }
  const other = others[which === 'other pool' ? 1 : 0]
  if (inside === undefined) insides.delete(next)
  else insides.set(next, inside)
  const settlement = await other?.process(shared.delivery(next))
  if (settlement?.kind !== 'ack') return
  shared.nested.add(next)
}

/** Plays a run as a handler does. The answer is what the handler answers. */
async function run(
  { shared }: Worker,
  { playing, plan }: Run,
  { isLast }: { readonly isLast: boolean },
): Promise<unknown> {
  const { fact } = playing
  try {
    fact.seen = await look(shared, playing)
    for (const part of [0, 1, 2]) {
      for (const step of plan.steps) {
        if (step.after === part && !fact.blocked) await take(shared, playing, step)
      }
      if (part < 2 && !fact.blocked) await writePart(shared, playing, `part ${part}`)
    }
  } catch (error) {
    fact.end = 'failed'
    fact.isOver = true
    throw error
  }
  const answer = end(playing, plan)
  const value = answer?.make()
  return isLast || plan.end.startsWith('answers') ? value : undefined
}

/** Notes what follows. The end is what the plan returns or throws. */
function end({ fact, passDeadline }: Playing, plan: RunPlan): End | undefined {
  const end = ENDS[plan.end]
  fact.end = end?.follows
  fact.isOver = true
  fact.result = end?.result
  if (end?.follows === 'hangs') setImmediate(passDeadline)
  if (end?.follows === 'hangs') fact.doomed ??= 'the deadline passed'
  if (end?.follows === 'failed' || end?.follows === 'fatal') fact.doomed ??= `it ends: ${plan.end}`
  return end
}

async function writePart(shared: Shared, { fact, write }: Playing, part: string): Promise<void> {
  try {
    await write(part)
    fact.parts.push(part)
  } catch (error) {
    note(shared, fact, { what: part, error })
    throw error
  }
}

async function take(
  shared: Shared,
  playing: Playing,
  { step: name, isCaught }: { readonly step: string; readonly isCaught: boolean },
): Promise<void> {
  const { fact } = playing
  const step = STEPS[name]
  const isHealthy = fact.doomed === undefined && !fact.isLoose
  try {
    await step?.play(playing)
    const shouldFail = step?.then === 'aborts' || step?.then === 'refused'
    if (shouldFail && isHealthy) shared.surprises.push(`this was let through: ${name}`)
  } catch (error) {
    if (step?.then === 'aborts') fact.doomed ??= 'a statement failed'
    if (step?.then === 'fine') note(shared, fact, { what: name, error })
    if (step?.then === 'refused' && isHealthy && !isRefusal(error)) {
      shared.surprises.push(`this was not refused as it should: ${name}: ${describe(error)}`)
    }
    if (!isCaught) {
      fact.doomed ??= 'an error left the handler'
      throw error
    }
  }
}

const isRefusal = (error: unknown): boolean =>
  error instanceof TypeError || /onceward begins and ends|belongs to onceward/.test(describe(error))

/** An error where none is expected. */
function note(
  { plan, runs, surprises }: Shared,
  fact: RunFact,
  { what, error }: { readonly what: string; readonly error: unknown },
): void {
  if (fact.doomed !== undefined || fact.isLoose) return
  fact.doomed = 'an error left the handler'
  // A backend dies a moment after its end was asked for: then another run of the transaction may notice it first.
  if (plan.mode === 'batch' && runs.some(({ isLost }) => isLost)) return
  surprises.push(`${what} failed: ${describe(error)}`)
}

const SEEN = `select current_user::pg_catalog.text as role, session_user::pg_catalog.text as user,
  pg_catalog.current_setting('search_path') as "searchPath",
  coalesce(pg_catalog.current_setting('app.tenant', true), '') as tenant, pg_catalog.pg_backend_pid() as pid`

async function look(shared: Shared, playing: Playing): Promise<Seen | undefined> {
  if (shared.plan.driver === 'memory') return undefined
  try {
    const [seen] = await playing.sql(SEEN)
    return seen as unknown as Seen
  } catch (error) {
    note(shared, playing.fact, { what: 'the first statement', error })
    throw error
  }
}
