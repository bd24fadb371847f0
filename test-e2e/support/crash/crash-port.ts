import type { Delivery, Settlement } from '@onceward/core'
import { attachPort, type Guard, type GuardPort, portOf } from '@onceward/core/adapter'
import type { Publish } from '@onceward/core/ports'
import type { CrashPoint, Order, Word } from '../workers/protocol.ts'
import type { Crashes } from './crash.ts'
import { withReplacedMethods } from './with-replaced-methods.ts'

export interface PortWatch {
  readonly crash: Crashes
  /** The longest deferral, ms, so that a test need not wait for what a killed worker deferred. */
  readonly longestDeferMs?: number | undefined
}

/**
 * The same guard for any adapter, with crash points between the two: before the guard is asked, and between the
 * settlement and what the adapter does with it.
 */
export function watchedGuard(guard: Guard, watch: PortWatch): Guard {
  const watched: Guard = {
    consumer: guard.consumer,
    process: (delivery) => guard.process(delivery),
    processBatch: (deliveries) => guard.processBatch(deliveries),
    close: () => guard.close(),
  }
  attachPort(watched, watchedPort(portOf(guard), watch))
  return watched
}

function watchedPort(port: GuardPort, { crash, longestDeferMs }: PortWatch): GuardPort {
  const sooner = (settlement: Settlement): Settlement =>
    settlement.kind === 'defer' && longestDeferMs !== undefined
      ? { ...settlement, until: earlier(settlement.until, port.runtime.now(), longestDeferMs) }
      : settlement
  return withReplacedMethods(port, {
    run: async (deliveries, hooks = {}) => {
      const orders = deliveries.map(orderOf)
      await crash.at('before-claim', orders)
      const points: Promise<void>[] = []
      const settlements = await port.run(deliveries, {
        ...hooks,
        onSettlement: (index, settlement) => {
          const at = pointsOf(settlement)
          const order = [orders[index] ?? '']
          for (const word of at.wire) crash.expect(word, order)
          if (crash.isAt(at.port, order)) points.push(crash.at(at.port, order))
          else hooks.onSettlement?.(index, sooner(settlement))
        },
      })
      // The promise must not resolve before the crash: the adapter would settle with its value.
      await Promise.all(points)
      return settlements.map(sooner)
    },
    publishDeadLetter: async (settlement, publish) => {
      const answer = await port.publishDeadLetter(settlement, watchedPublish(publish, crash))
      if (answer.kind === 'published') await crash.at('before-release', crash.armed)
      return answer
    },
  })
}

interface Points {
  /** The last crash point before the adapter learns of the settlement. */
  readonly port?: CrashPoint
  /** What the adapter then tells the broker. */
  readonly wire: readonly Word[]
}

function pointsOf(settlement: Settlement): Points {
  if (settlement.kind === 'ack') return { port: 'before-ack', wire: ['ack-on-wire'] }
  const hasFailed = settlement.kind === 'defer' && settlement.reason === 'failed'
  if (!hasFailed) return { wire: [] }
  return { port: 'before-defer', wire: ['defer-on-wire', 'release-on-wire'] }
}

function watchedPublish(publish: Publish, crash: Crashes): Publish {
  return async (letter) => {
    const order = [orderOf(letter.delivery)]
    await crash.at('before-dead-letter', order)
    crash.expect('dead-letter-on-wire', order)
    await publish(letter)
    await crash.at('after-dead-letter', order)
  }
}

const orderOf = ({ body }: Delivery): string =>
  String((JSON.parse(Buffer.from(body).toString()) as Order).id)

function earlier<Instant extends number>(
  until: Instant,
  nowMs: number,
  longestMs: number,
): Instant {
  return Math.min(until, nowMs + longestMs) as Instant
}
