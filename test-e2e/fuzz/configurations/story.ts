import { ConfigurationError, FatalError, type Guard, type Logger } from '@onceward/core'
import { deadLetters } from '@onceward/postgres'
import { until } from '@onceward/testing'
import type { Handle, Order, Scenario, Started } from './scenario.ts'

/** What happened in a cell. Plain data, so that the judge can be shown doctored ones. */
export interface History {
  readonly start: 'refused' | 'failed' | 'started'
  /** Of the error at the start, or of `health()` at the end. */
  readonly reason: string
  /** All that was logged as a warning or an error. */
  readonly warnings: readonly string[]
  /** What was waited for in vain. */
  readonly missed?: string | undefined
  /** Committed effects by event. */
  readonly effects: Readonly<Record<string, number>>
  /** Ids in the dead-letter place before anything was replayed. */
  readonly published: readonly string[]
  /** Rows of the consumer that are neither done nor dead, and dead ones that nobody replayed. */
  readonly left: readonly string[]
  /** What else is wrong, in words of the scenario. */
  readonly faults: readonly string[]
}

const HEALTHY: readonly Order[] = [
  ...Array.from({ length: 6 }, (_, index) => ({ id: `plain-${index}` })),
  { id: 'failing', deed: 'fail-once' },
  { id: 'crashing', deed: 'crash' },
]
const DEAD: readonly Order[] = [
  { id: 'poison', deed: 'poison' },
  { id: 'fatal', deed: 'fatal' },
]
export const ORDERS: readonly Order[] = [...HEALTHY, ...DEAD]
/** The ids of events that are dead until their cause is mended. */
export const DEAD_IDS: readonly string[] = DEAD.map(({ id }) => id)

const OF_CONSUMER = 'from public.effects where consumer = $1'

export interface StoryOptions {
  /** Longest wait for one step, ms. */
  readonly stepMs: number
  /** Nothing is expected to happen. */
  readonly expectsNothing?: boolean | undefined
}

/** Copies, a poison message, a lost connection, a restart, a redelivery and a replay of dead letters. */
export async function tell(scenario: Scenario, options: StoryOptions): Promise<History> {
  const warnings: string[] = []
  const state = { isMended: false }
  const handle = handlerOf(scenario, state)
  const logger = loggerInto(warnings)
  const begin = (): Promise<Life> => Life.begin(scenario, handle, logger)
  let life: Life
  try {
    life = await begin()
  } catch (error) {
    return { ...NOTHING, ...refusalOf(error), warnings }
  }
  let first: Pick<History, 'missed' | 'published'>
  try {
    first = await tellFirstLife(scenario, options, life)
  } finally {
    await life.end()
  }
  // The store could not be reached at the start, and what it refuses was seen only later.
  if (life.failure !== undefined) {
    return {
      ...NOTHING,
      ...first,
      ...refusalOf(life.failure),
      effects: await effectsOf(scenario),
      warnings,
    }
  }
  let missed = first.missed
  if (missed === undefined && options.expectsNothing !== true) {
    // A queue that is full takes them only when they are consumed.
    const sending = scenario.send(ORDERS)
    sending.catch(() => undefined)
    await scenario.redeliver?.()
    state.isMended = true
    await replayDead(scenario)
    life = await begin()
    try {
      missed = await tellSecondLife(scenario, options, life, sending)
    } finally {
      await life.end()
    }
  }
  const faults = (await scenario.faults?.()) ?? []
  const end = { effects: await effectsOf(scenario), left: await leftOf(scenario), faults }
  return { start: 'started', reason: life.reason, warnings, ...first, missed, ...end }
}

const refusalOf = (error: unknown): Pick<History, 'start' | 'reason'> => ({
  start: error instanceof ConfigurationError ? 'refused' : 'failed',
  reason: textOf(error),
})

const NOTHING = { effects: {}, published: [], left: [], faults: [] }

async function replayDead({ operator, schema, consumer, replay }: Scenario): Promise<void> {
  if (replay === undefined) await deadLetters(operator, { schema }).replay({ consumer })
  else await replay()
}

/** A guard with its consumer, from the start to the drain. */
class Life {
  /** What `health()` said last. */
  reason = ''
  /** What ended the consumer before its drain. */
  failure: unknown
  readonly #guard: Guard
  readonly #started: Started

  private constructor(guard: Guard, started: Started) {
    this.#guard = guard
    this.#started = started
    started.stopped.catch((error: unknown) => {
      this.failure = error
    })
  }

  static async begin(scenario: Scenario, handle: Handle, logger: Logger): Promise<Life> {
    const guard = scenario.createGuard(handle, logger)
    try {
      return new Life(guard, await scenario.consume(guard))
    } catch (error) {
      await guard.close()
      throw error
    }
  }

