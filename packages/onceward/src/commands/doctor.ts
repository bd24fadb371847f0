import type { Command } from 'commander'
import { databaseFindings } from '../data/doctor.ts'
import type { Finding } from '../data/finding.ts'
import { openRedis } from '../data/redis.ts'
import { redisFindings } from '../data/redis-findings.ts'
import type { Horizons } from '../data/table-findings.ts'
import { EXIT, type ExitCode } from '../exit-codes.ts'
import { usage } from '../failure.ts'
import { findingsText } from '../render/findings.ts'
import { command, type End, spanMs, type Work, withDatabase } from './command.ts'

interface DoctorFlags {
  readonly redis?: string
  readonly redisNamespace?: string
  readonly redisAlone?: boolean
  readonly horizon?: readonly string[]
}

export function doctorCommand(end: End): Command {
  const made = command({
    name: 'doctor',
    summary: 'Check the database, the tables, the consumers and Redis',
    details:
      'Each finding comes with the sentence that repairs it. The exit code is 1 if there is any. With --redis one test event is claimed and deleted again; nothing else is changed.',
    rights:
      'onceward_operator; with pg_monitor also the lag of standbys and the transactions of others.',
    examples: [
      'doctor',
      'doctor --redis redis://localhost:6379',
      'doctor --horizon 4d --horizon billing=14d   # how long the queues can redeliver',
    ],
  })
  return made
    .option('--redis <url>', 'also check this Redis or Valkey')
    .option('--redis-namespace <name>', '`namespace` of redisLeases')
    .option('--redis-alone', 'guards without an inbox use this Redis')
    .option(
      '--horizon <[consumer=]span>',
      'longest time after which the queue can deliver a message again, such as 14d',
      (value: string, before: readonly string[] = []) => [...before, value],
    )
    .action(async () => end(await withDatabase<DoctorFlags>(made, run)))
}

async function run({ database, output, options }: Work<DoctorFlags>): Promise<ExitCode> {
  const horizons = horizonsOf(options.horizon ?? [])
  const findings = [
    ...(await databaseFindings(database, horizons)),
    ...(options.redis === undefined ? [] : await askRedis(options.redis, options)),
  ]
  output.answer({ findings }, () => findingsText(findings, output))
  return findings.length === 0 ? EXIT.ok : EXIT.no
}

async function askRedis(url: string, flags: DoctorFlags): Promise<readonly Finding[]> {
  await using redis = await openRedis(url)
  const isTruth = flags.redisAlone === true
  return await redisFindings(redis, { isTruth, namespace: flags.redisNamespace })
}

function horizonsOf(texts: readonly string[]): Horizons {
  return new Map(
    texts.map((text): [string, number] => {
      const at = text.lastIndexOf('=')
      const ms = spanMs(text.slice(at + 1))
      if (ms === undefined)
        throw usage('Expected --horizon to be a span such as 14d or billing=14d.')
      return [at === -1 ? '' : text.slice(0, at), ms]
    }),
  )
}
