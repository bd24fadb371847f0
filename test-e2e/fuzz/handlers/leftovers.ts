import type { Guard } from '@onceward/core'
import { until } from '@onceward/testing'
import type { EffectRow, StoredState } from './history.ts'
import { endsWithin, ownPoolName, type Shared } from './shared.ts'

const CLOSE_MS = 10_000
const IDLE_MS = 5_000
/** Redis has 200 ms of this clock to answer a look at its marks. All other timers that are left are longer, or show without Redis. */
const LOOK_MS = 1_000

/** Closes the guards and says in words what they left behind. */
export async function leftovers(
  shared: Shared,
  guards: readonly Guard[],
  isInTime: boolean,
): Promise<readonly string[]> {
  const left: string[] = []
  const closing = Promise.all(guards.map((guard) => guard.close()))
  if (!(await endsWithin(closing, CLOSE_MS))) left.push('close() did not end')
  if (!isInTime) return left
  for (const pool of shared.pools) {
    const isIdle = await until(
      () => pool.idleCount === pool.totalCount && pool.waitingCount === 0,
      { deadlineMs: IDLE_MS, everyMs: 2 },
    ).catch(() => false)
    if (!isIdle) left.push(`${pool.totalCount - pool.idleCount} connections are not back`)
  }
  const timers = await timersOf(shared)
  if (timers.length > 0) left.push(`timers of ${timers.join(', ')} ms`)
  return [...left, ...(await onServer(shared))]
}

/** With Redis, a look at its marks that began with the last claim may still wait for its answer. */
async function timersOf({ clock, plan }: Shared): Promise<readonly number[]> {
  if (plan.leases === 'redis') {
    const isOver = () => clock.running().length === 0
    await until(isOver, { deadlineMs: LOOK_MS, everyMs: 2 }).catch(() => undefined)
  }
  return clock.running()
}

async function onServer({ consumer, plan, testbed }: Shared): Promise<readonly string[]> {
  if (plan.driver === 'memory') return []
  const look = async (): Promise<readonly string[]> => {
    const { rows } = await testbed.admin.query<{ what: string }>(LEFT, [
      consumer,
      ownPoolName(consumer),
    ])
    return rows.map(({ what }) => what)
  }
  // A backend that was ended may take a moment.
  let left = await look()
  const isEmpty = async (): Promise<boolean> => {
    left = await look()
    return left.length === 0
  }
  if (left.length > 0) await until(isEmpty, { deadlineMs: IDLE_MS }).catch(() => undefined)
  return left
}

/** Transactions and locks of the connections of a case, and what a guard has left of a pool of its own. A lock of the session may be the handler's own. */
const LEFT = `
select 'a connection is ' || state as what from pg_stat_activity
where application_name = $1 and state <> 'idle'
union all
select 'a lock: ' || l.locktype || ' ' || l.mode from pg_locks l join pg_stat_activity a using (pid)
where a.application_name = $1
union all
select 'a connection of an own pool is ' || state from pg_stat_activity where application_name = $2`

/** What is stored about a case. */
export interface Stored {
  readonly rows: readonly EffectRow[]
  readonly states: readonly StoredState[]
}

export async function questions({
  consumer,
  plan,
  testbed,
}: Pick<Shared, 'consumer' | 'plan' | 'testbed'>): Promise<Stored> {
  const effects = await testbed.admin.query<EffectRow>(
    'select id::int, consumer, event, run, part from zoo.effects where consumer = any($1) order by id',
    [[consumer, `${consumer}-other`]],
  )
  const states = await testbed.admin.query<StoredState>(STATES, [consumer, plan.events.length])
  const rows = effects.rows.map((row) => ({
    ...row,
    consumer: row.consumer === consumer ? 'zoo' : 'other',
  }))
  return { rows, states: states.rows }
}

const STATES = `
select n as event, p.state::text, f.reason, f.attempt, f.event_id is not null as "hasFailedRow"
from generate_series(0, $2::int - 1) n
cross join lateral (select onceward.event_id($1, null, 'event-' || n) as id) e
left join onceward.processed_events p on p.event_id = e.id
left join onceward.failed_events f on f.event_id = e.id
order by n`
