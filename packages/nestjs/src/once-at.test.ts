import 'reflect-metadata'
import { Injectable, type NestInterceptor, UseInterceptors } from '@nestjs/common'
import { Cron, ScheduleModule, SchedulerRegistry } from '@nestjs/schedule'
import { Test, type TestingModule } from '@nestjs/testing'
import { InProgressError, type Outbox, StoreUnavailableError } from '@onceward/core'
import { memoryInbox } from '@onceward/core/memory'
import { map } from 'rxjs'
import { expect, onTestFinished, test } from 'vitest'
import {
  OnceAt,
  OncewardModule,
  type OncewardModuleOptions,
  OncewardTesting,
  Send,
  Tick,
  Tx,
} from './index.ts'
import type { CronJob } from './schedule.ts'
import { Ticks } from './ticks.ts'

/** No tick comes while the tests run. */
const YEARLY = ['0 0 1 1 *', { timeZone: 'UTC' }] as const
const lastTick = (): Date => new Date(Date.UTC(new Date().getUTCFullYear(), 0, 1))
const options = { consumer: 'reports', dedupWindowMs: 366 * 24 * 3_600_000 }

interface Writing {
  write(...given: unknown[]): Promise<unknown>
}
type Provider = new () => object

/** A replica of the application. */
async function start(provider: Provider, given: OncewardModuleOptions): Promise<TestingModule> {
  Injectable()(provider)
  const module = await Test.createTestingModule({
    imports: [ScheduleModule.forRoot(), OncewardModule.forRoot(given)],
    providers: [provider],
  }).compile()
  await module.init()
  onTestFinished(() => module.close())
  return module
}

const reportsOf = (module: TestingModule, provider: Provider): Writing => module.get(provider)

test('a tick runs once among two replicas, with guards and interceptors, and both get the answer', async () => {
  const runs: unknown[] = []
  class Doubling implements NestInterceptor {
    intercept: NestInterceptor['intercept'] = (_, next) =>
      next.handle().pipe(map((value) => ({ twice: value })))
  }
  class Reports {
    @UseInterceptors(Doubling)
    @Cron('0 0 1 1 *', { name: 'reports', timeZone: 'UTC' })
    @OnceAt(options)
    async write(@Tick() tick: Date, @Tx() tx: unknown, @Send() outbox: Outbox): Promise<number> {
      outbox.send({ to: 'mails', payload: {} })
      return runs.push([tick, tx])
    }
  }
  const inbox = memoryInbox({ name: 'tx' })
  const replicas = [await start(Reports, { inbox }), await start(Reports, { inbox })]
  const tick = lastTick()
  const answers = await Promise.all(replicas.map((each) => reportsOf(each, Reports).write()))
  expect(answers).toEqual([{ twice: 1 }, { twice: 1 }])
  expect(runs).toEqual([[tick, { name: 'tx' }]])
  expect(inbox.sent()).toHaveLength(1)
})

test('the scheduler runs it, in any order of the decorators and without a name', async () => {
  const runs: Date[] = []
  class Reports {
    @OnceAt(options)
    @Cron(...YEARLY)
    async write(@Tick() tick: Date): Promise<void> {
      runs.push(tick)
    }
  }
  const module = await start(Reports, { inbox: memoryInbox() })
  const [job] = module.get(SchedulerRegistry).getCronJobs().values()
  const tick = lastTick()
  await job?.fireOnTick()
  await job?.fireOnTick()
  await expect.poll(() => runs).toEqual([tick])
})

test('a failed run is the error of its replica, and the next one runs the tick', async () => {
  let runs = 0
  class Reports {
    @Cron(...YEARLY)
    @OnceAt(options)
    async write(): Promise<string> {
      runs += 1
      if (runs === 1) throw new Error('not yet')
      return 'written'
    }
  }
  const inbox = memoryInbox()
  const one = reportsOf(await start(Reports, { inbox }), Reports)
  const other = reportsOf(await start(Reports, { inbox }), Reports)
  await expect(one.write()).rejects.toThrow('not yet')
  expect(await other.write()).toBe('written')
  expect(await one.write()).toBe('written')
  expect(runs).toBe(2)
})

