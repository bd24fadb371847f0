import { memoryLeases } from '@onceward/core/memory'
import { type Runtime, systemRuntime } from '@onceward/core/ports'
import { leaseStoreConformance } from './lease-store.ts'
import type { LeaseStoreUnderTest } from './lease-store-under-test.ts'

async function makeStore(): Promise<LeaseStoreUnderTest> {
  let passedMs = 0
  const runtime: Runtime = {
    ...systemRuntime,
    monotonic: () => systemRuntime.monotonic() + passedMs,
  }
  return {
    store: memoryLeases(runtime),
    pass: async (ms) => {
      passedMs += ms
    },
    [Symbol.asyncDispose]: () => Promise.resolve(),
  }
}

leaseStoreConformance('memoryLeases', makeStore, { rivals: 10_000 })
