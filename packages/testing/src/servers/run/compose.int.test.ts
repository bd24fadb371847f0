// @module-tag nightly

import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { kafkaEnvironment } from '../kafka/kafka.ts'
import { KAFKA_SETTINGS } from '../kafka/kafka-node.ts'
import { sqs } from '../sqs/sqs.ts'
import { IMAGES } from './images.ts'
import { skipped } from './server.ts'

interface Service {
  readonly image: string
  readonly ports: readonly string[]
  readonly environment?: Readonly<Record<string, string>>
  readonly volumes?: readonly string[]
  readonly healthcheck: { readonly test: readonly string[]; readonly retries: number }
}

interface ComposeFile {
  readonly 'x-environment': Readonly<Record<string, string>>
  readonly services: Readonly<Record<keyof typeof IMAGES, Service>>
  readonly volumes: Readonly<Record<string, null>>
}

const path = fileURLToPath(new URL('../../../../../docker-compose.yml', import.meta.url))
const file = parse(readFileSync(path, 'utf8'), { strict: true }) as ComposeFile
const services = Object.entries(file.services)

const VARIABLES = {
  postgres: 'ONCEWARD_POSTGRES_URL',
  redis: 'ONCEWARD_REDIS_URL',
  sqs: 'ONCEWARD_SQS_ENDPOINT',
  kafka: 'ONCEWARD_KAFKA_BROKERS',
  rabbitmq: 'ONCEWARD_RABBITMQ_URL',
  nats: 'ONCEWARD_NATS_URL',
} as const

test('the compose file defines the six servers in the versions of the Docker path', () => {
  const images = services.map(([name, { image }]) => [name, image])
  expect(Object.fromEntries(images)).toEqual(IMAGES)
})

test('every server has a health check and one port, on loopback', () => {
  for (const [name, { healthcheck, ports }] of services) {
    expect(healthcheck.test[0], name).toMatch(/^CMD(-SHELL)?$/)
    expect(healthcheck.test.length, name).toBeGreaterThan(1)
    expect(healthcheck.retries, name).toBeGreaterThan(0)
    expect(ports, name).toEqual([expect.stringMatching(/^127\.0\.0\.1:\d+:\d+$/)])
  }
})

test('the environment variables point to the published ports', () => {
  expect(Object.keys(file['x-environment'])).toEqual(Object.values(VARIABLES))
  for (const [name, variable] of Object.entries(VARIABLES)) {
    const [address] = file.services[name as keyof typeof VARIABLES].ports
    const published = address?.split(':').slice(0, 2).join(':')
    expect(file['x-environment'][variable], name).toContain(published)
  }
})

test('every volume that a server uses is declared, and no other', () => {
  const used = services.flatMap(([, { volumes = [] }]) => volumes.map((one) => one.split(':')[0]))
  expect(used.toSorted()).toEqual(Object.keys(file.volumes).toSorted())
})

test('Kafka has the settings of the native server', () => {
  expect(file.services.kafka.environment).toMatchObject(kafkaEnvironment(KAFKA_SETTINGS))
})

test.skipIf(skipped('sqs'))('ElasticMQ passes the health check of SQS', async () => {
  await using server = await sqs({ engine: 'elasticmq' })
  const check = (port: string): number | null => {
    const [, program = '', ...args] = file.services.sqs.healthcheck.test
    // Compose makes one dollar sign of two.
    const own = args.map((arg) => arg.replaceAll('$$', '$').replaceAll('9324', port))
    return spawnSync(program, own, { timeout: 10_000 }).status
  }
  expect(check(new URL(server.connection.endpoint).port)).toBe(0)
  expect(check('1')).not.toBe(0)
})

test('docker compose accepts the file, if it is installed', () => {
  const version = spawnSync('docker', ['compose', 'version'])
  const config = spawnSync('docker', ['compose', '--file', path, 'config', '--quiet'])
  expect(config.status === 0 || version.status !== 0, String(config.stderr)).toBe(true)
})
