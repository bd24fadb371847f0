import { chromium } from '../chromium/chromium.ts'
import { KAFKA_JARS } from '../kafka/kafka-node.ts'
import { NATS_TOOLS } from '../nats/nats.ts'
import { PGBOUNCER_TOOLS } from '../postgres/pgbouncer.ts'
import { postgresBinaries } from '../postgres/postgres-binaries.ts'
import { prometheusBinaries } from '../prometheus/prometheus-binaries.ts'
import { RABBITMQ_TOOLS } from '../rabbitmq/rabbitmq.ts'
import { REDIS_TOOLS } from '../redis/redis.ts'
import { ELASTICMQ_JARS } from '../sqs/elasticmq.ts'
import { dockerAnswers } from './docker.ts'
import { javaProgram } from './maven.ts'
import { ServerMissingError, type ServiceName, skipped } from './server.ts'
import { toolPaths } from './tools.ts'

/** One thing that the tests need on this machine. */
interface Step {
  readonly service: ServiceName
  readonly variable?: string | undefined
  /** Only nightly tests need it. */
  readonly isNightly?: true
  prepare(): Promise<unknown>
}

const STEPS: readonly Step[] = [
  { service: 'postgres', variable: 'ONCEWARD_POSTGRES_URL', prepare: postgresBinaries },
  { service: 'redis', variable: REDIS_TOOLS.variable, prepare: () => toolPaths(REDIS_TOOLS) },
  { service: 'sqs', variable: ELASTICMQ_JARS.variable, prepare: () => javaProgram(ELASTICMQ_JARS) },
  { service: 'kafka', variable: KAFKA_JARS.variable, prepare: () => javaProgram(KAFKA_JARS) },
  {
    service: 'rabbitmq',
    variable: RABBITMQ_TOOLS.variable,
    prepare: () => toolPaths(RABBITMQ_TOOLS),
  },
  { service: 'nats', variable: NATS_TOOLS.variable, prepare: () => toolPaths(NATS_TOOLS) },
  { service: 'pgbouncer', prepare: () => toolPaths(PGBOUNCER_TOOLS) },
  { service: 'prometheus', prepare: prometheusBinaries, isNightly: true },
  { service: 'chromium', prepare: chromium, isNightly: true },
]

/**
 * Installs what the native servers lack and returns one message per service that cannot be had.
 * Silent when nothing is to do.
 *
 * @param options.isNight - Whether what only nightly tests need is installed too.
 */
export async function install({ isNight }: { readonly isNight: boolean }): Promise<string[]> {
  const messages: string[] = []
  for (const step of STEPS) {
    if (step.isNightly === true && !isNight) continue
    if (skipped(step.service) || (await isElsewhere(step))) continue
    try {
      await step.prepare()
    } catch (error) {
      if (!(error instanceof ServerMissingError)) throw error
      messages.push(error.message)
    }
  }
  return messages
}

async function isElsewhere(step: Step): Promise<boolean> {
  if (step.variable === undefined) return false
  return Boolean(process.env[step.variable]) || (await dockerAnswers())
}

if (import.meta.main) {
  // Not a failure of this command: the tests that need the service fail and say the same.
  const isNight = process.argv.includes('--night')
  for (const message of await install({ isNight })) process.stderr.write(`onceward: ${message}\n`)
}
