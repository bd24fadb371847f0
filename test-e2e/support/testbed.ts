import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Json } from '@onceward/core'
import { migrate } from '@onceward/postgres'
import { database, until } from '@onceward/testing'
import { Pool } from 'pg'
import type { QueueUnderTest } from '../brokers/queue-under-test.ts'
import type { Order, WorkerConfig } from './workers/protocol.ts'
import { WORKER, WorkerProcess } from './workers/worker-process.ts'

const TABLES = `
create table effects (
  id text not null, worker text not null, attempt int not null, place bigint generated always as identity
);
create table balances (account int primary key, cents bigint not null);
create table afterwards (id text not null);
create table mended (id text primary key);
create table replies (id text not null, is_of_duplicate boolean not null);
create table full_disk (yes boolean);
create function fill_disk() returns void language plpgsql as $$
begin
  if exists (select from full_disk) then
    raise sqlstate '53100' using message = 'could not extend file: No space left on device';
  end if;
end $$`

export interface TestbedOptions {
  /** Where workers receive from; closed with the testbed. Default: deliveries come from the test itself. */
  readonly queue?: QueueUnderTest | undefined
  /** Default: a fresh database on the shared server. */
  readonly databaseUrl?: string | undefined
  readonly worker: Pick<WorkerConfig, 'transaction'> & Partial<WorkerConfig>
}

/** A row of `failed_events` with the state of its event. */
export interface Trouble {
  readonly id: string
  readonly state: string
  readonly attempt: number
  readonly reason: string | null
  readonly published: boolean
}

/** A database, a queue with its dead-letter queue, and the workers on them. Disposing the testbed removes all of it. */
export class Testbed implements AsyncDisposable {
  readonly pool: Pool
  readonly queue: QueueUnderTest | undefined
  readonly workers: WorkerProcess[] = []
  /** The testbed is being disposed. */
  isClosing = false
  readonly #options: TestbedOptions
  readonly #databaseUrl: string
  readonly #directory: string

  private constructor(parts: {
    readonly options: TestbedOptions
    readonly databaseUrl: string
    readonly directory: string
  }) {
    this.#options = parts.options
    this.#databaseUrl = parts.databaseUrl
    this.#directory = parts.directory
    this.queue = parts.options.queue
    this.pool = new Pool({ connectionString: parts.databaseUrl, max: 3 })
    this.pool.on('error', () => undefined)
  }

  static async open(options: TestbedOptions): Promise<Testbed> {
    const databaseUrl = options.databaseUrl ?? (await database()).url
    const directory = await mkdtemp(join(tmpdir(), 'onceward-e2e-'))
    const testbed = new Testbed({ options, databaseUrl, directory })
    await migrate(testbed.pool)
    await testbed.pool.query(TABLES)
    return testbed
  }

  get databaseUrl(): string {
    return this.#databaseUrl
  }

  /** Starts a worker process, which reports `ready`. */
  spawn(name: string, own: Partial<WorkerConfig> = {}, script: string = WORKER): WorkerProcess {
    const config = {
      name,
      databaseUrl: this.#databaseUrl,
      source: this.queue?.source ?? { kind: 'manual' },
      runsFile: this.#runsFile,
      ...this.#options.worker,
      ...own,
    }
    const worker = new WorkerProcess(config, script)
    this.workers.push(worker)
    return worker
  }

  async send(orders: readonly Order[]): Promise<void> {
    await this.queue?.send(orders)
  }

  /** Committed effects by event. Events without an effect are left out. */
  async effects(): Promise<Readonly<Record<string, number>>> {
    const { rows } = await this.pool.query<{ id: string; n: number }>(
      'select id, count(*)::int as n from effects group by id',
    )
    return Object.fromEntries(rows.map(({ id, n }) => [id, n]))
  }

  /** Who committed an effect, in which attempt. */
  async committed(id: string): Promise<readonly { readonly worker: string; attempt: number }[]> {
    const text = 'select worker, attempt from effects where id = $1'
    return (await this.pool.query<{ worker: string; attempt: number }>(text, [id])).rows
  }

  /** The state of the event's row; undefined if the inbox has none. */
  async state(id: string): Promise<string | undefined> {
    const { rows } = await this.pool.query<{ state: string }>(
      "select state from onceward.processed_events where event_id = onceward.event_id('orders', null, $1)",
      [id],
    )
    return rows[0]?.state
  }

  async troubles(): Promise<readonly Trouble[]> {
    const { rows } = await this.pool.query<Trouble>(
      `select f.key as id, p.state, f.attempt, f.reason, f.published
      from onceward.failed_events f join onceward.processed_events p using (event_id) order by f.key`,
    )
    return rows
  }

  /** Every run of the handler, including runs that were rolled back. */
  async runs(): Promise<readonly { readonly worker: string; id: string; attempt: number }[]> {
    const text = await readFile(this.#runsFile, 'utf8').catch(() => '')
    return text
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => {
        const [worker = '', id = '', attempt] = line.split(' ')
        return { worker, id, attempt: Number(attempt) }
      })
  }

  /** What happened to these events, for the message of a failed test. */
  async explain(ids: readonly string[]): Promise<string> {
    const troubles = await this.troubles()
    const runs = await this.runs()
    const lines = ids.slice(0, 5).map((id) => {
      const told = this.workers.map(({ name, settled }) => [
        name,
        ...settled
          .filter((each) => each.id === id)
          .map(({ kind, why, error }) => ({ kind, why, error })),
      ])
      const stored = troubles.find((trouble) => trouble.id === id)
      return JSON.stringify({ id, told, stored, runs: runs.filter((run) => run.id === id) })
    })
    const logs = ids.length === 0 ? [] : this.workers.map(({ log }) => log.slice(-8_000))
    return [...lines, ...logs].join('\n')
  }

  /** Waits until the queue holds nothing, hidden messages included. */
  async drained(deadlineMs = 150_000): Promise<void> {
    await this.until(async () => (await this.queue?.depth()) === 0, {
      what: 'an empty queue',
      deadlineMs,
    })
  }

  /** Like `until`, with the logs of the workers in the error. */
  async until(
    condition: () => Promise<Json | boolean | undefined>,
    { what, deadlineMs = 150_000 }: { readonly what: string; readonly deadlineMs?: number },
  ): Promise<void> {
    try {
      await until(condition, { what, deadlineMs, everyMs: 50 })
    } catch (error) {
      const logs = this.workers.map(({ log }) => log.slice(-4_000)).join('\n')
      const states = await Promise.all(this.workers.map((worker) => worker.describe()))
      throw new Error(`${String(error)}\n${logs}\n${states.join('\n')}`, { cause: error })
    }
  }

  get #runsFile(): string {
    return join(this.#directory, 'runs')
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.isClosing = true
    await Promise.all(this.workers.map((worker) => worker[Symbol.asyncDispose]()))
    await this.queue?.close()
    await this.pool.end()
    await rm(this.#directory, { recursive: true, force: true })
  }
}
