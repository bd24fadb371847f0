import { memoryInbox } from '@onceward/core/memory'
import { type Runtime, systemRuntime } from '@onceward/core/ports'
import { inboxConformance } from './inbox.ts'
import type { InboxUnderTest } from './inbox-under-test.ts'

async function makeInbox(): Promise<InboxUnderTest<undefined>> {
  const inbox = memoryInbox()
  let passedMs = 0
  const runtime: Runtime = {
    ...systemRuntime,
    now: () => (systemRuntime.now() + passedMs) as ReturnType<Runtime['now']>,
    monotonic: () => systemRuntime.monotonic() + passedMs,
  }
  return {
    inbox,
    runtime,
    pass: async (ms) => {
      passedMs += ms
    },
    replay: async (ref) => {
      inbox.replay(ref)
    },
    [Symbol.asyncDispose]: () => Promise.resolve(),
  }
}

inboxConformance('memoryInbox', makeInbox, { storesBytes: false, countsMessages: true })