  isUnwell(): boolean {
    return this.failure !== undefined || (this.#started.health().reason ?? '') !== ''
  }

  async end(): Promise<void> {
    this.reason = this.#started.health().reason ?? ''
    await this.#started.drain()
    await this.#guard.close()
  }
}

/** An effect or a dead letter for each order, and an empty queue. */
async function tellFirstLife(
  scenario: Scenario,
  { stepMs, expectsNothing = false }: StoryOptions,
  life: Life,
): Promise<Pick<History, 'missed' | 'published'>> {
  const sending = scenario.send([...ORDERS, ...HEALTHY.slice(0, 3)])
  sending.catch(() => undefined)
  if (expectsNothing) {
    await reached(() => life.isUnwell(), stepMs)
    return { published: await scenario.published() }
  }
  const published: string[] = []
  const missed = await firstMissed(life, stepMs, [
    ['every message in the queue', () => sending.then(() => true)],
    ['effects of healthy events', () => haveEffects(scenario, HEALTHY)],
    [
      'dead letters',
      async () => {
        published.push(...(await scenario.published()))
        return DEAD_IDS.every((id) => published.includes(id))
      },
    ],
    ['an empty queue', async () => (await scenario.depth()) === 0],
  ])
  return { missed, published }
}

/** The copies are settled, and the dead letters that were replayed have their effects. */
function tellSecondLife(
  scenario: Scenario,
  { stepMs }: StoryOptions,
  life: Life,
  sending: Promise<void>,
): Promise<string | undefined> {
  return firstMissed(life, stepMs, [
    ['every copy in the queue', () => sending.then(() => true)],
    ['effects of replayed dead letters', () => haveEffects(scenario, DEAD)],
    ['an empty queue after copies', async () => (await scenario.depth()) === 0],
  ])
}

type Step = readonly [what: string, condition: () => Promise<boolean>]

async function firstMissed(
  life: Life,
  stepMs: number,
  steps: readonly Step[],
): Promise<string | undefined> {
  for (const [what, condition] of steps) {
    const isDone = async (): Promise<boolean> => life.failure !== undefined || condition()
    if (!(await reached(isDone, stepMs)) || life.failure !== undefined) return what
  }
  return undefined
}

async function haveEffects(scenario: Scenario, orders: readonly Order[]): Promise<boolean> {
  const effects = await effectsOf(scenario)
  return orders.every(({ id }) => (effects[id] ?? 0) > 0)
}

async function reached(
  condition: () => Promise<unknown> | boolean,
  deadlineMs: number,
): Promise<boolean> {
  return until(async () => Boolean(await condition()), {
    ...{ what: 'a step of the story', deadlineMs, everyMs: 20 },
  }).then(
    () => true,
    () => false,
  )
}

function handlerOf({ consumer }: Scenario, state: { readonly isMended: boolean }): Handle {
  let isCrashed = false
  return async ({ id, deed, attempt }, run) => {
    const values = [consumer, id, attempt]
    await run('insert into public.effects (consumer, id, attempt) values ($1, $2, $3)', values)
    if (state.isMended) return
    if (deed === 'fatal') throw new FatalError('no run can succeed')
    if (deed === 'poison' || (deed === 'fail-once' && attempt === 1)) throw new Error('a failure')
    if (deed === 'crash' && !isCrashed) {
      isCrashed = true
      await run('select pg_catalog.pg_terminate_backend(pg_catalog.pg_backend_pid())')
    }
  }
}

function loggerInto(warnings: string[]): Logger {
  const hear = (fields: unknown, text: unknown): void => {
    warnings.push(`${String(text)} ${describe(fields)}`)
  }
  const ignore = (): void => undefined
  return { error: hear, warn: hear, info: ignore, debug: ignore } as unknown as Logger
}

const describe = (fields: unknown): string =>
  JSON.stringify(fields, (_name, value: unknown) =>
    value instanceof Error ? textOf(value) : typeof value === 'bigint' ? String(value) : value,
  ) ?? ''

const textOf = (error: unknown): string =>
  error instanceof Error ? `${error.name}: ${error.message}` : String(error)

async function effectsOf({ operator, consumer }: Scenario): Promise<Record<string, number>> {
  const text = `select id, count(*)::integer as n ${OF_CONSUMER} group by id`
  const { rows } = await operator.query<{ id: string; n: number }>(text, [consumer])
  return Object.fromEntries(rows.map(({ id, n }) => [id, n]))
}

async function leftOf({ operator, consumer, schema }: Scenario): Promise<readonly string[]> {
  const name = `"${schema.replaceAll('"', '""')}"`
  const { rows } = await operator.query<{ key: string }>(
    `select coalesce(f.key, '') || ' ' || p.state::text as key from ${name}.processed_events p
    join ${name}.consumers c on c.id = p.consumer_id left join ${name}.failed_events f using (event_id)
    where c.name = $1 and p.state <> 'd'`,
    [consumer],
  )
  return rows.map(({ key }) => key)
}
