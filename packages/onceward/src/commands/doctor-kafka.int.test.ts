// @module-tag nightly

import { header } from '@onceward/core'
import { consumeKafka } from '@onceward/kafka'
import { kafka, skipped, until } from '@onceward/testing'
import { guardOf } from '@onceward/testing/adapter'
import { type Admin, Kafka, logLevel } from 'kafkajs'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { cli } from '../fixtures/cli.ts'
import { examined, saying } from '../fixtures/examined.ts'
import { type Operated, operated } from '../fixtures/operated.ts'

const USER = { username: 'ops', password: 's3cr3t-pass@1' }
const DAY_MS = 86_400_000

describe.skipIf(skipped('kafka'))('doctor --broker kafka://', () => {
  let server: Awaited<ReturnType<typeof kafka>>
  let client: Kafka
  let admin: Admin
  let at: Operated
  let address: (parameters: string) => string
  const env = { KAFKA_USERNAME: USER.username, KAFKA_PASSWORD: USER.password }

  beforeAll(async () => {
    at = await operated()
    await at.send('registers the consumer', {})
    server = await kafka({ user: USER, native: true })
    client = new Kafka({ ...server.connection, logLevel: logLevel.NOTHING })
    admin = client.admin()
    await admin.connect()
    address = (parameters) => `kafka://${server.connection.brokers.join(',')}?${parameters}`
    // The first group of a broker crashes while its coordinator is loading (brokers.md K24).
    await until(async () => (await admin.describeGroups(['first'])).groups.length === 1)
  }, 240_000)
  afterAll(async () => {
    await admin?.disconnect()
    await server?.stop()
    await at?.[Symbol.asyncDispose]()
  })

  async function create(topic: string, settings: Readonly<Record<string, string>>): Promise<void> {
    const configEntries = Object.entries(settings).map(([name, value]) => ({ name, value }))
    const topics = [{ topic, numPartitions: 1, configEntries }]
    await admin.createTopics({ waitForLeaders: true, topics })
  }

  test('a topic whose settings fit has no findings', async () => {
    await create('fits', { 'retention.ms': String(7 * DAY_MS) })
    await create('fits-dead', {})
    expect(await examined(at, [address('topic=fits&dead-letter=fits-dead')], env)).toEqual([])
  })

  test('each setting that does not fit is found, and the retention is compared with the dedup window', async () => {
    await create('long', { 'retention.ms': String(30 * DAY_MS), 'max.message.bytes': '5000000' })
    await create('compacted', { 'cleanup.policy': 'compact' })
    await create('bad-dead', {
      ...{ 'cleanup.policy': 'compact', 'min.insync.replicas': '2', 'max.message.bytes': '2000' },
    })
    const found = await examined(
      at,
      [address('topic=long&topic=compacted&dead-letter=bad-dead')],
      env,
    )
    expect(found).toEqual([
      saying(/^error: Topic 'long' keeps records for 2592000000 ms.*dedupWindowMs` of 1296000000/),
      saying(/^error: .*'bad-dead' is compacted.* → Set its cleanup\.policy to delete\./),
      saying(/^error: .*'bad-dead' has 1 replicas and needs 2.* → Lower it, or add replicas\./),
      saying(/^error: .*'bad-dead' takes records of at most 2000 bytes.* → Set it to 5004096/),
      saying(/^warning: Topic 'compacted' keeps records without a limit.* → Raise `dedupWindowMs`/),
    ])
    expect(await examined(at, [address('topic=long&window=40d')], env)).toEqual([])
  })

  test('a topic that is missing, and a group that another consumer is in, are found', async () => {
    expect(await examined(at, [address('topic=nowhere&topic=fits')], env)).toEqual([
      saying(/^error: The topic of `topics`, 'nowhere', does not exist.* → Create it, or correct/),
    ])
    const guard = guardOf(() => undefined, { consumer: 'mail', eventKey: header('id') })
    await using running = await consumeKafka(client, guard, { topics: ['fits'], groupId: 'shared' })
    await until(() => running.health().state === 'running')
    expect(await examined(at, [address('topic=fits&group=shared')], env)).toEqual([
      saying(
        /^error: Group 'shared' has members of the consumer 'mail'; as another one, 'billing'/,
      ),
    ])
  })

  test('a refused password and a frozen broker end in time, with exit code 3 and without the password', async () => {
    const wrong = { ...env, KAFKA_PASSWORD: 'wr0ng-pass' }
    const refused = await cli(['doctor', '--broker', address('topic=fits')], { ...at, env: wrong })
    expect(refused.code).toBe(3)
    expect(refused.stderr).toMatch(
      /onceward: No answer from Kafka at .*:\d+: .*[Aa]uthentication failed/,
    )
    await server.kill('SIGSTOP')
    const encoded = encodeURIComponent(USER.password)
    const inUrl = address('topic=fits').replace('//', `//${USER.username}:${encoded}@`)
    const frozen = await cli(['doctor', '--broker', inUrl], at)
    await server.kill('SIGCONT')
    expect(frozen.code).toBe(3)
    expect(frozen.stdout).toContain('fsync is off')
    expect(frozen.stderr).toMatch(/onceward: No answer from Kafka at [\d.]+:\d+: /)
    for (const { stderr, stdout } of [refused, frozen]) {
      expect(stdout + stderr).not.toMatch(/wr0ng-pass|s3cr3t-pass|\n\s+at /)
    }
  })
})
