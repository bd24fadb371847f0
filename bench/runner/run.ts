import { parseArgs } from 'node:util'
import { BROKER_NAMES, BROKERS } from '../../test-e2e/brokers/index.ts'
import { drawRivals } from '../rivals/chart.ts'
import { backlogBenchmark } from '../scenarios/backlog.ts'
import { bullmqBenchmark } from '../scenarios/bullmq.ts'
import { growthBenchmark } from '../scenarios/growth.ts'
import { guardBenchmark } from '../scenarios/guard.ts'
import { httpBenchmark } from '../scenarios/http.ts'
import { layoutsBenchmark } from '../scenarios/layouts.ts'
import { ormsBenchmark } from '../scenarios/orms.ts'
import { outboxBenchmark } from '../scenarios/outbox.ts'
import { redisBenchmark } from '../scenarios/redis.ts'
import { redisInboxBenchmark } from '../scenarios/redis-inbox.ts'
import { rivalsBenchmark } from '../scenarios/rivals.ts'
import { telemetryBenchmark } from '../scenarios/telemetry.ts'
import { changes, type Earlier, readEarlier } from './compare.ts'
import { type Benchmark, machine, tables, toJson } from './report.ts'
import type { Scale } from './scale.ts'

type Scenario = (scale: Scale) => Promise<Benchmark>

/** A broker's scenario is imported when it runs. */
const brokerScenarios: readonly (readonly [string, Scenario])[] = BROKER_NAMES.map((name) => [
  name,
  async (scale) => (await BROKERS[name].benchmark())(scale),
])

const BENCHMARKS: Readonly<Record<string, Scenario>> = {
  guard: guardBenchmark,
  redis: redisBenchmark,
  redisInbox: redisInboxBenchmark,
  ...Object.fromEntries(brokerScenarios),
  bullmq: bullmqBenchmark,
  orms: ormsBenchmark,
  outbox: outboxBenchmark,
  backlog: backlogBenchmark,
  rivals: rivalsBenchmark,
  http: httpBenchmark,
  growth: growthBenchmark,
  layouts: layoutsBenchmark,
  telemetry: telemetryBenchmark,
}

const USAGE = `npm run bench -- [--only ${Object.keys(BENCHMARKS).join('|')}] [--rounds N] [--keys N] [--minutes N] [--quick] [--json]
npm run bench -- --only compare --from FILE [--rounds N] [--quick] [--json]
npm run bench -- --chart FILE --from FILE

  --only NAME   one benchmark
  --rounds N    rounds that count; 9
  --keys N      done marks that \`redis\` fills a Redis with; 6,000,000
  --minutes N   how long \`growth\` and \`layouts\` may take; 40
  --quick       fewer rounds and events: for a look, not for quoting
  --json        one line of JSON at the end
  --only compare  runs the benchmarks again that --json printed into --from, and prints what changed
  --chart FILE  draws what \`--only rivals --json\` printed as SVG; --from has that output`

const FULL: Scale = {
  rounds: 9,
  events: 4_000,
  // The processor time of an event of `each` falls from 400 to 200 µs on the way, and then stays.
  warmUp: 16_000,
  growth: 1_000_000,
  keys: 6_000_000,
  storm: 1_000_000,
  rivalRounds: 5,
  minutes: 40,
}
const QUICK: Scale = {
  rounds: 3,
  events: 2_000,
  warmUp: 2_000,
  growth: 50_000,
  keys: 100_000,
  storm: 20_000,
  rivalRounds: 2,
  minutes: 1,
}

/** Every round of the last tenth has batches then. */
const LEAST_KEYS = 100_000

async function main(): Promise<number> {
  const { values } = parseArgs({
    options: {
      only: { type: 'string' },
      rounds: { type: 'string' },
      keys: { type: 'string' },
      minutes: { type: 'string' },
      quick: { type: 'boolean', default: false },
      json: { type: 'boolean', default: false },
      chart: { type: 'string' },
      from: { type: 'string' },
    },
  })
  if (values.chart !== undefined) return await chart(values.chart, values.from)
  const { only, quick, json } = values
  const earlier = only === 'compare' ? earlierOf(values.from) : undefined
  if (only !== undefined && earlier === undefined && !(only in BENCHMARKS)) {
    throw new TypeError(`no benchmark: ${only}`)
  }
  const scale = quick ? QUICK : FULL
  const rounds = values.rounds === undefined ? scale.rounds : Number(values.rounds)
  if (!(Number.isInteger(rounds) && rounds > 0)) {
    throw new TypeError(`--rounds takes a number from 1, got: ${values.rounds}`)
  }
  const rivalRounds = values.rounds === undefined ? scale.rivalRounds : rounds
  const keys = values.keys === undefined ? scale.keys : Number(values.keys)
  if (!(Number.isInteger(keys) && keys >= LEAST_KEYS)) {
    throw new TypeError(`--keys takes a number from ${LEAST_KEYS}, got: ${values.keys}`)
  }
  const minutes = values.minutes === undefined ? scale.minutes : Number(values.minutes)
  if (!(minutes > 0)) throw new TypeError(`--minutes takes a number, got: ${values.minutes}`)
  const wanted = earlier?.benchmarks.map(({ name }) => name) ?? (only === undefined ? [] : [only])
  const chosen = Object.entries(BENCHMARKS).filter(
    ([name]) => wanted.length === 0 || wanted.includes(name),
  )
  const benchmarks: Benchmark[] = []
  console.log(machine())
  for (const [name, run] of chosen) {
    const benchmark = await run({ ...scale, rounds, rivalRounds, keys, minutes })
    const before = earlier?.benchmarks.find((each) => each.name === name)
    console.log(`\n${before === undefined ? tables(benchmark) : changes(before, benchmark)}`)
    benchmarks.push(benchmark)
  }
  if (json) console.log(toJson(benchmarks))
  return 0
}

function earlierOf(from: string | undefined): Earlier {
  if (from === undefined) throw new TypeError('--only compare takes the earlier run --from a file')
  const earlier = readEarlier(from)
  if (!earlier.benchmarks.some(({ name }) => name in BENCHMARKS)) {
    throw new TypeError(`no benchmarks in ${from}`)
  }
  if (earlier.machine !== machine()) {
    console.log(`Not comparable: the earlier run was on ${earlier.machine ?? 'an unknown machine'}`)
  }
  return earlier
}

async function chart(file: string, from: string | undefined): Promise<number> {
  if (from === undefined) throw new TypeError('--chart takes its figures --from a file')
  const { benchmarks } = readEarlier(from)
  const rivals = benchmarks.find(({ name }) => name === 'rivals')
  if (rivals === undefined) throw new TypeError(`no rivals in ${from}`)
  await drawRivals(rivals.values, file)
  return 0
}

async function codeOf(): Promise<number> {
  try {
    return await main()
  } catch (error) {
    console.error(error instanceof TypeError ? `${error.message}\n\n${USAGE}` : error)
    return error instanceof TypeError ? 2 : 1
  }
}

// After `http` Node 24.21 would wait for ever, with a busy processor, for sockets to close (`CleanupHandles`).
process.exit(await codeOf())
