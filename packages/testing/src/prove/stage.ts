import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Author } from './author.ts'
import { Crew } from './crew.ts'
import { ProofError } from './errors.ts'
import { Identities } from './identities.ts'
import type { ProofDatabase, ProveOptions } from './options.ts'
import { type BrokerAddress, openPlace } from './places/index.ts'
import type { Place } from './places/place.ts'
import { type Plan, planProof } from './plan.ts'
import type { ProveBroker, ProveEnv } from './proof.ts'
import { type EventToSend, IDENTITIES_FILE, type ProcessSettings } from './protocol.ts'
import { type GivenServers, startServers } from './servers.ts'

/** For what consumers may set as their lease. */
const LEASE_MS = 2_000
/** For a call of the user's file. */
const ANSWER_MS = 60_000

/** Everything that a proof needs. */
export interface Stage {
  readonly place: Place<ProveBroker>
  readonly author: Author
  readonly crew: Crew
  readonly database: ProofDatabase
  readonly identities: Identities
  readonly messages: readonly EventToSend[]
  readonly plan: Plan
  readonly folder: string
}

/** Opens everything. @param undo - Gets the steps that end it, in the order of the beginnings. */
export async function openStage(
  options: ProveOptions,
  undo: (() => Promise<void>)[],
): Promise<Stage> {
  const { broker, events, file, onProgress, servers: given } = options
  onProgress?.(given === undefined ? 'starting servers' : 'opening your servers')
  const started = given === undefined ? await startServers(broker) : undefined
  if (started !== undefined) undo.push(async () => started[Symbol.asyncDispose]())
  const servers = given ?? started
  if (servers === undefined) throw new ProofError('There are no servers.')
  const database = await options.prepare(servers.databaseUrl)
  const pids: number[] = []
  undo.push(() => database.remove(pids))
  const place = await openPlace(servers.broker)
  undo.push(async () => place[Symbol.asyncDispose]())
  const folder = await mkdtemp(join(tmpdir(), 'onceward-prove-'))
  undo.push(() => rm(folder, { recursive: true, force: true }))

  const variables = variablesOf(servers, place)
  const settings = {
    ...{ file, folder, answerMs: options.answerMs ?? ANSWER_MS },
    env: envOf(servers, place, variables),
  } satisfies Omit<ProcessSettings, 'role'>
  const author = await Author.start(settings, variables)
  undo.push(async () => author[Symbol.asyncDispose]())
  undo.push(() => author.teardown())
  await author.setup()
  const messages = await author.events(events)
  const identities = new Identities(messages.map(({ body }) => JSON.parse(body) as unknown))
  await writeFile(join(folder, IDENTITIES_FILE), JSON.stringify(identities.recognizable()))
  await demandNothing(author)
  const crew = new Crew(settings, variables, pids)
  undo.push(async () => crew[Symbol.asyncDispose]())
  const plan = planProof(options)
  return { place, author, crew, database, identities, messages, plan, folder }
}

/** Without `setup`, the tables may be made by the first worker: until then `count` may throw. */
async function demandNothing(author: Author): Promise<void> {
  const counts = await author.count().catch(() => ({}))
  const [key] = Object.entries(counts).find(([, effects]) => effects > 0) ?? []
  if (key === undefined) return
  throw new ProofError(
    `count() finds effects before anything was sent, such as of ${key}. Empty its tables, or prove in another database.`,
  )
}

function envOf(
  servers: GivenServers,
  { where }: Place<ProveBroker>,
  variables: Record<string, string>,
): ProveEnv {
  const { broker, databaseUrl, redisUrl } = servers
  return {
    ...variables,
    ...{ databaseUrl, redisUrl, brokerUrl: urlOf(broker), leaseMs: LEASE_MS },
    ...{ broker: broker.broker, ...where },
  } as ProveEnv
}

function urlOf(address: BrokerAddress): string {
  switch (address.broker) {
    case 'sqs':
      return address.config.endpoint ?? ''
    case 'kafka':
      return address.config.brokers.join(',')
    case 'amqp':
    case 'redis-streams':
    case 'nats':
      return address.url
    default:
      return address satisfies never
  }
}

/** As the environment of a pod says it. */
function variablesOf(servers: GivenServers, place: Place<ProveBroker>): Record<string, string> {
  const { broker, databaseUrl, redisUrl } = servers
  const config = broker.broker === 'sqs' ? broker.config : undefined
  const { credentials, endpoint, region } = config ?? {}
  return {
    DATABASE_URL: databaseUrl,
    ...(redisUrl === undefined ? {} : { REDIS_URL: redisUrl }),
    ...(endpoint === undefined ? {} : { AWS_ENDPOINT_URL: endpoint, SQS_ENDPOINT: endpoint }),
    ...(region === undefined ? {} : { AWS_REGION: region }),
    ...(credentials === undefined
      ? {}
      : {
          AWS_ACCESS_KEY_ID: credentials.accessKeyId,
          AWS_SECRET_ACCESS_KEY: credentials.secretAccessKey,
        }),
    ...place.variables,
  }
}
