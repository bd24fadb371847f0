import { cp, mkdtemp, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { cli } from '../fixtures/cli.ts'
import { examined, saying } from '../fixtures/examined.ts'
import { type Operated, operated } from '../fixtures/operated.ts'

let at: Operated

beforeAll(async () => {
  at = await operated()
  await at.send('registers the consumer', {})
})
afterAll(() => at[Symbol.asyncDispose]())

const HERE = fileURLToPath(new URL('../..', import.meta.url))
const INSTALLED = fileURLToPath(new URL('../../../../node_modules', import.meta.url))

/** The program with its own dependencies, and without the adapters. */
async function withoutAdapters(): Promise<AsyncDisposable & { readonly program: string }> {
  const root = await mkdtemp(join(tmpdir(), 'onceward-alone-'))
  const modules = join(root, 'node_modules')
  const program = join(modules, 'onceward')
  for (const part of ['bin', 'dist', 'package.json']) {
    await cp(join(HERE, part), join(program, part), { recursive: true })
  }
  await cp(join(HERE, 'package.json'), join(modules, '@onceward/.keep'))
  const needed = ['@onceward/core', '@onceward/postgres', '@onceward/redis', 'commander', 'pg']
  for (const name of [...needed, 'ioredis']) {
    await symlink(join(INSTALLED, name), join(modules, name))
  }
  return {
    program: join(program, 'bin/onceward.js'),
    [Symbol.asyncDispose]: () => rm(root, { recursive: true }),
  }
}

test('adapters are loaded only when they are asked for, and a missing one names what to install', async () => {
  await using alone = await withoutAdapters()
  const doctor = (...args: readonly string[]) =>
    cli(['doctor', ...args], { url: at.url, program: alone.program })
  expect(await doctor()).toMatchObject({ code: 1, stderr: '' })
  const { code, stderr } = await doctor('--broker', 'kafka://u:s3cr3t-pass@127.0.0.1:1?topic=a')
  expect(code).toBe(3)
  expect(stderr).toBe(
    'onceward: Kafka needs packages that are not installed beside onceward. Run `npm install @onceward/kafka kafkajs`.\n',
  )
})

test('a broker that is not there is named without its password, and the others are reported', async () => {
  const addresses = [
    'amqp://u:s3cr3t-pass@127.0.0.1:1/shop?queue=a',
    'kafka://u:s3cr3t-pass@127.0.0.1:1,127.0.0.1:2?topic=a@b',
  ]
  const args = addresses.flatMap((address) => ['--broker', address])
  const { code, stderr, stdout } = await cli(['doctor', ...args], at)
  expect(code).toBe(3)
  expect(stdout).toContain('fsync is off')
  expect(stderr).toMatch(
    /^onceward: No answer from RabbitMQ at 127\.0\.0\.1:1\/shop: .*ECONNREFUSED/,
  )
  expect(stderr).toMatch(/No answer from Kafka at 127\.0\.0\.1:1,127\.0\.0\.1:2: /)
  expect(stderr).not.toMatch(/s3cr3t-pass|\n\s+at /)
})

test.each([
  ['stomp://h?queue=a', /Expected --broker to be kafka/],
  ['kafka://h:9092?queue=a', /no parameter `queue`. Expected one of topic, group/],
  ['kafka://h:9092', /Which topics\?/],
  ['kafka://h:9092?topic=a&sasl=oauth', /Expected `sasl`/],
  ['kafka://u@h:9092?topic=a', /Set KAFKA_PASSWORD/],
  ['kafka:///', /Expected the address of Kafka/],
  ['amqp://127.0.0.1:1', /Which queue\?/],
  ['amqp://[?queue=a', /Expected the address of RabbitMQ/],
  ['https://sqs.eu-west-1.amazonaws.com', /Expected the URL of a queue/],
  ['https://u:s3cr3t-pass@h/1/q', /Expected the URL of a queue/],
  ['amqp://h?queue=a&window=long', /Expected `window`/],
  ['amqp://h?queue=a&attempts=0', /Expected `attempts`/],
])(
  'onceward doctor --broker %s is refused with a sentence and exit code 2',
  async (address, text) => {
    const { code, stderr, stdout } = await cli(['doctor', '--broker', address], at)
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr).toMatch(text)
    expect(stderr).not.toMatch(/s3cr3t-pass|\n\s+at /)
  },
)

test('the consumer is the only one there is, or the one that the address names', async () => {
  await at.pool.query(
    "insert into onceward.consumers (name, dedup_window_ms, fingerprint_rule) values ('mail', 1, 1)",
  )
  const address = 'amqp://127.0.0.1:1?queue=a'
  const { code, stderr } = await cli(['doctor', '--broker', address], at)
  expect(code).toBe(2)
  expect(stderr).toMatch(
    /Which consumer reads from RabbitMQ\?.*`consumer=…`.* one of: billing, mail\./,
  )
  expect(await examined(at, [`${address}&consumer=other`])).toEqual([
    saying(/^error: No guard of the consumer other has registered.* → Correct `consumer`/),
  ])
})
