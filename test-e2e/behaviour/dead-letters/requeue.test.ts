// @module-tag nightly

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { createGuard, FatalError } from '@onceward/core'
import { migrate } from '@onceward/postgres'
import { pgInbox } from '@onceward/postgres/pg'
import { database, skipped, until } from '@onceward/testing'
import { Pool } from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { RunningBroker } from '../../brokers/broker.ts'
import { BROKER_NAMES, BROKERS, type BrokerName } from '../../brokers/index.ts'

const PROGRAM = fileURLToPath(
  new URL('../../../packages/onceward/bin/onceward.js', import.meta.url),
)
const idOf = (payload: unknown): string => (payload as { readonly id: string }).id
const quiet = (): void => undefined
const logger = { debug: quiet, info: quiet, warn: quiet, error: quiet }

interface Ended {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

/** A consumer whose first handler gives every order up, and the command line beside it. */
async function openScenario(name: BrokerName, broker: RunningBroker) {
  const { url } = await database()
  const pool = new Pool({ connectionString: url, max: 6 })
  pool.on('error', quiet)
  await migrate(pool)
  await pool.query('create table effects (id text not null)')
  const queue = await broker.createQueue({ takesCopies: true })

  async function consume(mayWork: boolean, isDone: () => Promise<boolean>): Promise<void> {
    const guard = createGuard(
      {
        ...{ consumer: 'letters', inbox: pgInbox(pool), logger },
        eventKey: ({ payload }) => idOf(payload),
      },
      async ({ payload }, { tx }) => {
        if (!mayWork) throw new FatalError('no')
        await tx.query('insert into effects (id) values ($1)', [idOf(payload)])
      },
    )
    const { consume: start } = await BROKERS[name].consumer()
    const consumption = await start(queue.source, guard, { onReceive: quiet })
    await until(isDone, { what: 'the orders to be handled', deadlineMs: 90_000 })
    await consumption.drain()
    await guard.close()
  }

  const count = async (text: string): Promise<number> =>
    (await pool.query<{ n: number }>(`select count(*)::int as n from ${text}`)).rows[0]?.n ?? 0
  const dead = () => count("onceward.processed_events where state = 'x'")
  const effects = () => count('effects')

  function start(args: readonly string[], { address, env: own } = queue.operator): ChildProcess {
    const { PATH = '' } = process.env
    const env = { PATH, DATABASE_URL: url, ...own }
    const all = ['dead-letters', ...args, ...(args[0] === 'list' ? [] : ['--broker', address])]
    return spawn(process.execPath, [PROGRAM, ...all], { env, stdio: ['ignore', 'pipe', 'pipe'] })
  }
  async function ended(child: ChildProcess): Promise<Ended> {
    const texts = { stdout: '', stderr: '' }
    child.stdout?.on('data', (chunk: Buffer) => (texts.stdout += chunk.toString()))
    child.stderr?.on('data', (chunk: Buffer) => (texts.stderr += chunk.toString()))
    const [code] = (await once(child, 'close')) as [number | null]
    return { code, ...texts }
  }

  return {
    ...{ pool, queue, dead, effects, start, ended, count },
    /** An order that is dead, and no consumer runs. */
    die: async (): Promise<string> => {
      await queue.send([{ id: 'order-1' }])
      await consume(false, async () => (await dead()) === 1 && (await queue.depth()) === 0)
      const { rows } = await pool.query('select event_id::text as id from onceward.failed_events')
      return rows[0].id
    },
    /** The order runs from the queue until nothing is left there. */
    live: () => consume(true, async () => (await effects()) > 0 && (await queue.depth()) === 0),
    run: (...args: readonly string[]): Promise<Ended> => ended(start(args)),
    audit: async (): Promise<readonly string[]> =>
      (await pool.query('select action from onceward.audit order by id')).rows.map(
        ({ action }) => action,
      ),
    listed: async (): Promise<readonly { readonly isRequeued: boolean }[]> =>
      JSON.parse((await ended(start(['list', '--json']))).stdout).letters,
    /** Resolves when the command waits for a lock. */
    waits: () =>
      until(
        async () =>
          (await count(
            "pg_stat_activity where datname = current_database() and application_name = 'onceward' and wait_event_type = 'Lock'",
          )) === 1,
        { what: 'a command that waits for a lock' },
      ),
    [Symbol.asyncDispose]: async () => {
      await queue.close()
      await pool.end()
    },
  }
}

type Scenario = Awaited<ReturnType<typeof openScenario>>

/** Holds a row of the dead letter until it is released. */
async function hold({ pool }: Scenario, table: string): Promise<() => Promise<void>> {
  const client = await pool.connect()
  await client.query(`begin; select from onceward.${table} for update`)
  return async () => {
    await client.query('rollback')
    client.release()
  }
}

/** Begins a requeue that hangs in the send: the event is free, and the broker is frozen. */
async function hangsInSend(
  scenario: Scenario,
  broker: RunningBroker,
  id: string,
): Promise<ChildProcess> {
  const release = await hold(scenario, 'processed_events')
  const child = scenario.start(['requeue', id, '--yes'])
  await scenario.waits()
  await broker.server.kill('SIGSTOP')
  await release()
  await until(async () => (await scenario.audit()).includes('requeue'), { what: 'the first step' })
  return child
}

async function killed(child: ChildProcess): Promise<void> {
  child.kill('SIGKILL')
  await once(child, 'exit')
}

describe.each(BROKER_NAMES)('dead-letters requeue: %s', (name) => {
  const { acceptance } = BROKERS[name].servers
  const isSkipped = skipped(acceptance.service)
  let broker: RunningBroker
  beforeAll(async () => {
    if (!isSkipped) broker = await acceptance.start()
  })
  afterAll(() => broker?.server.stop())

  test.skipIf(isSkipped)(
    'two operators send a dead letter back, and it runs once, from its queue',
    async () => {
      await using scenario = await openScenario(name, broker)
      const id = await scenario.die()
      const both = await Promise.all([1, 2].map(() => scenario.run('requeue', id, '--yes')))
      const [first, second] = both.toSorted((a, b) => Number(a.code) - Number(b.code))
      expect(first).toEqual({ code: 0, stdout: '1 dead letter sent back.\n', stderr: '' })
      expect(second?.stdout).toMatch(/another process publishes, sends|it waits or runs already/)
      await scenario.live()
      expect(await scenario.effects()).toBe(1)
      expect(await scenario.audit()).toEqual(['requeue', 'requeued'])
      expect(await scenario.count('onceward.failed_events')).toBe(0)
    },
  )

  test.skipIf(isSkipped)(
    'a broker that is not there, and another one, change nothing',
    async () => {
      await using scenario = await openScenario(name, broker)
      const id = await scenario.die()
      const nowhere = (text: string): string => text.replace(/[\w.-]+:\d+/, '127.0.0.1:1')
      const { address, env } = scenario.queue.operator
      const variables = Object.entries(env).map(([name, value]) => [name, nowhere(value)])
      const away = { address: nowhere(address), env: Object.fromEntries(variables) }
      const gone = await scenario.ended(scenario.start(['requeue', id, '--yes'], away))
      expect(gone.code).toBe(3)
      expect(gone.stderr).toMatch(/^onceward: No answer from [\w ]+ at 127\.0\.0\.1:1/)
      const other = {
        address: name === 'amqp' ? 'kafka://127.0.0.1:1' : 'amqp://127.0.0.1:1',
        env: {},
      }
      const foreign = await scenario.ended(scenario.start(['requeue', '--all', '--yes'], other))
      expect(foreign).toMatchObject({ code: 1, stderr: '' })
      expect(foreign.stdout).toContain('it came from a queue that no --broker names')
      expect(await scenario.audit()).toEqual([])
      expect(await scenario.dead()).toBe(1)
    },
  )

  // Red when the message is deleted before the broker has confirmed it.
  test.skipIf(isSkipped)(
    'killed while the broker hangs, it is still listed, and a second try gives one effect',
    async ({ skip }) => {
      skip(!broker.server.canKill, 'the server cannot be frozen')
      await using scenario = await openScenario(name, broker)
      const id = await scenario.die()
      await killed(await hangsInSend(scenario, broker, id))
      await broker.server.kill('SIGCONT')
      expect(await scenario.listed()).toMatchObject([{ isRequeued: true }])
      const held = await scenario.run('requeue', id, '--yes')
      expect(held.stdout).toContain('try again in 30 s')
      await scenario.pool.query('update onceward.failed_events set publish_until = now()')
      expect(await scenario.run('requeue', id, '--yes')).toMatchObject({ code: 0 })
      await scenario.live()
      expect(await scenario.effects()).toBe(1)
      expect(await scenario.listed()).toEqual([])
    },
  )

  // Red when a copy that arrives before the mark is taken for dead.
  test.skipIf(isSkipped)(
    'killed between the confirmation and its mark, the copy runs, and nothing is left',
    async ({ skip }) => {
      skip(!broker.server.canKill, 'the server cannot be frozen')
      await using scenario = await openScenario(name, broker)
      const id = await scenario.die()
      const child = await hangsInSend(scenario, broker, id)
      const release = await hold(scenario, 'failed_events')
      await broker.server.kill('SIGCONT')
      await scenario.waits()
      await killed(child)
      await release()
      expect(await scenario.listed()).toMatchObject([{ isRequeued: true }])
      await scenario.live()
      expect(await scenario.effects()).toBe(1)
      expect(await scenario.listed()).toEqual([])
      expect(await scenario.count('onceward.failed_events')).toBe(0)
    },
  )

  test.skipIf(isSkipped)(
    'a broker that stays silent is given up, and the dead letter is listed',
    async ({ skip }) => {
      skip(!broker.server.canKill, 'the server cannot be frozen')
      await using scenario = await openScenario(name, broker)
      const id = await scenario.die()
      const child = await hangsInSend(scenario, broker, id)
      const { code, stdout, stderr } = await scenario.ended(child)
      await broker.server.kill('SIGCONT')
      expect(code).toBe(3)
      expect(stdout).toMatch(/^0 dead letters sent back\.\n.*its copy may be in the queue/)
      expect(stderr).toMatch(/^onceward: The broker did not confirm the message/)
      expect(await scenario.listed()).toMatchObject([{ isRequeued: true }])
      expect(await scenario.run('requeue', id, '--yes')).toMatchObject({ code: 0 })
      await scenario.live()
      expect(await scenario.effects()).toBe(1)
    },
  )
})
