// @module-tag nightly

import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { expect, test } from 'vitest'
import { until } from '../../until.ts'
import { dockerAnswers } from './docker.ts'
import { descendants, isRunning } from './process-tree.ts'
import { type ServiceName, skipped } from './server.ts'

interface Family {
  readonly end: (signal?: NodeJS.Signals) => Promise<void>
  readonly pids: readonly number[]
  readonly directories: readonly string[]
}

/** A parent that starts servers, says so, and then waits for a signal or ends by itself. */
async function parentOf(starts: readonly string[], ending: string): Promise<Family> {
  const index = JSON.stringify(new URL('../index.ts', import.meta.url).href)
  const script = `
    import * as servers from ${index}
    const { kafka, nats, postgres, rabbitmq, redis, sqs } = servers
    const native = true
    const started = await Promise.all([${starts.join()}])
    console.log(JSON.stringify(started.map(({ name, pid }) => ({ name, pid }))))
    await new Promise((resolve) => process.stdin.once('data', resolve))
    process.stdin.destroy()
    ${ending}`
  const child = spawn(
    process.execPath,
    ['--conditions=@onceward/source', '--input-type=module', '--eval', script],
    { stdio: ['pipe', 'pipe', 'pipe'], cwd: import.meta.dirname },
  )
  const line = await firstLine(child)
  const started = JSON.parse(line) as { name: string; pid: number }[]
  expect(started.map(({ pid }) => isRunning(pid))).toEqual(started.map(() => true))
  const pids = descendants(child.pid as number)
  expect(pids).toEqual(expect.arrayContaining(started.map(({ pid }) => pid)))
  return {
    pids,
    directories: directoriesOf(pids),
    end: async (signal) => {
      const exit = once(child, 'exit')
      if (signal === undefined) child.stdin.write('end\n')
      else child.kill(signal)
      await exit
    },
  }
}

/** Rejects with what the parent complained of when it ends without a word. */
async function firstLine(child: ChildProcessWithoutNullStreams): Promise<string> {
  const complaints: string[] = []
  child.stderr.on('data', (data: Buffer) => complaints.push(data.toString()))
  const silent = once(child, 'close').then(([code]) => {
    throw new Error(`the parent ended with code ${code}: ${complaints.join('')}`)
  })
  silent.catch(() => undefined)
  const [line] = (await Promise.race([once(createInterface(child.stdout), 'line'), silent])) as [
    string,
  ]
  return line
}

/** Temporary directories that the watchdogs among the processes were given. */
function directoriesOf(pids: readonly number[]): string[] {
  const lines = pids.map((pid) => readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0'))
  return lines.filter((line) => line.includes('onceward-watchdog')).map((line) => line.at(-2) ?? '')
}

async function nothingIsLeft({ pids, directories }: Family): Promise<void> {
  await until(() => pids.every((pid) => !isRunning(pid)), { deadlineMs: 30_000 })
  await until(() => directories.every((directory) => !existsSync(directory)))
}

// What comes from elsewhere here need not be installed on this machine.
async function isNative(service: ServiceName, variable: string): Promise<boolean> {
  return !(skipped(service) || process.env[variable] || (await dockerAnswers()))
}

test('no server outlives a parent that was killed with SIGKILL', {
  tags: 'nightly',
  timeout: 180_000,
}, async () => {
  const starts = ['postgres({ native })', 'sqs({ native, process: true })']
  if (await isNative('redis', 'ONCEWARD_REDIS_URL')) starts.push('redis({ native })')
  if (await isNative('kafka', 'ONCEWARD_KAFKA_BROKERS')) starts.push('kafka({ native })')
  if (await isNative('rabbitmq', 'ONCEWARD_RABBITMQ_URL')) starts.push('rabbitmq({ native })')
  if (await isNative('nats', 'ONCEWARD_NATS_URL')) starts.push('nats({ native })')
  if (await isNative('sqs', 'ONCEWARD_SQS_ENDPOINT')) {
    starts.push("sqs({ native, engine: 'elasticmq' })")
  }
  const family = await parentOf(starts, '')
  // One watchdog for each, and one for the name server of RabbitMQ.
  expect(family.directories.length).toBeGreaterThanOrEqual(starts.length)
  await family.end('SIGKILL')
  await nothingIsLeft(family)
})

test('a parent that does not stop its servers can end, and they end with it', async () => {
  const family = await parentOf(['postgres({ native })', 'sqs({ native, process: true })'], '')
  await family.end()
  await nothingIsLeft(family)
})

test('a parent that calls exit leaves no server behind', async () => {
  const family = await parentOf(['sqs({ native, process: true })'], 'process.exit(3)')
  await family.end()
  await nothingIsLeft(family)
})
