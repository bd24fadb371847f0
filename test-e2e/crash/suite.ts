import { skipped } from '@onceward/testing'
import { afterAll, beforeAll, describe, test } from 'vitest'
import type { RunningBroker } from '../brokers/broker.ts'
import { BROKERS, type BrokerName } from '../brokers/index.ts'
import { nameOf, scenariosOf } from './matrix.ts'
import { play } from './scenario.ts'

/** Registers the scenarios of a broker, in the words of design.md §11. */
export function describeCrashes(name: BrokerName): void {
  const { title, service, start } = BROKERS[name].servers.crash
  const scenarios = scenariosOf(name)
  const titles = [...new Set(scenarios.map(({ row }) => row.title))]

  describe.skipIf(skipped(service))(title, () => {
    let broker: RunningBroker
    beforeAll(async () => {
      broker = await start()
    })
    // The server may have failed to start.
    afterAll(() => (broker as RunningBroker | undefined)?.server.stop())

    describe.concurrent('the process dies', () => {
      describe.each(titles)('%s', (row) => {
        for (const scenario of scenarios.filter((each) => each.row.title === row)) {
          test(nameOf(scenario), () => play(scenario, broker))
        }
      })
    })
  })
}
