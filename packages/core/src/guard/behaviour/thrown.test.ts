import { expect, test } from 'vitest'
import { setUp } from '../../fixtures/guard.ts'
import { toDelivery } from '../../memory/index.ts'
import type { Delivery } from '../../model/delivery.ts'
import { ConfigurationError, ConflictError, StoreUnavailableError } from '../../model/errors.ts'
import type { Guard } from '../../model/guard-port.ts'

const named = (key: string, payload: unknown): Delivery =>
  toDelivery(payload, { headers: { 'idempotency-key': key } })

const CALLS: readonly (readonly [
  string,
  (guard: Guard, delivery: Delivery) => Promise<unknown>,
])[] = [
  ['process', (guard, delivery) => guard.process(delivery)],
  [
    'processBatch',
    async (guard, delivery) =>
      (await guard.processBatch([named('neighbour', 'good'), delivery]))[1],
  ],
]

test.each(CALLS)('%s throws a configuration error of the stores', async (_, call) => {
  const refused = new ConfigurationError('no tables')
  const inbox = { open: () => Promise.reject(refused) }
  const { guard } = setUp(() => undefined, { concurrency: 1, ...{ inbox } })
  await expect(call(guard, named('a', 1))).rejects.toBe(refused)
  await guard.close()
})

test.each(CALLS)('%s does not throw what passes by itself', async (_, call) => {
  const error = new StoreUnavailableError('down')
  const inbox = { open: () => Promise.reject(error) }
  const { guard } = setUp(() => undefined, { concurrency: 1, ...{ inbox } })
  expect(await call(guard, named('a', 1))).toMatchObject({ reason: 'store-down', error })
  await guard.close()
})

test.each(CALLS)('%s does not throw a wrong answer of a function', async (_, call) => {
  const skip = ({ payload }: { readonly payload: unknown }) => (payload === 1 ? 'no' : false)
  const { guard } = setUp(() => undefined, { skip: skip as never })
  const error = { code: 'ONCEWARD_CONFIGURATION' }
  expect(await call(guard, named('a', 1))).toMatchObject({ reason: 'failed', error })
  await guard.close()
})

test.each(CALLS)('%s throws a conflict if the user wants it', async (_, call) => {
  const ran: unknown[] = []
  const { guard } = setUp(({ payload }) => void ran.push(payload), { onConflict: 'throw' })
  await guard.process(named('a', 1))
  await expect(call(guard, named('a', 2))).rejects.toThrow(ConflictError)
  await call(guard, named('a', 1))
  await guard.close()
  expect(ran).not.toContain(2)
})

test.each(CALLS)("%s does not throw a handler's error", async (_, call) => {
  const failed = new Error('not now')
  const failing = ({ payload }: { readonly payload: unknown }): void => {
    if (payload === 1) throw failed
  }
  const { guard } = setUp(failing, { onConflict: 'throw' })
  expect(await call(guard, named('a', 1))).toMatchObject({ reason: 'failed', error: failed })
  await guard.close()
})

test.each(CALLS)(
  "%s does not throw a conflict of another guard, which a handler's call met",
  async (_, call) => {
    const conflict = new ConflictError('of another guard')
    const { guard } = setUp(({ payload }) => {
      if (payload === 1) throw conflict
    })
    expect(await call(guard, named('a', 1))).toMatchObject({ reason: 'failed', error: conflict })
    await guard.close()
  },
)
