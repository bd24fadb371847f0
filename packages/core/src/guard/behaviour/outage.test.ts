import { expect, test } from 'vitest'
import { Clock } from '../../fixtures/clock.ts'
import { silent } from '../../fixtures/inbox.ts'
import { seededRandom } from '../../fixtures/random.ts'
import { memoryInbox, memoryLeases, toDelivery } from '../../memory/index.ts'
import type { Guard } from '../../model/guard-port.ts'
import type { Runtime } from '../../model/runtime.ts'
import { createGuard } from '../guard.ts'

const OUTAGE_MS = 4 * 60_000

const common = (runtime: Runtime) => ({ consumer: 'billing', logger: silent, runtime })
const GUARDS: readonly (readonly [string, (runtime: Runtime, handler: () => void) => Guard])[] = [
  [
    'with an inbox',
    (runtime, handler) => createGuard({ ...common(runtime), inbox: memoryInbox() }, handler),
  ],
  [
    'with leases alone',
    (runtime, handler) => {
      const leases = memoryLeases(runtime)
      return createGuard({ ...common(runtime), leases, onTakeover: 'retry' }, handler)
    },
  ],
]

// Red before: with five attempts and full jitter four of five events were dead-lettered within ten seconds.
test.each(GUARDS)(
  'an outage of four minutes dead-letters nothing under the defaults, %s',
  async (_, make) => {
    for (let seed = 0; seed < 50; seed += 1) {
      const clock = new Clock()
      const random = seed === 0 ? () => 0 : seededRandom(seed)
      const endsAtMs = clock.runtime.now() + OUTAGE_MS
      const guard = make({ ...clock.runtime, random }, () => {
        if (clock.runtime.now() < endsAtMs) throw new Error('the payment service is down')
      })
      let settlement = await guard.process(toDelivery('order', { messageId: 'order' }))
      let deliveries = 1
      while (settlement.kind === 'defer') {
        expect(settlement).toMatchObject({ reason: 'failed' })
        clock.advance(settlement.until - clock.runtime.now())
        settlement = await guard.process(
          toDelivery('order', { messageId: 'order', redelivered: true }),
        )
        deliveries += 1
      }
      expect(settlement, `seed ${seed}, ${deliveries} deliveries`).toEqual({
        kind: 'ack',
        by: 'processed',
      })
      await guard.close()
    }
  },
)
