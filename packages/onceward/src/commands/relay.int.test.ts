import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { sendWith } from '@onceward/postgres/outbox'
import { until } from '@onceward/testing'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { cli, running } from '../fixtures/cli.ts'
import { operated } from '../fixtures/operated.ts'

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'onceward-relay-'))
})
afterAll(() => rm(folder, { recursive: true }))

/** The broker is a file; a call ends once another file is there. */
const config = (): string => `
import { appendFileSync, existsSync } from 'node:fs'
const publish = async (messages) => {
  appendFileSync('${join(folder, 'called')}', 'called')
  while (!existsSync('${join(folder, 'go')}')) await new Promise((resolve) => setTimeout(resolve, 10))
  appendFileSync('${join(folder, 'broker')}', messages.map(({ id }) => id).join())
  return messages.map(() => undefined)
}
export default async () => ({ destinations: { mails: { batch: 10, publish } } })`

// Red when the relay is ended with calls in hand, or when it keeps its leases.
test('relay publishes to the destinations of its file, and at SIGTERM finishes what it has in hand', async () => {
  await using at = await operated()
  const client = await at.pool.connect()
  await client.query('begin')
  await sendWith(client, [{ to: 'mails', id: 'message-1', payload: {} }])
  await client.query('commit')
  client.release()
  const file = join(folder, 'relay.config.mjs')
  await writeFile(file, config())
  const child = running(['relay', '--config', file], at.url)
  const [stdout, stderr] = [text(child.stdout), text(child.stderr)]
  const ended = new Promise((resolve) => child.once('exit', resolve))
  await until(() => existsSync(join(folder, 'called')) || child.exitCode !== null)
  child.kill('SIGTERM')
  writeFileSync(join(folder, 'go'), '')
  expect(await ended, await stderr).toBe(0)
  expect(await stdout).toContain('The relay publishes to mails.\n')
  expect(readFileSync(join(folder, 'broker'), 'utf8')).toBe('message-1')
  const left = await at.pool.query(
    'select message_id as left from onceward.outbox_messages union all select relay::text from onceward.outbox_leases',
  )
  expect(left.rows).toEqual([])
})

test.each([
  ['without a file', [], 'required option'],
  ['nothing there', ['--config', 'nowhere.mjs'], 'nowhere.mjs cannot be loaded'],
  ['that throws', ['--config', 'throws.mjs'], 'throws.mjs cannot be loaded: no broker'],
  ['without destinations', ['--config', 'empty.mjs'], 'empty.mjs has no destinations'],
  ['with a database', ['--config', 'pool.mjs'], 'gives `pool`'],
])('relay refuses a file: %s', { tags: 'nightly' }, async (_title, args, why) => {
  const files = {
    'throws.mjs': "throw new Error('no broker')",
    'empty.mjs': 'export default {}',
    'pool.mjs': 'export default { destinations: {}, pool: {} }',
  }
  for (const [name, source] of Object.entries(files)) writeFileSync(join(folder, name), source)
  const given = args.map((arg) => (arg.endsWith('.mjs') ? join(folder, arg) : arg))
  const url = 'postgres://localhost:1/none'
  const { code, stderr } = await cli(['relay', ...given], { url })
  expect(stderr).toContain(why)
  expect(code).toBe(2)
})
