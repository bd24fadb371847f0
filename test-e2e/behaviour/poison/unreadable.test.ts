// @module-tag nightly

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { RunningBroker } from '../../brokers/broker.ts'
import { BROKER_NAMES, BROKERS } from '../../brokers/index.ts'
import { onceEach, orders } from '../../support/effects.ts'
import { Testbed } from '../../support/testbed.ts'
import { Crew } from '../../support/workers/crew.ts'

const ATTEMPTS = 3
const POISON = 'order-poison'

/*
 * One message kills every process that decodes it, so no event exists whose attempts could be counted. Red before: it
 * killed one process after the other without end. Kafka needs a rebalance for every death, so it is left to the unit
 * tests of the same engine.
 */
describe.concurrent.each(BROKER_NAMES.filter((name) => name !== 'kafka'))('on %s', (name) => {
  let broker: RunningBroker
  beforeAll(async () => {
    broker = await BROKERS[name].servers.acceptance.start()
  })
  afterAll(() => broker.server.stop())

  test('a message that kills every process that decodes it is dead-lettered, and all others are processed', async () => {
    await using testbed = await Testbed.open({
      queue: await broker.createQueue(),
      worker: { transaction: 'each', attempts: ATTEMPTS, decodes: true },
    })
    const innocent = orders(60)
    await testbed.send([...innocent.slice(0, 30), { id: POISON, deed: 'kill-decoder' }])
    await testbed.send(innocent.slice(30))
    const crew = await Crew.of(3, testbed)

    await testbed.until(async () => (await refused(testbed)).published, { what: 'a dead letter' })
    const isDone = async () => Object.keys(await testbed.effects()).length === innocent.length
    await testbed.until(isDone, { what: 'all other effects' })
    await testbed.drained()
    crew.end()

    // The first delivery is not a suspect, so nothing is written for it.
    expect(crew.deaths.length).toBeLessThanOrEqual(ATTEMPTS + 1)
    expect(new Set(crew.deaths)).toEqual(new Set(['SIGKILL']))
    expect(await testbed.effects()).toEqual(onceEach(innocent))
    expect(await testbed.troubles()).toEqual([])
    expect(await refused(testbed)).toEqual({ reason: 'no-verdict', published: true })
    expect(await testbed.queue?.deadLetters()).toEqual([{ id: POISON, reason: 'no-verdict' }])
  })
})

interface Refused {
  readonly reason?: string
  readonly published: boolean
}

async function refused({ pool }: Testbed): Promise<Refused> {
  const { rows } = await pool.query<Refused>(
    'select reason, published from onceward.refused_messages',
  )
  return rows[0] ?? { published: false }
}
