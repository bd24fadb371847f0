import type { Command } from 'commander'
import { type NamedBroker, parseBroker } from '../data/broker-address.ts'
import { brokerFindings, type Windows } from '../data/broker-findings.ts'
import { openBroker } from '../data/brokers.ts'
import { databaseFindings, readWindows } from '../data/doctor.ts'
import type { Finding } from '../data/finding.ts'
import { openRedis } from '../data/redis.ts'
import { redisFindings } from '../data/redis-findings.ts'
import type { Horizons } from '../data/table-findings.ts'
import { EXIT, type ExitCode } from '../exit-codes.ts'
import { Failure, toFailure, usage } from '../failure.ts'
import { findingsText } from '../render/findings.ts'
import { spanMs } from '../span.ts'
import { collected, command, type End, notEmpty, type Work, withDatabase } from './command.ts'

interface DoctorFlags {
  readonly redis?: string
  readonly redisNamespace?: string
  readonly redisAlone?: boolean
  readonly horizon?: readonly string[]
  readonly broker?: readonly string[]
}

export function doctorCommand(end: End): Command {
  const made = command({
    name: 'doctor',
    summary: 'Check the database, the tables, the consumers, Redis and the queues',
    details:
      'Each finding comes with the sentence that repairs it. The exit code is 1 if there is any, and 3 if a server did not answer. With --redis one test event is claimed and deleted again; nothing else is changed.',
    rights:
      'onceward_operator; with pg_monitor also the lag of standbys and the transactions of others. Rights at the brokers: docs/cli.md.',
    examples: [
      'doctor',
      'doctor --redis redis://localhost:6379',
      "doctor --broker 'kafka://localhost:9092?topic=orders&dead-letter=orders-dead&consumer=billing'",
      "doctor --broker 'amqp://localhost?queue=orders' --broker https://sqs.eu-west-1.amazonaws.com/123456789012/orders",
      'doctor --horizon 4d --horizon billing=14d   # how long other queues can redeliver',
    ],
  })
  return made
    .option('--redis <url>', 'also check this Redis or Valkey')
    .option('--redis-namespace <name>', '`namespace` of redisLeases')
    .option('--redis-alone', 'guards without an inbox use this Redis')
    .option(
      '--broker <address>',
      'also check the queues that this address of Kafka, SQS or RabbitMQ names',
      collected,
    )
    .option(
      '--horizon <[consumer=]span>',
      'longest time after which the queue can deliver a message again, such as 14d',
      collected,
    )
    .action(async () => end(await withDatabase<DoctorFlags>(made, run)))
}

async function run({ database, output, options }: Work<DoctorFlags>): Promise<ExitCode> {
  notEmpty('--redis-namespace', options.redisNamespace)
  const horizons = horizonsOf(options.horizon ?? [])
  const brokers = (options.broker ?? []).map(parseBroker)
  const ofDatabase = await databaseFindings(database, horizons)
  const windows = brokers.length === 0 ? new Map<string, number>() : await readWindows(database)
  // Side by side, because one that does not answer must not keep the others waiting.
  const asked = await Promise.allSettled([
    ...(options.redis === undefined ? [] : [askRedis(options.redis, options)]),
    ...brokers.map((named) => askBroker(named, windows)),
  ])
  const failures = asked.flatMap((each) =>
    each.status === 'rejected' ? [toFailure(each.reason)] : [],
  )
  const wrong = failures.find(({ exitCode }) => exitCode === EXIT.usage)
  if (wrong !== undefined) throw wrong
  const found = asked.flatMap((each) => (each.status === 'fulfilled' ? each.value : []))
  const findings = [...ofDatabase, ...found]
  // "Nothing was found" is not true of a server that did not answer.
  if (findings.length > 0 || failures.length === 0 || output.isJson) {
    output.answer({ findings }, () => findingsText(findings, output))
  }
  if (failures.length > 0) throw new Failure(failures.map(({ message }) => message).join('\n'))
  return findings.length === 0 ? EXIT.ok : EXIT.no
}

async function askRedis(url: string, flags: DoctorFlags): Promise<readonly Finding[]> {
  await using redis = await openRedis(url)
  const isTruth = flags.redisAlone === true
  return await redisFindings(redis, { isTruth, namespace: flags.redisNamespace })
}

async function askBroker(named: NamedBroker, windows: Windows): Promise<readonly Finding[]> {
  await using open = await openBroker(named)
  return await brokerFindings(open, windows)
}

function horizonsOf(texts: readonly string[]): Horizons {
  return new Map(
    texts.map((text): [string, number] => {
      const at = text.lastIndexOf('=')
      const ms = spanMs(text.slice(at + 1))
      if (ms === undefined || at === 0)
        throw usage('Expected --horizon to be a span such as 14d or billing=14d.')
      return [at === -1 ? '' : text.slice(0, at), ms]
    }),
  )
}
