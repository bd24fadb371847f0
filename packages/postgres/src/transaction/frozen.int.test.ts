import { type ChildProcess, spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { database, until } from '@onceward/testing'
import { fresh, newEvent } from '@onceward/testing/conformance'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { CLIENTS, NOTHING, type TestClient } from '../fixtures/clients.ts'
import { migrate } from '../operators/migrate.ts'

const WORKER = fileURLToPath(new URL('../fixtures/frozen-worker.ts', import.meta.url))
const BUDGET_MS = 500

describe.each(CLIENTS)(
  'a process that freezes inside its transaction, over $name',
  ({ name, make }) => {
    let url: string
    let client: TestClient

    beforeAll(async () => {
      url = (await database()).url
      client = make({ connectionString: url, max: 4 })
      await migrate(client.pool)
      await client.pool.query('create table charges (id uuid primary key)')
    })
    afterAll(() => client.close())

    function worker(id: string): { readonly child: ChildProcess; line(): Promise<string> } {
      const args = ['--conditions=@onceward/source', WORKER, name, url, id, String(BUDGET_MS)]
      const child = spawn(process.execPath, args, { stdio: ['pipe', 'pipe', 'inherit'] })
      const lines = createInterface({ input: child.stdout! })[Symbol.asyncIterator]()
      return { child, line: async () => (await lines.next()).value ?? 'nothing' }
    }

    it('trap T5: loses its event when its budget is over, and cannot commit when it continues', async () => {
      // Red without idle_in_transaction_session_timeout: the event is held as long as the process is frozen.
      const event = newEvent()
      const { child, line } = worker(event.id)
      expect(await line()).toBe('begun')
      child.kill('SIGSTOP')
      const session = await client.open({}, { concurrency: 1 })
      const successor = await until(async () => {
        const begun = await session.begin(fresh(event))
        return begun.kind === 'open' && begun
      })
      await session.over(successor.transaction.tx)('insert into charges values ($1)', [event.id])
      expect(await successor.transaction.commit(NOTHING)).toEqual({ kind: 'committed' })
      child.kill('SIGCONT')
      child.stdin?.end('\n')
      expect(await line()).not.toBe('committed')
      await until(() => child.exitCode !== null)
      expect(child.exitCode).toBe(0)
      const { rows } = await client.pool.query('select count(*)::int as n from charges')
      expect(rows[0].n).toBe(1)
    })
  },
)
