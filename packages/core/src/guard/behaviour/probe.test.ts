import { describe, expect, test } from 'vitest'
import { Clock } from '../../fixtures/clock.ts'
import { changedInbox, silent } from '../../fixtures/inbox.ts'
import { memoryInbox, memoryLeases, toDelivery } from '../../memory/index.ts'
import type { Delivery } from '../../model/delivery.ts'
import { StoreUnavailableError } from '../../model/errors.ts'
import { portOf } from '../../model/guard-port.ts'
import type { Inbox } from '../../model/inbox.ts'
import { createGuard } from '../guard.ts'

const turns = async (): Promise<void> => {
  for (let n = 0; n < 20; n += 1) await new Promise((resolve) => setImmediate(resolve))
}
const processed = { kind: 'ack', by: 'processed' } as const
const event = (payload: string): Delivery => toDelivery(payload, { messageId: payload })

/** A guard whose database was down and is up again. The pause of its breaker is over. */
async function recovered() {
  const clock = new Clock()
  const runtime = { ...clock.runtime, random: () => 0.5 }
  const memory = memoryInbox()
  let isDown = false
  const inbox: Inbox<undefined> = changedInbox(memory, (session) => ({
    begin: (request) =>
      isDown ? Promise.reject(new StoreUnavailableError('down')) : session.begin(request),
  }))
  const gate = Promise.withResolvers<void>()
  const guard = createGuard(
    {
      ...{ consumer: 'billing', inbox, logger: silent, runtime },
      skip: ({ payload }) => payload === 'skipped',
      onMissingKey: 'dead-letter',
    },
    ({ payload }) => (payload === 'slow' ? gate.promise : undefined),
  )
  const slow = guard.process(event('slow'))
  await turns()
  isDown = true
  expect(await guard.process(event('first'))).toMatchObject({ cause: 'store-error' })
  expect(portOf(guard).availability().kind).toBe('down')
  isDown = false
  clock.advance(1_000)
  return { clock, guard, gate, slow }
}

describe('a probe of the breaker', () => {
  // Red before: the skipped message used the probe up, and the next event was deferred for ten more seconds.
  test('that is spent on a skipped message is given back', async () => {
    const { gate, guard } = await recovered()
    expect(await guard.process(toDelivery('skipped'))).toEqual({ kind: 'ack', by: 'skipped' })
    expect(await guard.process(event('next'))).toEqual(processed)
    expect(portOf(guard).availability()).toEqual({ kind: 'available' })
    gate.resolve()
    await guard.close()
  })

  test('that only waited for a run of this process is given back', async () => {
    const { clock, gate, guard } = await recovered()
    const copy = guard.process({ ...event('slow'), redelivered: true })
    await turns()
    clock.advance(250)
    expect(await copy).toMatchObject({ cause: 'in-flight-here' })
    expect(await guard.process(event('next'))).toEqual(processed)
    gate.resolve()
    await guard.close()
  })

  test('that recorded a message without a key closes the breaker', async () => {
    const { gate, guard } = await recovered()
    const keyless = toDelivery('keyless', { headers: {} })
    expect(await guard.process(keyless)).toMatchObject({ reason: 'missing-event-key' })
    expect(portOf(guard).availability()).toEqual({ kind: 'available' })
    gate.resolve()
    await guard.close()
  })

  // Red before: without an inbox nothing reported the success, so one event in ten seconds was let through for ever.
  test('that opens the stores of a guard without an inbox closes the breaker', async () => {
    const clock = new Clock()
    let isDown = true
    const leases = memoryLeases(clock.runtime)
    const open = async () => {
      if (isDown) throw new StoreUnavailableError('down')
      return leases
    }
    const given = { consumer: 'mailing', leases: { ...leases, open }, logger: silent } as const
    const runtime = clock.runtime
    const guard = createGuard({ ...given, runtime, onTakeover: 'retry' }, () => undefined)
    expect(await guard.process(event('first'))).toMatchObject({ cause: 'store-error' })
    isDown = false
    clock.advance(1_000)
    expect(await guard.process(event('second'))).toEqual(processed)
    expect(await guard.process(event('third'))).toEqual(processed)
    await guard.close()
  })
})
