import type { Health } from '@onceward/core'
import type { OncewardConsumers } from './consumers.ts'

/** What terminus makes its report of. */
export type OncewardHealthResult = Readonly<
  Record<
    string,
    {
      readonly status: 'up' | 'down'
      /** Something that consumers need does not answer, and they wait for it. */
      readonly degraded: boolean
      readonly consumers: Readonly<
        Record<string, { readonly state: Health['state']; readonly reason?: string }>
      >
    }
  >
>

/**
 * The health of all consumers, for terminus: `health.check([() => onceward.check('onceward')])`. It is down when a consumer
 * has stopped and can never go on, so that the platform starts the process again. An outage of a broker or of the database
 * is `degraded`, because another process would not fare better. Made by the module: inject it.
 */
export class OncewardHealth {
  readonly #consumers: Pick<OncewardConsumers, 'health'>

  /** Called by the module. */
  constructor(consumers: Pick<OncewardConsumers, 'health'>) {
    this.#consumers = consumers
  }

  /** @param key - The name in the report. */
  check(key: string): OncewardHealthResult {
    const all = Object.entries(this.#consumers.health())
    const consumers = Object.fromEntries(
      all.map(([name, { reason, state }]) => [
        name,
        { state, ...(reason !== undefined && { reason }) },
      ]),
    )
    const isDown = all.some(([, { state }]) => state === 'stopped')
    const degraded = all.some(
      ([, { outages, state }]) => state !== 'running' || outages !== undefined,
    )
    return { [key]: { status: isDown ? 'down' : 'up', degraded, consumers } }
  }
}
