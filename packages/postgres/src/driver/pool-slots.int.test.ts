import { ConfigurationError, StoreUnavailableError } from '@onceward/core'
import { database, until } from '@onceward/testing'
import { fresh, newEvent, silent } from '@onceward/testing/conformance'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { CLIENTS, NOTHING, type TestClient, type TestSession } from '../fixtures/clients.ts'
import { newEvents } from '../fixtures/inbox.ts'
import { migrate } from '../operators/migrate.ts'

describe.each(CLIENTS)('the pool of guards over $name', ({ make }) => {
  const MAX = 6
  let url: string
  let client: TestClient

  beforeAll(async () => {
    url = (await database()).url
    client = make({ connectionString: url, max: MAX })
    await migrate(client.pool)
    await client.pool.query('create table charges (id uuid primary key)')
  })
  afterAll(() => client.close())

  it('is never used up by several guards, because two connections stay spare', async () => {
    const sessions = [await client.open(), await client.open()]
    const open = await Promise.all(
      [...newEvents(MAX - 2)].map((event, index) => sessions[index % 2]!.begun(event)),
    )
    const waiting = sessions[0]!.begun(newEvent())
    const spare = await Promise.all(newEvents(8).map((event) => sessions[1]!.classify([event])))
    expect(spare.flat()).toEqual(Array(8).fill({ kind: 'absent' }))
    expect(client.pool.totalCount).toBeLessThanOrEqual(MAX)
    await open[0]!.transaction.commit(NOTHING)
    const next = await waiting
    for (const { transaction } of [...open.slice(1), next]) await transaction.rollback()
  })

  it('refuses a chosen concurrency that is too high for it, and lowers a default', async () => {
    const chosen = client.open({}, { concurrency: MAX - 1, concurrencyChosen: true })
    await expect(chosen).rejects.toBeInstanceOf(ConfigurationError)
    const lines: object[] = []
    const logger = { ...silent, info: (fields: object) => void lines.push(fields) }
    const lowered = await client.open({}, { concurrency: 8, logger })
    expect(lowered.concurrency).toBe(MAX - 2)
    expect(lines).toHaveLength(1)
  })

  it("is waited for in bounded time if the user's own code has exhausted it", async () => {
    const session = await client.open()
    const taken = await Promise.all(Array.from({ length: MAX }, () => client.pool.connect()))
    await expect(session.begin(fresh(newEvent()))).rejects.toBeInstanceOf(StoreUnavailableError)
    for (const each of taken) each.release()
    const { transaction } = await session.begun(newEvent())
    expect(await transaction.commit(NOTHING)).toEqual({ kind: 'committed' })
    // Kysely gives a connection back a few turns later.
    await until(() => client.pool.idleCount === client.pool.totalCount)
  })

  it('gets every connection back from sixteen concurrent runs, however they end', async () => {
    const big = make({ connectionString: url, max: 18 })
    const session = await big.open({}, { concurrency: 16, concurrencyChosen: true })
    const events = newEvents(320)
    let next = 0
    let committed = 0
    const worker = async (): Promise<void> => {
      for (let event = events[next++]; event !== undefined; event = events[next++]) {
        // Each event twice at once: one wins, the other waits and finds it done, or held.
        const ends = await Promise.all([run(session, event), run(session, event)])
        committed += ends.filter((end) => end).length
      }
    }
    await Promise.all(Array.from({ length: 16 }, worker))
    const { rows } = await big.pool.query('select count(*)::int as n from charges')
    const done = await session.classify(events)
    expect(rows[0].n).toBe(committed)
    expect(done.filter(({ kind }) => kind === 'done')).toHaveLength(committed)
    expect([big.pool.idleCount, big.pool.waitingCount]).toEqual([big.pool.totalCount, 0])
    const open = await big.pool.query(
      "select from pg_stat_activity where datname = current_database() and state like 'idle in transaction%'",
    )
    expect(open.rowCount).toBe(0)
    await big.close()
  })

  /** Commits, fails, swallows an error or is revoked, depending on the event's id. */
  async function run(session: TestSession, event: ReturnType<typeof newEvent>): Promise<boolean> {
    const begun = await session.begin({ ...fresh(event), waitMs: 5_000 })
    if (begun.kind !== 'open') return false
    const { transaction } = begun
    const handle = session.over(transaction.tx)
    await handle('insert into charges values ($1)', [event.id])
    switch (Number.parseInt(event.id.slice(0, 2), 16) % 5) {
      case 0:
        await transaction.rollback()
        return false
      case 1:
        await handle('select 1 / 0').catch(() => undefined)
        return (await transaction.commit(NOTHING)).kind === 'committed'
      case 2:
        transaction.revoke(new StoreUnavailableError('revoked'))
        await transaction.rollback()
        return false
      default:
        return (await transaction.commit(NOTHING)).kind === 'committed'
    }
  }
})