test('a process with `consume: false` runs no ticks, and a test delivers them', async () => {
  const runs: Date[] = []
  class Reports {
    @Cron(...YEARLY)
    @OnceAt(options)
    async write(@Tick() tick: Date): Promise<void> {
      runs.push(tick)
    }
  }
  Injectable()(Reports)
  const builder = Test.createTestingModule({
    imports: [ScheduleModule.forRoot(), OncewardModule.forRoot({})],
    providers: [Reports],
  })
  const module = await OncewardTesting.module(builder)
  onTestFinished(() => module.close())
  await module.get(Reports).write(undefined as never)
  expect(runs).toEqual([])
  const tick = '2026-11-29T03:00:00.000Z'
  expect(await module.deliverTwice('reports', { tick })).toMatchObject([
    { kind: 'ack', by: 'processed' },
    { kind: 'ack', by: 'duplicate' },
  ])
  expect(runs).toEqual([new Date(tick)])
})

test('without Nest the method is as it was written, unless nobody gives it anything', async () => {
  class Reports {
    @Cron(...YEARLY)
    @OnceAt(options)
    async write(@Tick() tick: Date): Promise<Date> {
      return tick
    }
  }
  const tick = new Date()
  expect(await new Reports().write(tick)).toBe(tick)
  expect(() => new Reports().write(undefined as never)).toThrow('needs OncewardModule')
})

test('wrong uses are refused at start', async () => {
  class WithoutCron {
    @OnceAt(options)
    async write(): Promise<void> {}
  }
  const inbox = memoryInbox()
  await expect(start(WithoutCron, { inbox })).rejects.toThrow(
    'WithoutCron.write has @OnceAt and no @Cron',
  )
  expect(() => OnceAt({ consumer: 'reports', queueUrl: 'x' } as never)).toThrow('queueUrl')
})

test('a call long after the last tick is refused, because nobody knows whether that has run', async () => {
  class Reports {
    @Cron('0 0 1 1 *', { timeZone: 'UTC' })
    @OnceAt({ consumer: 'reports', dedupWindowMs: 3_600_000 })
    async write(): Promise<void> {}
  }
  const reports = reportsOf(await start(Reports, { inbox: memoryInbox() }), Reports)
  await expect(reports.write()).rejects.toThrow('`dedupWindowMs`')
})

const everySecond: CronJob = {
  cronTime: {
    ...{ source: '* * * * * *', realDate: false },
    getNextDateFrom: (start) => at(Math.floor(start.toMillis() / 1_000) * 1_000 + 1_000),
  },
  nextDate: () => at(Math.ceil((Date.now() + 1) / 1_000) * 1_000),
}
const at = (ms: number): ReturnType<CronJob['nextDate']> => ({
  toMillis: () => ms,
  minus: ({ milliseconds }) => at(ms - milliseconds),
})

test('a tick whose store is down or that runs elsewhere is called again with its key, until the next tick if the store stays down', async () => {
  const errors: unknown[] = [
    new StoreUnavailableError('down'),
    new InProgressError('busy', { afterMs: 5 }),
  ]
  const keys = new Set<string>()
  const once = async ({ key }: { readonly key: string }): Promise<string> => {
    keys.add(key)
    if (errors.length > 0) throw errors.shift()
    return 'done'
  }
  const parts = { name: 'reports', dedupWindowMs: undefined, job: async () => everySecond }
  expect(await new Ticks({ ...parts, once }).run()).toBe('done')
  expect(keys.size).toBe(1)

  const down = async (): Promise<never> => Promise.reject(new StoreUnavailableError('down'))
  const ticks = new Ticks({ ...parts, once: down })
  const first = ticks.run()
  // The next tick begins while the first one waits.
  const outcome = expect(first).rejects.toBeInstanceOf(StoreUnavailableError)
  let isOver = false
  void outcome.then(() => {
    isOver = true
  })
  const later: Promise<unknown>[] = []
  while (!isOver) {
    later.push(ticks.run().catch(() => undefined))
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
  await outcome
  ticks.stop()
  await Promise.all(later)
})

test('a tick that waits when the application ends stops waiting', async () => {
  const busy = async (): Promise<never> =>
    Promise.reject(new InProgressError('busy', { afterMs: 60_000 }))
  const parts = { name: 'reports', dedupWindowMs: undefined, job: async () => everySecond }
  const ticks = new Ticks({ ...parts, once: busy })
  const run = ticks.run()
  ticks.stop()
  expect(await run).toBeUndefined()
})
