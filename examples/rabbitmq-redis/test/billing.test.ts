import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { after, test } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { Pool } from 'pg'
import { databaseUrl } from '../src/settings.ts'

const ORDERS = 300
const pool = new Pool({ connectionString: databaseUrl })
after(() => pool.end())

/** What the processes write, a line for each charge, is shown only if the test fails. */
let written = ''
let hasPassed = false
after(() => {
  if (!hasPassed) console.error(written.slice(-20_000))
})

function run(file: string, ...args: string[]): ChildProcess {
  const child = spawn(process.execPath, [`src/${file}.ts`, ...args], {
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  child.stderr?.on('data', (chunk: Buffer) => {
    written += chunk.toString()
  })
  return child
}

async function runToEnd(file: string, ...args: string[]): Promise<void> {
  const [code] = await once(run(file, ...args), 'exit')
  assert.equal(code, 0, `src/${file}.ts failed`)
}

interface Count {
  readonly orders: number
  readonly charges: number
}

async function until(isWanted: (count: Count) => boolean): Promise<void> {
  while (!isWanted(await charged())) await setTimeout(20)
}

async function charged(): Promise<Count> {
  const { rows } = await pool.query<Count>(
    'select count(distinct order_id)::int as orders, count(*)::int as charges from charges',
  )
  return rows[0] ?? { orders: 0, charges: 0 }
}

test('charges every order once, though each was sent twice and the worker was killed', {
  timeout: 180_000,
}, async () => {
  await runToEnd('setup')
  await pool.query('truncate charges')
  let worker = run('worker')
  try {
    await runToEnd('send', `${ORDERS}`)
    await until(({ charges }) => charges > 0)
    worker.kill('SIGKILL')
    await once(worker, 'exit')

    worker = run('worker')
    await until(({ orders }) => orders === ORDERS)
    // The worker finishes what it has begun, so a second charge would be there afterwards.
    worker.kill('SIGTERM')
    await once(worker, 'exit')
    assert.deepEqual(await charged(), { orders: ORDERS, charges: ORDERS })
    hasPassed = true
  } finally {
    worker.kill('SIGKILL')
  }
})
