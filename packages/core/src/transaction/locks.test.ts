import { expect, test } from 'vitest'
import { troubled } from '../fixtures/troubled.ts'
import { toDelivery } from '../memory/index.ts'
import { StoreUnavailableError } from '../model/errors.ts'
import { portOf } from '../model/guard-port.ts'

const named = (name: string) => toDelivery(name, { messageId: name })
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

// Red when the lock is kept: no event could run alone in this process any more.
test('a store that fails before the run leaves the lock of the process free', async () => {
  const error = new StoreUnavailableError('down')
  const { clock, guard, runtime } = troubled(() => undefined, {
    session: () => ({ suspect: () => Promise.reject(error) }),
  })
  expect(await guard.process({ ...named('a'), redelivered: true })).toMatchObject({
    kind: 'defer',
    reason: 'store-down',
  })
  const taking = runtime.alone.exclusive({ limit: { runtime, ms: 1 } })
  clock.advance(1)
  expect(await taking).toBeTypeOf('function')
  await guard.close()
})

// Red when the wait cannot be ended: the drain would last as long as the run of the other guard.
test('a drain ends the wait for an event that another guard runs alone', async () => {
  const runs: unknown[] = []
  const { guard, runtime } = troubled(({ payload }) => void runs.push(payload))
  const release = await runtime.alone.exclusive()
  const stopping = new AbortController()
  const settlements: unknown[] = []
  const processing = portOf(guard)
    .run([named('a')], { stop: stopping.signal })
    .then((all: unknown) => settlements.push(all))
  await turn()
  stopping.abort()
  await turn()
  await turn()
  expect(settlements).toHaveLength(1)
  release?.()
  await processing
  expect(runs).toEqual([])
  await guard.close()
})
