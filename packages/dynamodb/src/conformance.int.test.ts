import { type Runtime, systemRuntime } from '@onceward/core/ports'
import { type LeaseStoreUnderTest, leaseStoreConformance } from '@onceward/testing/conformance'
import { afterAll, beforeAll } from 'vitest'
import { type Dynalite, startDynalite } from './fixtures/dynalite.ts'
import { leasesOf } from './lease-store.ts'

let server: Dynalite
let table: string

beforeAll(async () => {
  server = await startDynalite()
  table = await server.table()
})
afterAll(() => server[Symbol.asyncDispose]())

/** Events have ids of their own, so all tests share a table. */
async function makeStore(): Promise<LeaseStoreUnderTest> {
  let passedMs = 0
  const now = (): ReturnType<Runtime['now']> =>
    (systemRuntime.now() + passedMs) as ReturnType<Runtime['now']>
  return {
    // A busy machine may take seconds for a thousand requests.
    store: leasesOf(
      server.client,
      { table, clockSkewMs: 0, budgetMs: 60_000 },
      { ...systemRuntime, now },
    ),
    pass: async (ms) => {
      passedMs += ms
    },
    [Symbol.asyncDispose]: () => Promise.resolve(),
  }
}

leaseStoreConformance('dynamoLeases', makeStore, { rivals: 50, batch: 500 })
