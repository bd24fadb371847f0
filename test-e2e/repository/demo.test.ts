import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { redis, until } from '@onceward/testing'
import { expect, test } from 'vitest'
import {
  BROKER_NAMES,
  BROKERS,
  type BrokerName,
  brokersWith,
  DEFAULT_BROKER,
} from '../brokers/index.ts'

const main = join(import.meta.dirname, '../demo/main.ts')

const start = (...args: readonly string[]) => startWith(process.env, ...args)

function startWith(env: NodeJS.ProcessEnv, ...args: readonly string[]) {
  const options = [
    '--conditions=@onceward/source',
    '--disable-warning=TimeoutNegativeWarning',
    main,
  ]
  const child = spawn(process.execPath, [...options, ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env,
  })
  const output = Promise.all([once(child, 'close'), text(child.stdout), text(child.stderr)])
  const done = output.then(([[code], stdout, stderr]) => ({ code, stdout, stderr }))
  return { child, done }
}

const CHARGED_ONCE =
  'the demo on %s charges every order once with the guard and some twice without it'

async function chargesOnce(broker: BrokerName, client?: string): Promise<void> {
  const named = client === undefined ? [] : ['--client', client]
  const args = ['--broker', broker, ...named, '--events', '60', '--kills', '2', '--json']
  const { code, stdout, stderr } = await start(...args).done
  const told = [
    'killed by SIGKILL after its commit, before its acknowledgement',
    'killed by SIGKILL inside a transaction',
    ...(BROKERS[broker].traits.dropsSilentConsumers ? ['stopped by SIGSTOP for'] : []),
  ]
  // Once without the guard and once with it.
  for (const line of told) expect(stderr.split(line).length - 1, stderr).toBe(2)
  const result = JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '')
  expect(result).toEqual({
    broker,
    events: 60,
    deliveries: expect.any(Number),
    kills: 2,
    effects: 60,
    lost: 0,
    doubled: 0,
    durationMs: expect.any(Number),
    unguarded: { effects: expect.any(Number), lost: 0, doubled: expect.any(Number) },
  })
  // How many orders were in hand at the kills is chance, but one of them had committed and was not acknowledged.
  expect(result.deliveries).toBeGreaterThan(60)
  expect(result.unguarded.doubled).toBeGreaterThan(0)
  expect(result.unguarded.effects).toBeGreaterThan(60)
  expect(code).toBe(0)
}

// The crash tests kill workers on every broker for every change.
test(CHARGED_ONCE.replace('%s', DEFAULT_BROKER), { timeout: 300_000 }, () =>
  chargesOnce(DEFAULT_BROKER),
)

test.each(BROKER_NAMES.filter((name) => name !== DEFAULT_BROKER))(
  CHARGED_ONCE,
  { tags: 'nightly', timeout: 300_000 },
  chargesOnce,
)

test(
  'the demo on Kafka charges every order once with another client',
  {
    tags: 'nightly',
    timeout: 300_000,
  },
  () => chargesOnce('kafka', 'platformatic'),
)

test('with --redis every order is charged once, whatever Redis loses', {
  tags: 'nightly',
}, async () => {
  const { code, stdout, stderr } = await start(
    '--events',
    '40',
    '--kills',
    '2',
    '--redis',
    '--json',
  ).done
  expect(stderr).toMatch(/Redis flushed: [1-9]\d* keys gone/)
  expect(stderr).toContain('Redis killed by SIGKILL')
  expect(stderr).toContain('Redis restarted')
  expect(JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '')).toMatchObject({
    ...{ events: 40, kills: 2, effects: 40, lost: 0, doubled: 0 },
    unguarded: { lost: 0, doubled: expect.any(Number) },
  })
  expect(code).toBe(0)
})

test('with --outbox every payment is announced once, and by hand some are never announced', {
  tags: 'nightly',
}, async () => {
  const { code, stdout, stderr } = await start(
    '--outbox',
    '--events',
    '60',
    '--kills',
    '2',
    '--json',
  ).done
  const told = 'killed by SIGKILL after its commit, before its announcement'
  expect(stderr.split(told).length - 1, stderr).toBe(2)
  const result = JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '')
  expect(result).toMatchObject({ events: 60, kills: 2, effects: 60, lost: 0, doubled: 0 })
  expect(result.unguarded.lost).toBeGreaterThan(0)
  expect(code).toBe(0)
})

