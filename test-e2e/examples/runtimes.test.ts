// @module-tag nightly

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { until } from '@onceward/testing'
import { Pool } from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { linkPacked, packAll, run, type Tarballs } from './projects.ts'
import { startServers } from './servers.ts'

const ORDERS = 200
/** As docs/runtimes.md starts them; both come from npm. */
const RUNTIMES = {
  bun: ['bun'],
  deno: ['deno', 'run', '--allow-all', '--node-modules-dir=manual'],
} as const

let tarballs: Tarballs

beforeAll(async () => {
  tarballs = await packAll()
  const install = ['install', '--no-save', '--no-audit', '--no-fund', '--prefix']
  await run('npm', [...install, tarballs.folder('runtimes'), ...Object.keys(RUNTIMES)])
})
afterAll(() => tarballs[Symbol.asyncDispose]())

async function create(example: string, runtime: string): Promise<string> {
  const folder = tarballs.folder(`${example}-${runtime}`)
  const options = ['--example', example, '--packages', tarballs.directory]
  await run(process.execPath, [tarballs.create, folder, ...options])
  await linkPacked(tarballs, folder)
  return folder
}

const examples = ['sqs-express-orders', 'kafka-kysely', 'rabbitmq-redis']

describe.each(Object.keys(RUNTIMES) as (keyof typeof RUNTIMES)[])('on %s', (runtime) => {
  test.each(examples)(
    '%s charges every order once, though its worker is killed',
    async (example) => {
      const folder = await create(example, runtime)
      await using servers = await startServers(example)
      const env = { ...process.env, ...servers.env }
      const [command, ...args] = RUNTIMES[runtime]
      const program = join(tarballs.folder('runtimes'), 'node_modules/.bin', command)
      const started: ChildProcess[] = []
      const output: string[] = []
      const start = (file: string): ChildProcess => {
        const child = spawn(program, [...args, `src/${file}.ts`], { cwd: folder, env })
        for (const stream of [child.stdout, child.stderr]) {
          stream?.on('data', (part: Buffer) => output.push(part.toString()))
        }
        started.push(child)
        return child
      }
      await using pool = poolOf(servers.env['DATABASE_URL'] ?? '')
      try {
        await once(start('setup'), 'exit')
        if (example === 'sqs-express-orders') {
          start('api')
          const { PORT = '' } = servers.env
          await until(() => fetch(`http://localhost:${PORT}`).then(() => true))
        }
        const send = spawn(process.execPath, ['src/send.ts', `${ORDERS}`], { cwd: folder, env })
        expect(await once(send, 'exit')).toEqual([0, null])

        const worker = start('worker')
        const what = (): string => output.join('').slice(-4_000)
        await until(async () => {
          expect((await pool.count()).charges, what()).toBeGreaterThan(0)
          return true
        })
        worker.kill('SIGKILL')
        const next = start('worker')
        await until(async () => {
          expect((await pool.count()).orders, what()).toBe(ORDERS)
          return true
        })
        const ended = once(next, 'exit')
        next.kill('SIGTERM')
        expect(await ended, what()).toEqual([0, null])
        expect(await pool.count()).toEqual({ orders: ORDERS, charges: ORDERS })
      } finally {
        for (const child of started) child.kill('SIGKILL')
      }
    },
  )
})

interface Charges extends AsyncDisposable {
  count(): Promise<{ orders: number; charges: number }>
}

function poolOf(connectionString: string): Charges {
  const pool = new Pool({ connectionString })
  const text =
    'select count(distinct order_id)::int as orders, count(*)::int as charges from charges'
  return {
    count: async () => (await pool.query(text)).rows[0],
    [Symbol.asyncDispose]: () => pool.end(),
  }
}
