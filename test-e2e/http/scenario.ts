import { randomUUID } from 'node:crypto'
import { migrate } from '@onceward/postgres'
import { database, until } from '@onceward/testing'
import { Pool } from 'pg'
import { expect } from 'vitest'
import { openCache } from '../crash/cache.ts'
import { severCommit, severStatement, targetOf, through } from '../support/crash/wire-faults.ts'
import { lasting, type Payment, pay, send } from './client.ts'
import type { Scenario } from './matrix.ts'
import type { ServerConfig } from './protocol.ts'
import { ServerProcess } from './server-process.ts'

/** A database with the table of the handler, which has no constraint that could hide a second charge. */
export interface Ledger extends AsyncDisposable {
  readonly url: string
  readonly pool: Pool
  /** Charges by key. */
  charges(): Promise<Readonly<Record<string, number>>>
}

/** @param given - The empty database to use. Default: one on the Postgres that all tests share. */
export async function openLedger(given?: string): Promise<Ledger> {
  const url = given ?? (await database()).url
  const pool = new Pool({ connectionString: url })
  await pool.query('create table charges (id uuid, key text not null, cents int not null)')
  await migrate(pool)
  return {
    url,
    pool,
    charges: async () => {
      const { rows } = await pool.query('select key, count(*)::int as n from charges group by key')
      return Object.fromEntries(rows.map(({ key, n }) => [key, n]))
    },
    [Symbol.asyncDispose]: () => pool.end(),
  }
}

/** One server dies at the point. Its clients retry at another one until they have an answer. */
export async function play({ fate, framework, row }: Scenario): Promise<void> {
  await using cache = await openCache(fate)
  await using ledger = await openLedger()
  const victim: Payment = {
    edge: row.edge,
    key: randomUUID(),
    charge: { cents: 500, ...(row.declined ? { declined: true } : {}) },
  }
  const config: ServerConfig = {
    edge: row.edge,
    framework,
    databaseUrl: ledger.url,
    ...cache.config,
  }
  await using first = await firstServer(config, row.death, victim)
  // If Redis is down, the budget for it is as short as in production.
  await using second = new ServerProcess({
    ...config,
    ...(fate === 'down' ? { redisBudgetMs: 20 } : {}),
  })
  const urls = [await first.server.url(), await second.url()] as const
  let isDead = false
  const patient = pay(() => urls[isDead ? 1 : 0], victim)
  await first.reached()
  await cache.strike()
  // A client that does not wait for the first server to end.
  const hasty = pay(() => urls[1], victim)
  const other: Payment = { edge: row.edge, key: randomUUID(), charge: { cents: 7 } }
  const bystander = await pay(() => urls[1], other)
  expect(bystander.status).toBe(201)
  isDead = true
  await first.die()
  const answers = [await patient, await hasty]
  for (let retry = 0; retry < 3; retry++) answers.push(await send(urls[1], victim))
  const log = second.log

  const [answer] = answers
  expect(answer?.status, log).toBe(row.declined ? 402 : 201)
  for (const each of answers) expect(lasting(each), log).toEqual(answer && lasting(answer))
  expect(answers.slice(2).every(({ replayed }) => replayed)).toBe(true)
  const isFirstReplay = answers.slice(0, 2).every(({ replayed }) => replayed)
  expect(isFirstReplay, 'only replays of the answer of the dead server').toBe(
    row.retry === 'replayed',
  )
  const charges = { [other.key]: 1, ...(row.declined ? {} : { [victim.key]: 1 }) }
  expect(await ledger.charges()).toEqual(charges)
  await nothingIsLeft(ledger)
}

/** A request leaves a row in state `d` and its answer, and nothing else. */
export async function nothingIsLeft({ pool }: Ledger): Promise<void> {
  await until(
    async () => {
      const { rows } = await pool.query(`
        select (select count(*)::int from onceward.failed_events) as failed,
               (select count(*)::int from onceward.refused_messages) as refused,
               (select count(*)::int from onceward.processed_events where state <> 'd') as troubled`)
      return rows[0].failed + rows[0].refused + rows[0].troubled === 0
    },
    { what: 'no trace of the dead run' },
  )
}

interface Doomed extends AsyncDisposable {
  readonly server: ServerProcess
  reached(): Promise<unknown>
  die(): Promise<void>
}

export async function firstServer(
  config: ServerConfig,
  death: Scenario['row']['death'],
  { charge, key }: Payment,
): Promise<Doomed> {
  if (death.kind === 'at') {
    const server = new ServerProcess({ ...config, crash: { at: death.point, key } })
    return {
      server,
      reached: () => server.atPoint(),
      die: async () => expect(await server.die()).toBe('SIGKILL'),
      [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
    }
  }
  const { arrives, kind } = death
  const target = targetOf(config.databaseUrl)
  const severed = await (kind === 'at-park'
    ? severStatement(target, { text: key, arrives })
    : severCommit(target, {
        ...{ text: `${key}\0\0\0\u0003${charge.cents}`, arrives, by: 'silence' },
      }))
  const server = new ServerProcess({
    ...config,
    databaseUrl: through(config.databaseUrl, severed.proxy),
  })
  return {
    server,
    reached: () => severed.reached,
    die: () => server.kill(),
    [Symbol.asyncDispose]: async () => {
      await server[Symbol.asyncDispose]()
      await severed.proxy.stop()
    },
  }
}
