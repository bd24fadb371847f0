import { migrate } from '@onceward/postgres'
import { freePort, type PostgresServer, postgres } from '@onceward/testing'
import { Pool } from 'pg'
import { audit, createOrders, type Ledger } from '../database.ts'
import { bar, type Progress } from '../progress.ts'
import { line, RULE } from '../report.ts'
import { BadNetwork } from './bad-network.ts'
import { payAll } from './phones.ts'
import { Shop } from './shop.ts'

export interface HttpDemo {
  readonly orders: number
  readonly kills: number
  readonly progress: Progress
  readonly signal: AbortSignal
}

export interface HttpRun extends Ledger {
  readonly requests: number
  readonly cut: number
  readonly kills: number
}

export interface HttpResult {
  readonly durationMs: number
  readonly unguarded: HttpRun
  readonly guarded: HttpRun
}

/** Phones pay orders through a tunnel while the server is killed: first without the guard, then with it. */
export async function httpDemo(options: HttpDemo): Promise<HttpResult> {
  const startedAt = performance.now()
  const { progress, orders, kills } = options
  progress.move('starting Postgres …')
  await using database = await postgres()
  progress.move()
  progress.line(
    `12 phones pay ${orders} orders, each with one key until it is answered; one connection in five is cut, ` +
      `the server is killed ${kills} times`,
  )
  const unguarded = await runOnce(options, database, 'without')
  const guarded = await runOnce(options, database, 'with')
  return { durationMs: performance.now() - startedAt, unguarded, guarded }
}

async function runOnce(
  { orders, kills, progress, signal }: HttpDemo,
  database: PostgresServer,
  guard: 'with' | 'without',
): Promise<HttpRun> {
  const databaseUrl = await database.createDatabase()
  const pool = new Pool({ connectionString: databaseUrl, max: 2 })
  // pool.end() does not wait until its connections are closed, so that the server may end them first.
  pool.on('error', () => undefined)
  try {
    await createOrders(pool, orders)
    if (guard === 'with') await migrate(pool)
    progress.line(`\n${guard} the guard`)
    await using shop = new Shop(`${guard}-guard.ts`, { databaseUrl, port: await freePort() })
    await shop.open()
    await using network = await BadNetwork.between(shop.port)
    let requests = 0
    let killing: Promise<void> = Promise.resolve()
    await payAll({
      ...{ port: network.port, orders, signal },
      onRequest: () => {
        requests += 1
      },
      onPaid: (paid) => {
        const due = Math.floor((paid * (kills + 1)) / (orders + 1))
        if (due > shop.kills) {
          killing = shop.kill()
          progress.line(`  server killed by SIGKILL after ${paid} answers`)
        }
        progress.move(`  ${bar(paid, orders)} ${paid}/${orders} answered · ${requests} requests`)
      },
    })
    await killing
    progress.move()
    const ledger = await audit(pool, [])
    progress.line(`  ${ledger.effects} charges for ${ledger.events} orders`)
    return { ...ledger, requests, cut: network.cut, kills: shop.kills }
  } finally {
    await pool.end()
  }
}

/** Whether the guard kept its promise. */
export const isExactHttp = ({ guarded }: HttpResult): boolean =>
  guarded.lost === 0 && guarded.doubled === 0 && guarded.wrongAccounts === 0

export function httpTable({ unguarded, guarded }: HttpResult): string {
  const row = (label: string, cell: (run: HttpRun) => number | string): string =>
    line(label, String(cell(unguarded)), String(cell(guarded)))
  return [
    line('counted in Postgres, by order', 'without the guard', 'with the guard'),
    RULE,
    row('orders', ({ events }) => events),
    row('requests', ({ requests }) => requests),
    row('connections cut', ({ cut }) => cut),
    row('servers killed', ({ kills }) => kills),
    row('charges', ({ effects }) => effects),
    row('orders never charged', ({ lost }) => lost),
    row('orders charged more than once', ({ doubled }) => doubled),
    row('accounts with a wrong balance', (of) => `${of.wrongAccounts} of ${of.accounts}`),
    row('taken too much', ({ excessCents }) => (excessCents / 100).toFixed(2)),
  ].join('\n')
}

export function httpVerdict(result: HttpResult): string {
  const { events, requests, cut, kills } = result.guarded
  return isExactHttp(result)
    ? `With the guard every order was charged once: ${events} orders, ${requests} requests, ${cut} cut connections, ${kills} killed servers.`
    : 'The guard FAILED: see the right column. Please report this, with the output above.'
}
