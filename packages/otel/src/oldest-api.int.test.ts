import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { expect, test } from 'vitest'
import { installation } from './fixtures/installation.ts'

const require = createRequire(import.meta.url)
const PROGRAM = 'packages/otel/src/fixtures/one-of-each.ts'
const SDK = {
  'opentelemetry-context-2': 'opentelemetry-context-2',
  'opentelemetry-metrics-1': 'opentelemetry-metrics-1',
  'opentelemetry-trace-1': 'opentelemetry-trace-1',
}

async function toldBy(api: string): Promise<string> {
  await using installed = await installation({ ...SDK, '@opentelemetry/api': api })
  return await installed.node(PROGRAM)
}

// Red for a peer that is older than the oldest API with metrics.
test('the oldest @opentelemetry/api of the peer range is told what the newest one is told', async () => {
  const { peerDependencies } = JSON.parse(
    await readFile(new URL('../package.json', import.meta.url), 'utf8'),
  )
  const { version } = require('opentelemetry-api-1/package.json')
  expect(peerDependencies['@opentelemetry/api']).toBe(`>=${version} <2`)
  const oldest = await toldBy('opentelemetry-api-1')
  expect(oldest).toMatch(/^\{/)
  const told = JSON.parse(oldest)
  expect(told.settled).toEqual(['ack', 'ack', 'defer'])
  expect(told.spans).toMatchObject([
    { name: 'process memory', links: ['b7ad6b7169203331'], events: [] },
    { name: 'process memory', links: ['b7ad6b7169203331'], events: ['exception'] },
  ])
  const names = told.series.map(({ name }: { readonly name: string }) => name)
  for (const name of [
    'onceward.deliveries',
    'messaging.process.duration',
    'onceward.guard.in_hand',
  ])
    expect(names).toContain(name)
  expect(told).toEqual(JSON.parse(await toldBy('@opentelemetry/api')))
})
