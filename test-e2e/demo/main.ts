import { once } from 'node:events'
import { postgres, ServerMissingError } from '@onceward/testing/servers'
import { BROKERS } from '../brokers/index.ts'
import { UsageError } from '../support/command-line.ts'
import { DemoConsole } from './console.ts'
import type { DemoBroker, DemoServer } from './demo-broker.ts'
import { httpDemo, httpTable, httpVerdict, isExactHttp } from './http/demo.ts'
import { HurtRedis } from './hurt-redis.ts'
import { type DemoOptions, parseOptions } from './options.ts'
import { isExactOutbox, outboxJson, outboxTable, outboxVerdict } from './outbox/report.ts'
import { runPhase } from './phase.ts'
import { announcements, killPlan, withPause } from './plan.ts'
import { Progress } from './progress.ts'
import { type DemoResult, isExact, table, toJson, verdict } from './report.ts'

const INTERRUPTED = 130

const CHARGES = { table, verdict, json: toJson, isExact }
const OUTBOX = {
  ...{ table: outboxTable, verdict: outboxVerdict, json: outboxJson, isExact: isExactOutbox },
}

/** @throws {@link UsageError} when this machine has no such server. */
async function start(
  broker: DemoBroker,
  { broker: name, client }: DemoOptions,
): Promise<DemoServer> {
  const { clients = [] } = broker
  if (client !== undefined && !clients.includes(client)) {
    const known = clients.length === 0 ? 'has one client only' : `has ${clients.join(', ')}`
    throw new UsageError(`unknown client: ${client}; --broker ${name} ${known}`)
  }
  return broker.start(client).catch((error: unknown) => {
    if (!(error instanceof ServerMissingError)) throw error
    throw new UsageError(`--broker ${name} needs ${broker.title}. ${error.message}`)
  })
}

interface Testbed {
  readonly progress: Progress
  readonly signal: AbortSignal
  report(result: DemoResult): void
}

/** The same orders, the same handler, the same kills: first without the guard, then with it. */
async function demo(
  options: DemoOptions,
  { progress, report, signal }: Testbed,
): Promise<DemoResult> {
  const startedAt = performance.now()
  const broker = await BROKERS[options.broker].demo()
  progress.move(`starting ${options.redis ? 'Redis, ' : ''}Postgres and ${broker.title} …`)
  await using redis = options.redis ? await HurtRedis.start(progress) : undefined
  await using server = await start(broker, options)
  await using database = await postgres()
  await using consoles = new AsyncDisposableStack()
  progress.move()
  const orders = announcements(options.events)
  progress.line(
    `${options.events} orders in ${orders.length} messages (a producer that retries sends some twice), ` +
      `3 worker processes, ${options.kills} × SIGKILL${server.pauseMs === undefined ? '' : ', 1 × SIGSTOP'}`,
  )
  const openConsole = async (databaseUrl: string): Promise<void> => {
    const { url } = consoles.use(await DemoConsole.start(databaseUrl))
    progress.line(`the console is at ${url}`)
  }
  const afterCommit = options.outbox ? 'before-announcement' : 'before-ack'
  const kills = killPlan(options.events, options.kills, afterCommit)
  const scenario = {
    database,
    broker: options.broker,
    server,
    redis,
    outbox: options.outbox,
    events: options.events,
    announcements: orders,
    plan: server.pauseMs === undefined ? kills : withPause(kills),
    progress,
    signal,
    migrated: options.console ? openConsole : undefined,
  }
  const unguarded = await runPhase(scenario, 'without')
  const guarded = await runPhase(scenario, 'with')
  const result = { options, durationMs: performance.now() - startedAt, unguarded, guarded }
  report(result)
  if (options.console && !signal.aborted) {
    progress.line('\nthe servers stay up for the console; Ctrl-C ends them')
    await once(signal, 'abort')
  }
  return result
}

async function overHttp(
  { events: orders, kills, json }: DemoOptions,
  progress: Progress,
  signal: AbortSignal,
): Promise<number> {
  const result = await httpDemo({ orders, kills, progress, signal })
  progress.line(`\n${httpTable(result)}\n\n${httpVerdict(result)}`)
  if (json) console.log(JSON.stringify(result))
  return isExactHttp(result) ? 0 : 1
}

async function main(args: readonly string[]): Promise<number> {
  const options = parseOptions(args)
  const progress = new Progress(options.json ? process.stderr : process.stdout)
  const interrupt = new AbortController()
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.on(name, () => interrupt.abort())
  }
  try {
    if (options.http) return await overHttp(options, progress, interrupt.signal)
    const told = options.outbox ? OUTBOX : CHARGES
    const report = (result: DemoResult): void => {
      progress.line(`\n${told.table(result)}\n\n${told.verdict(result)}`)
      if (options.json) console.log(told.json(result))
    }
    const result = await demo(options, { progress, report, signal: interrupt.signal })
    return told.isExact(result) ? 0 : 1
  } catch (error) {
    if (!interrupt.signal.aborted) throw error
    progress.line('\ninterrupted; workers and servers are stopped')
    return INTERRUPTED
  }
}

try {
  process.exitCode = await main(process.argv.slice(2))
} catch (error) {
  console.error(error instanceof UsageError ? error.message : error)
  process.exitCode = error instanceof UsageError ? 2 : 1
}
