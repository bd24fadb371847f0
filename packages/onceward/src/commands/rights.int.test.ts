import { randomBytes } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { expect, test } from 'vitest'
import { openDatabase } from '../data/database.ts'
import type { Finding } from '../data/finding.ts'
import { readServer } from '../data/server-findings.ts'
import { answer, cli } from '../fixtures/cli.ts'
import { type Operated, operated } from '../fixtures/operated.ts'

const FILE = new URL('../../../../docs/least-privilege.sql', import.meta.url)

interface Roles extends AsyncDisposable {
  readonly operator: string
  readonly consumer: string
}

/** URLs of a login of each role, on this database. Roles belong to the whole server, so the names are their own. */
async function rolesOf({ pool, url }: Operated): Promise<Roles> {
  const suffix = randomBytes(4).toString('hex')
  const file = (await readFile(FILE, 'utf8'))
    .replaceAll(/onceward_(consumer|operator|relay)/g, `$&_${suffix}`)
    .replaceAll(':"schema"', 'onceward')
  await pool.query(file)
  await pool.query(`create role ops_${suffix} login in role onceward_operator_${suffix};
    create role app_${suffix} login in role onceward_consumer_${suffix}`)
  const roles = ['onceward_consumer', 'onceward_operator', 'onceward_relay', 'ops', 'app'].map(
    (name) => `${name}_${suffix}`,
  )
  return {
    operator: Object.assign(new URL(url), { username: `ops_${suffix}` }).href,
    consumer: Object.assign(new URL(url), { username: `app_${suffix}` }).href,
    [Symbol.asyncDispose]: async () => {
      await pool.query(`drop owned by ${roles.join()}; drop role ${roles.join()}`)
    },
  }
}

test('the role of operators is enough for every command that says so, and no more is given', async () => {
  await using at = await operated()
  await at.kill('order-1', 'no')
  await at.kill('order-2', 'no')
  await at.rest()
  await using roles = await rolesOf(at)
  const run = async (...args: readonly string[]): Promise<string> => {
    const { code, stderr } = await cli(args, { url: roles.operator })
    return `${code} ${stderr}`.trim()
  }
  expect(await run('status')).toBe('0')
  expect(await run('doctor')).toBe('1')
  expect(await run('migrate', '--check')).toBe('0')
  expect(await run('explain', 'order-1', '--consumer', 'billing', '--tenant', 'acme')).toBe('0')
  expect(await run('dead-letters', 'list')).toBe('0')
  expect(await run('dead-letters', 'replay', '--search', 'order-1', '--yes')).toBe('0')
  const forbidden = /^3 onceward: The database role lacks rights .*docs\/least-privilege\.sql\.$/
  expect(await run('dead-letters', 'replay', '--all', '--by', 'alice', '--yes')).toMatch(forbidden)
  expect(await run('dead-letters', 'discard', '--all', '--why', 'x', '--yes')).toBe('0')
  await at.pool.query(`insert into onceward.outbox_messages (bucket, state, message_id, destination, envelope, payload, failed_at)
    select 0, state::"char", state || n, 'pay', '{}', '{}', now() from unnest(array['x', 'q']) state, generate_series(1, 2) n`)
  expect(await run('outbox', 'list')).toBe('0')
  expect(await run('outbox', 'replay', 'x1')).toBe('0')
  expect(await run('outbox', 'discard', '--all', '--yes')).toBe('0')
  await using database = openDatabase(roles.operator, 'onceward')
  const changed = async (sql: string) => (await database.pool.query(sql)).rowCount
  expect(await changed('delete from onceward.outbox_messages')).toBe(0)
  expect(await changed("update onceward.outbox_messages set state = 'q'")).toBe(0)
  await expect(changed("update onceward.outbox_messages set payload = ''")).rejects.toThrow(
    'permission denied',
  )
  await at.pool.query("update onceward.consumers set seen_at = now() - interval '3 h'")
  expect(await run('remove', 'billing', '--leave-events')).toBe('0')
  expect(await run('sweep')).toMatch(forbidden)
  // Red before: the clock was confirmed for all guards, and then the sweep failed.
  expect(await run('sweep', '--trust-clock')).toMatch(forbidden)
  const { rows } = await at.pool.query('select clock from onceward.settings')
  expect(rows).toEqual([{ clock: 0 }])
  expect(await cli(['sweep'], { url: roles.consumer })).toMatchObject({ code: 0, stderr: '' })
})

// Red when sessions of other logins are told by their type, which only pg_monitor may see.
test('the connections of other logins count, also for a login without pg_monitor', async () => {
  await using at = await operated()
  await using roles = await rolesOf(at)
  const clients = await Promise.all(Array.from({ length: 5 }, () => at.pool.connect()))
  await using database = openDatabase(roles.operator, 'onceward')
  const { connections } = await database.read(readServer)
  for (const client of clients) client.release()
  expect(connections).toBeGreaterThan(clients.length)
})

test('the doctor says what the role of an earlier docs/least-privilege.sql lacks, with the statement', async () => {
  await using at = await operated()
  await at.send('order-1', {})
  await using roles = await rolesOf(at)
  const lacks = async (): Promise<readonly string[]> => {
    const { findings } = await answer<{ readonly findings: readonly Finding[] }>(['doctor'], {
      url: roles.operator,
    })
    return findings.filter(({ about }) => about === 'tables').map(({ remedy }) => remedy)
  }
  expect(await lacks()).toEqual([])
  const role = `onceward_operator_${new URL(roles.operator).username.slice('ops_'.length)}`
  await at.pool.query(`revoke select (epoch, sweep_cursor, swept_at) on onceward.settings from ${role};
    revoke select on onceward.leases, onceward.outbox_leases from ${role}`)
  const [remedy = ''] = await lacks()
  const [, statements = ''] =
    /^Run `(grant [^`]+; grant [^`]+; grant [^`]+)` as the owner/.exec(remedy) ?? []
  await at.pool.query(statements)
  expect(await lacks()).toEqual([])
})
