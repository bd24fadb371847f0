import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { database } from '@onceward/testing'
import { Pool } from 'pg'
import { expect } from 'vitest'

/** `npm run release -- --dry-run` gives a copy beside the packed packages, which has no sources to read. */
const packed = process.env['ONCEWARD_SAMPLES']
const samples = packed ?? join(import.meta.dirname, '../../docs/samples')
const fromSource = packed === undefined ? ['--conditions=@onceward/source'] : []

/** A server on which the samples of one broker run. */
export interface SampleServer {
  /** Resolves with a database and the queue that the samples read, empty. */
  openQueue(): Promise<SampleQueue>
  stop(): Promise<void>
}

export interface SampleQueue extends AsyncDisposable {
  readonly scenario: SampleScenario
  send(order: object): Promise<void>
  /** Messages that are not acknowledged, as far as the broker tells while a consumer runs. */
  waiting(): Promise<number>
}

/** A database with the tables of the samples, and the environment in which samples find it. */
export interface SampleScenario extends AsyncDisposable {
  readonly pool: Pool
  readonly env: NodeJS.ProcessEnv
}

/** @param more - Further variables that the samples read: the address of the broker. */
export async function openScenario(more: NodeJS.ProcessEnv): Promise<SampleScenario> {
  const { url } = await database()
  const pool = new Pool({ connectionString: url })
  await pool.query(`
    create table accounts (id int primary key, balance bigint not null);
    create table charges (order_id text not null, cents int not null);
    insert into accounts values (1, 10000)`)
  const { hostname, port, username, password, pathname } = new URL(url)
  const env = {
    ...process.env,
    ...{ DATABASE_URL: url, PGDATABASE: pathname.slice(1) },
    ...{ PGHOST: hostname, PGPORT: port, PGUSER: username },
    PGPASSWORD: decodeURIComponent(password),
    ...more,
  }
  return { pool, env, [Symbol.asyncDispose]: () => pool.end() }
}

/** A running sample of the documents, unchanged. */
export interface Sample extends AsyncDisposable {
  readonly process: ChildProcess
  output(): string
}

export function run(name: string, { env }: SampleScenario): Sample {
  const file = join(samples, `${name}.ts`)
  const quiet = '--disable-warning=TimeoutNegativeWarning'
  const child = spawn(process.execPath, [...fromSource, quiet, file], { env })
  const parts: Buffer[] = []
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (part: Buffer) => parts.push(part))
  }
  const end = async (): Promise<void> => {
    if (child.exitCode !== null || child.signalCode !== null) return
    child.kill('SIGKILL')
    await once(child, 'exit')
  }
  return {
    process: child,
    output: () => Buffer.concat(parts).toString(),
    [Symbol.asyncDispose]: end,
  }
}

/** Runs a sample that ends by itself. */
export async function runToEnd(name: string, scenario: SampleScenario): Promise<string> {
  await using sample = run(name, scenario)
  const [code] = await once(sample.process, 'close')
  expect(code, sample.output()).toBe(0)
  return sample.output()
}

/** Ends a sample that consumes; resolves with its exit code. */
export async function terminate({ process: child }: Sample): Promise<number | null> {
  const exited = once(child, 'exit')
  child.kill('SIGTERM')
  await exited
  return child.exitCode
}
