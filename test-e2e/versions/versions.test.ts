// @module-tag nightly

import { database, kafka, rabbitmq, redis, type Server, skipped, sqs } from '@onceward/testing'
import { postgresOf } from '@onceward/testing/servers'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { binary, install, pack, type Sandbox, type Tarballs } from './sandbox.ts'
import {
  BUN,
  CLIENTS,
  type Client,
  DENO,
  NODES,
  newest,
  newestBeside,
  POSTGRES,
  TOO_OLD_NODE,
  TYPESCRIPTS,
  versionOf,
} from './table.ts'

const OURS = ['core', 'postgres']
const TYPES = ['@types/node@22', '@types/pg@8']
/** The clients that a program needs beside the one under test. */
const PG = `pg@${newest('pg')}`

let tarballs: Tarballs
const started: Server<unknown>[] = []

beforeAll(async () => {
  tarballs = await pack()
})
afterAll(async () => {
  tarballs.dispose()
  await Promise.all(started.map((server) => server.stop()))
})

async function own<Connection>(starting: Promise<Server<Connection>>): Promise<Connection> {
  const server = await starting
  started.push(server)
  return server.connection
}

/** Where each server is, started when it is first needed. */
const ADDRESSES = {
  sqs: async () => ({ SQS_ENDPOINT: (await own(sqs())).endpoint }),
  redis: async () => ({ REDIS_URL: (await own(redis())).url }),
  rabbitmq: async () => ({ RABBITMQ_URL: (await own(rabbitmq())).url }),
  kafka: async () => ({ KAFKA_BROKER: (await own(kafka())).brokers.join() }),
} satisfies Record<string, () => Promise<NodeJS.ProcessEnv>>

const found = new Map<string, Promise<NodeJS.ProcessEnv>>()

async function environment(server?: keyof typeof ADDRESSES): Promise<NodeJS.ProcessEnv> {
  const { url } = await database()
  if (server === undefined) return { DATABASE_URL: url }
  const address = found.get(server) ?? ADDRESSES[server]()
  found.set(server, address)
  return { DATABASE_URL: url, ...(await address) }
}

async function inSandbox<T>(
  packages: readonly string[],
  work: (sandbox: Sandbox) => Promise<T>,
  ours: readonly string[] = OURS,
): Promise<T> {
  const sandbox = await install([...ours.map((name) => tarballs.path(name)), ...TYPES, ...packages])
  try {
    return await work(sandbox)
  } finally {
    sandbox.dispose()
  }
}

/** Both edges of each client. */
const edges = CLIENTS.flatMap((client) => [
  { client, version: client.oldest, types: [...(client.oldestTypes ?? []), ...oldestOf(client)] },
  { client, version: newest(client.name), types: [...newestTypes(client), ...newestOf(client)] },
])

function oldestOf({ companions = [], oldest }: Client): readonly string[] {
  return companions.map((each) =>
    typeof each === 'string' ? `${each}@${oldest}` : `${each.name}@${each.oldest}`,
  )
}

function newestOf({ companions = [], name: client }: Client): readonly string[] {
  return companions
    .map((each) => (typeof each === 'string' ? each : each.name))
    .map((name) => `${name}@${newestBeside(client, name)}`)
}

function newestTypes({ name }: Client): readonly string[] {
  if (name === 'amqplib') return ['@types/amqplib@0.10.8']
  return name === 'express' ? ['@types/express@5'] : []
}

describe('a client runs and compiles in its oldest and its newest version', () => {
  it.each(edges.map((edge) => ({ ...edge, named: `${edge.client.name}@${edge.version}` })))(
    '$named',
    async ({ client, named, types }) => {
      const { program, server, usedWith } = client
      if (server !== undefined && skipped(server)) return
      const others = client.name === 'pg' ? [] : [PG]
      const ours = [...new Set([...OURS, usedWith])]
      await inSandbox(
        [named, ...types, ...others],
        async (sandbox) => {
          if (program === 'prisma') await sandbox.generatePrisma(named)
          expect(await sandbox.compile(program)).toBe('')
          const { output } = await sandbox.run(program, await environment(server))
          expect(output).toMatch(/^proved$/m)
        },
        ours,
      )
    },
  )
})

describe('a runtime runs a guard', () => {
  const paths = [
    ...NODES.tested.map((named) => ({ named, path: 'bin/node', args: [] })),
    ...BUN.tested.map((named) => ({ named, path: 'bin/bun', args: ['run'] })),
    ...DENO.tested.map((named) => ({ named, path: 'deno', args: ['run', '-A'] })),
  ]

  it.each(paths)('$named', async ({ named, path, args }) => {
    await inSandbox([PG, named], async (sandbox) => {
      const command = [binary(sandbox, named, path), ...args]
      const { output } = await sandbox.run('pg', await environment(), command)
      expect(output).toMatch(/^proved$/m)
    })
  })

  it('every entry says in Node 20 which one is needed', async () => {
    const names = ['amqp', 'core', 'http', 'kafka', 'lambda', 'otel', 'postgres', 'redis', 'sqs']
    const clients = CLIENTS.map(({ name }) => `${name}@${newest(name)}`)
    await inSandbox(
      [TOO_OLD_NODE, ...clients],
      async (sandbox) => {
        const env = { PACKAGES: names.map((name) => `@onceward/${name}`).join() }
        const command = [binary(sandbox, TOO_OLD_NODE, 'bin/node')]
        const { output } = await sandbox.run('every-entry', env, command)
        const lines = output.trim().split('\n')
        expect(lines.length).toBeGreaterThan(20)
        const sentence = 'onceward needs Node 22 or newer, and this is Node 20.20.2'
        expect(lines.filter((line) => !line.includes(sentence))).toEqual([])
      },
      names,
    )
  })
})

it.each(TYPESCRIPTS.tested)(
  '%s finds no mistake in our types without skipLibCheck',
  async (named) => {
    await inSandbox([PG, named], async (sandbox) => {
      // The types of pg-protocol are not for TypeScript 5.4.
      const errors = (await sandbox.compile('pg', true)).split('\n')
      expect(errors.filter((line) => /^(?:programs|node_modules\/@onceward)\//.test(line))).toEqual(
        [],
      )
    })
  },
)

it.each(POSTGRES.tested)('%s is a server for a guard', async (named) => {
  await inSandbox([PG, named], async (sandbox) => {
    const native = binary(sandbox, named, 'native')
    const version = `${versionOf(named)}-edge`
    await using server = await postgresOf({ native, version }, {})
    const env = { DATABASE_URL: await server.createDatabase('edge') }
    const { output } = await sandbox.run('pg', env)
    expect(output).toMatch(/^proved$/m)
  })
})
