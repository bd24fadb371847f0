import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { Pool } from 'pg'
import { expect, test } from 'vitest'

const MAIN = join(import.meta.dirname, '../../scripts/main.mjs')

test('npm run servers names the servers of the example, and ends them with Ctrl-C', async () => {
  // A terminal sends SIGINT to the whole group.
  const child = spawn(process.execPath, [MAIN, 'servers'], {
    ...{ detached: true, stdio: ['ignore', 'pipe', 'ignore'] },
  })
  const exit = once(child, 'exit')
  const found = new Map<string, string>()
  for await (const line of createInterface({ input: child.stdout })) {
    const [, name = '', value = ''] = /^export (\w+)='(.*)'$/.exec(line) ?? []
    found.set(name, value)
    if (name === 'SQS_ENDPOINT') break
  }
  expect([...found.keys()]).toEqual(['DATABASE_URL', 'SQS_ENDPOINT'])
  const ask = async (): Promise<unknown> => {
    const pool = new Pool({ connectionString: found.get('DATABASE_URL'), max: 1 })
    try {
      return await pool.query('select 1 as one')
    } finally {
      await pool.end()
    }
  }
  expect(await ask()).toMatchObject({ rows: [{ one: 1 }] })
  expect((await fetch(found.get('SQS_ENDPOINT') ?? '')).status).toBeGreaterThan(0)

  process.kill(-Number(child.pid), 'SIGINT')
  expect(await exit).toEqual([0, null])
  await expect(ask()).rejects.toThrow('ECONNREFUSED')
  await expect(fetch(found.get('SQS_ENDPOINT') ?? '')).rejects.toThrow('fetch failed')
})