test('with --http every order is charged once, whatever the network and the server do', {
  tags: 'nightly',
}, async () => {
  const { code, stdout, stderr } = await start('--http', '--events', '60', '--kills', '2', '--json')
    .done
  expect(stderr.split('server killed by SIGKILL').length - 1, stderr).toBe(4)
  const result = JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '')
  const guarded = { events: 60, kills: 2, effects: 60, lost: 0, doubled: 0, wrongAccounts: 0 }
  expect(result).toMatchObject({ guarded, unguarded: { lost: 0 } })
  expect(result.unguarded.doubled).toBeGreaterThan(0)
  expect(result.guarded.requests).toBeGreaterThan(60)
  expect(code).toBe(0)
})

test('the demo neither flushes nor kills a Redis of the user', async () => {
  await using server = await redis({ native: true })
  const env = { ...process.env, ONCEWARD_REDIS_URL: server.connection.url }
  const { code, stderr } = await startWith(env, '--redis').done
  expect(code).toBe(2)
  expect(stderr).toContain('unset ONCEWARD_REDIS_URL')
})

test('without any Redis to be had --redis says what to install', async () => {
  const { PATH: _, ...env } = process.env
  const { code, stderr } = await startWith({ ...env, PATH: '/nowhere' }, '--redis').done
  expect(code).toBe(2)
  expect(stderr).toContain('--redis needs a Redis of its own')
  expect(stderr).toContain('redis-server')
})

// Programs in /usr/sbin are found without a PATH.
const isHidden = (needs: string | undefined): boolean =>
  needs !== undefined && !existsSync(`/usr/sbin/${needs}`)

test.each(brokersWith(({ needs }) => isHidden(needs)))(
  'if no server can be started, --broker %s says what to install',
  async (broker) => {
    const env = Object.entries(process.env).filter(
      ([name]) => !/^ONCEWARD_.*_(URL|BROKERS)$/.test(name),
    )
    const own = { ...Object.fromEntries(env), PATH: '/nowhere', ONCEWARD_DOCKER: '0' }
    const { code, stderr } = await startWith(own, '--broker', broker).done
    expect(code).toBe(2)
    expect(stderr).toContain(`--broker ${broker} needs`)
    expect(stderr).toContain(BROKERS[broker].needs)
  },
)

function childrenOf(parent: number | undefined): number[] {
  const lines = execFileSync('ps', ['-A', '-o', 'pid=,ppid=']).toString().trim().split('\n')
  const processes = lines.map((line) => line.trim().split(/\s+/).map(Number))
  return processes.flatMap(([pid = 0, ppid]) => (ppid === parent ? [pid] : []))
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

test.each([
  ['SIGINT', 130],
  ['SIGKILL', null],
] as const)('the demo leaves no process behind after %s', async (signal, code) => {
  const { child, done } = start()
  const seen: Buffer[] = []
  child.stdout.on('data', (chunk: Buffer) => seen.push(chunk))
  await until(() => Buffer.concat(seen).includes('SIGKILL inside a transaction'), {
    deadlineMs: 60_000,
  })
  const children = childrenOf(child.pid)
  expect(children.length).toBeGreaterThanOrEqual(4)
  child.kill(signal)
  expect((await done).code).toBe(code)
  await until(() => !children.some(isAlive), { what: `the end of ${children.join(', ')}` })
})

test.each([
  ['--broker stomp', 'unknown broker: stomp'],
  ['--events many', 'Expected --events'],
  ['--outbox --http', '--outbox is played on a broker, alone'],
  ['--nonsense', '--nonsense'],
])('the demo refuses %s', async (args, why) => {
  const { code, stderr } = await start(...args.split(' ')).done
  expect(code).toBe(2)
  expect(stderr).toContain(why)
})

test('with --console the page is there during the run and after it, until the demo is interrupted', {
  tags: 'nightly',
}, async () => {
  const { child, done } = start('--events', '5', '--kills', '0', '--console')
  let told = ''
  child.stdout.on('data', (chunk: Buffer) => {
    told += chunk.toString()
  })
  await until(() => told.includes('the servers stay up') || child.exitCode !== null, {
    what: 'the end of the run',
    deadlineMs: 90_000,
  })
  expect(child.exitCode).toBeNull()
  const url = /the console is at (\S+)/.exec(told)?.[1] ?? ''
  const response = await fetch(new URL('api/status', url))
  const { status } = (await response.json()) as { readonly status: { readonly consumers: unknown } }
  expect(status.consumers).toMatchObject([{ doneHour: 5 }])
  child.kill('SIGINT')
  expect((await done).code).toBe(0)
  await expect(fetch(url)).rejects.toThrow()
})
