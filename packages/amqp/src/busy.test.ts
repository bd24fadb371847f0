import { expect, test } from 'vitest'
import { consuming } from './fixtures/consuming.ts'
import { PushingBroker } from './fixtures/pushing-broker.ts'

const ack = { kind: 'ack', by: 'processed' } as const

/** Messages take the same time, on a broker that is so far away. Answers what was busy, and how long messages were in hand. */
async function busyWith({ slots, messageMs, roundTripMs }: Pace) {
  const kit = await consuming({}, { concurrency: slots })
  const { clock, state } = kit
  let done = 0
  state.decide = () =>
    new Promise((resolve) => {
      const settled = (): void => {
        done += 1
        resolve(ack)
      }
      clock.runtime.setTimer(settled, messageMs)
    }) as never
  const messages = 30 * slots
  const beganMs = clock.nowMs
  const broker = new PushingBroker(kit, { left: messages, roundTripMs, prefetch: slots })
  while (done < messages) await clock.advance(0.25)
  const busy = (messages * messageMs) / ((clock.nowMs - beganMs) * slots)
  const inHandMs = broker.inHandMs.toSorted((a, b) => a - b)
  return { busy, medianMs: inHandMs[Math.floor(inHandMs.length / 2)] ?? Number.NaN }
}

interface Pace {
  readonly slots: number
  readonly messageMs: number
  readonly roundTripMs: number
}

// Red without a reserve, when slots are idle for a round trip, and with a second's worth, when messages wait in hand.
test.each([
  { slots: 16, messageMs: 4, roundTripMs: 2 },
  { slots: 16, messageMs: 4, roundTripMs: 0.5 },
  { slots: 6, messageMs: 3, roundTripMs: 1 },
  { slots: 16, messageMs: 90, roundTripMs: 1 },
])(
  '$slots slots with messages of $messageMs ms are busy $roundTripMs ms from the broker, and the median wait is short',
  async (pace) => {
    const { busy, medianMs } = await busyWith(pace)
    expect(busy).toBeGreaterThan(0.93)
    expect(medianMs).toBeLessThanOrEqual(1.5 * pace.messageMs + 0.25)
  },
)
