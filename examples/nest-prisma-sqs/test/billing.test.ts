import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { after, test } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { Pool } from 'pg'
import { databaseUrl } from '../src/settings.ts'

const ORDERS = 100
const pool = new Pool({ connectionString: databaseUrl })
after(() => pool.end())

/** What the processes write, a line for each charge, is shown only if the test fails. */
let written = ''
let hasPassed = false
after(() => {
  if (!hasPassed) console.error(written.slice(-20_000))
})

function run(file: string, ...args: string[]): ChildProcess {
  const child = spawn(process.execPath, [file, ...args], { stdio: ['ignore', 'ignore', 'pipe'] })
  child.stderr?.on('data', (chunk: Buffer) => {
    written += chunk.toString()
  })
  return child
}

async function runToEnd(file: string, ...args: string[]): Promise<void> {
  const [code] = await once(run(file, ...args), 'exit')
  assert.equal(code, 0, `${file} failed`)
}

type Counts = Record<'orders' | 'charges' | 'ticks' | 'reports', number>

async function until(isWanted: (counts: Counts) => boolean): Promise<void> {
  while (!isWanted(await counted())) await setTimeout(20)
}

async function counted(): Promise<Counts> {
  const { rows } = await pool.query<Counts>(
    `select count(distinct order_id)::int as orders, count(*)::int as charges,
      (select count(distinct at)::int from reports) as ticks,
      (select count(*)::int from reports) as reports
    from charges`,
  )
  return rows[0] ?? { orders: 0, charges: 0, ticks: 0, reports: 0 }
}

test('charges every order once, and reports each tick once, though the worker was killed', {
  timeout: 300_000,
}, async () => {
  await runToEnd('src/setup.ts')
  await pool.query('truncate charges, reports')
  // Two replicas, of which one is killed.
  const workers = [run('dist/main.js'), run('dist/main.js')]
  try {
    await runToEnd('src/send.ts', `${ORDERS}`)
    await until(({ charges }) => charges > 0)
    workers[0]?.kill('SIGKILL')
    workers[0] = run('dist/main.js')

    await until(({ orders, ticks }) => orders === ORDERS && ticks > 1)
    // The workers finish what they have begun, so a second charge would be there afterwards.
    for (const worker of workers) worker.kill('SIGTERM')
    await Promise.all(workers.map((worker) => once(worker, 'exit')))
    const { orders, charges, ticks, reports } = await counted()
    assert.deepEqual(
      { orders, charges, reports },
      { orders: ORDERS, charges: ORDERS, reports: ticks },
    )
    hasPassed = true
  } finally {
    for (const worker of workers) worker.kill('SIGKILL')
  }
})
