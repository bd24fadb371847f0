// @module-tag nightly

import { randomUUID } from 'node:crypto'
import { type EventEmitter, getEventListeners } from 'node:events'
import { ConfigurationError, type Consumption, createGuard, type Inbox } from '@onceward/core'
import { portOf } from '@onceward/core/adapter'
import { memoryInbox } from '@onceward/core/memory'
import { migrate } from '@onceward/postgres'
import { pgInbox } from '@onceward/postgres/pg'
import { redisLeases } from '@onceward/redis'
import { database, redis, type ServiceName, skipped, until } from '@onceward/testing'
import { Redis } from 'ioredis'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { BROKER_NAMES, BROKERS } from '../../brokers/index.ts'
import { type FailedStart, type FailedStartSubject, network } from '../../support/failed-start.ts'
import { type FailingStep, failingStep, withFailingStep } from '../../support/failing-step.ts'
import { listenersOf, resources, watchedRuntime } from '../../support/left-behind.ts'

const silent = { debug() {}, info() {}, warn() {}, error() {} }

const configuration = (): Error => new ConfigurationError('it can never work')

/** The stores of a guard, one step of whose clients fails: what the adapters have in common. */
async function onStores(): Promise<FailedStartSubject> {
  const cache = await redis()
  const pool = new pg.Pool({ connectionString: (await database()).url, max: 4 })
  pool.on('error', () => undefined)
  await migrate(pool)
  const ioredis = new Redis(cache.connection.url)
  let now = failingStep(0, network)
  const connecting = { steps: ['connect', 'query'], factories: ['connect'] }
  const inbox = pgInbox(withFailingStep(pool, connecting, () => now)) as Inbox<unknown>
  const leases = redisLeases(withFailingStep(ioredis, { steps: ['evalsha', 'eval'] }, () => now))
  return {
    errors: {
      network,
      refused: () => Object.assign(new Error('permission denied'), { code: '42501' }),
    },
    emitters: () => ({ pool: pool as EventEmitter, redis: ioredis }),
    stores: (step) => {
      now = step
      return { inbox, leases }
    },
    consume: async ({ guard }) => {
      await portOf(guard).open()
      return undefined
    },
    stop: async () => {
      ioredis.disconnect()
      await pool.end()
      await cache.stop()
    },
  }
}

const SUBJECTS: readonly (FailedStart & { readonly service: ServiceName })[] = [
  ...(
    await Promise.all(
      BROKER_NAMES.map(async (name) => {
        const { service, failedStarts } = BROKERS[name]
        return (await failedStarts()).map((each) => ({ ...each, service }))
      }),
    )
  ).flat(),
  { title: 'the stores alone', service: 'postgres', start: onStores },
]

/** One start of which one step fails, and its end. */
async function startAndEnd(subject: FailedStartSubject, step: FailingStep) {
  const { runtime, timers } = watchedRuntime()
  const stop = new AbortController()
  const stores = subject.stores?.(step) ?? { inbox: memoryInbox() as Inbox<unknown> }
  const options = { ...stores, consumer: randomUUID(), runtime, logger: silent }
  const guard = createGuard(options as never, () => undefined)
  const start = { guard, signal: stop.signal, step }
  let consumption: Consumption | undefined
  let isRunning = true
  try {
    consumption = await subject.consume(start)
  } catch (error) {
    expect(error).toBeInstanceOf(Error)
    isRunning = false
  }
  consumption?.stopped.catch(() => undefined)
  await consumption?.drain()
  await guard.close()
  return { isRunning, timers, stop }
}

/** Clients of servers close their connections a moment later. */
async function noMoreThan(before: Readonly<Record<string, number>>, what: string): Promise<void> {
  await until(() => {
    const now = resources()
    const grown = Object.keys(now).filter((name) => (now[name] ?? 0) > (before[name] ?? 0))
    if (grown.length === 0) return true
    throw new Error(`after ${what}: ${JSON.stringify(now)}, before it ${JSON.stringify(before)}`)
  })
}

describe.each(SUBJECTS)('a start on $title', ({ service, start }) => {
  let subject: FailedStartSubject
  beforeAll(async () => {
    if (!skipped(service)) subject = await start()
  }, 200_000)
  afterAll(() => subject?.stop())

  test.skipIf(skipped(service))(
    'leaves no listener, no timer and no connection, whichever of its steps fails and however',
    async () => {
      // What the user's own clients keep open after their first call is theirs.
      await startAndEnd(subject, failingStep(0, network))
      await new Promise((resolve) => setImmediate(resolve))
      const before = { resources: resources(), listeners: listenersOf(subject.emitters()) }
      const failed: string[] = []
      const running: string[] = []
      for (const [kind, error] of Object.entries({ ...subject.errors, configuration })) {
        for (let at = 1; ; at++) {
          const step = failingStep(at, error)
          const { isRunning, timers, stop } = await startAndEnd(subject, step)
          const what = `${kind} at step ${at}, ${step.failed}`
          if (step.failed === undefined) break
          void (isRunning ? running : failed).push(what)
          await until(() => timers.size === 0, { what: `no timer after ${what}` })
          expect(getEventListeners(stop.signal, 'abort'), what).toEqual([])
          expect(listenersOf(subject.emitters()), what).toEqual(before.listeners)
          await noMoreThan(before.resources, what)
        }
      }
      // Of the brokers, both ways to fail were seen: a start that rejects, and a consumer that goes on trying.
      expect(failed.length).toBeGreaterThan(1)
      if (subject.stores === undefined) expect(running.length).toBeGreaterThan(1)
    },
  )
})
