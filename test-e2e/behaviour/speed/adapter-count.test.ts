import { test } from 'vitest'
import { BROKER_NAMES, BROKERS } from '../../brokers/index.ts'
import { count, expectAtMost } from './expect-at-most.ts'

test.each(BROKER_NAMES)(
  '%s: a clean event makes no more promises, timers and calls of the adapter than it did',
  async (name) => {
    const { MOST } = await BROKERS[name].inMemory()
    expectAtMost(await count('adapter-count-main', name), MOST)
  },
)
