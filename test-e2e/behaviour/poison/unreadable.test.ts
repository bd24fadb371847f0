// @module-tag nightly

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { RunningBroker } from '../../brokers/broker.ts'
import { BROKER_NAMES, BROKERS } from '../../brokers/index.ts'
import { onceEach, orders } from '../../support/effects.ts'
import { TestStage } from '../../support/test-stage.ts'
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
    await using stage = await TestStage.open({
      queue: await broker.createQueue(),
      worker: { transaction: 'each', attempts: ATTEMPTS, decodes: true },
    })
    const innocent = orders(60)
    await stage.send([...innocent.slice(0, 30), { id: POISON, deed: 'kill-decoder' }])
    await stage.send(innocent.slice(30))
    const crew = await Crew.of(3, stage)

    await stage.until(async () => (await refused(stage)).published, { what: 'a dead letter' })
    const isDone = async () => Object.keys(await stage.effects()).length === innocent.length
    await stage.until(isDone, { what: 'all other effects' })
    await stage.drained()
    crew.end()

    // The first delivery is not a suspect, so nothing is written for it.
    expect(crew.deaths.length).toBeLessThanOrEqual(ATTEMPTS + 1)
    expect(new Set(crew.deaths)).toEqual(new Set(['SIGKILL']))
    expect(await stage.effects()).toEqual(onceEach(innocent))
    expect(await stage.troubles()).toEqual([])
    expect(await refused(stage)).toEqual({ reason: 'no-verdict', published: true })
    expect(await stage.queue?.deadLetters()).toEqual([{ id: POISON, reason: 'no-verdict' }])
  })
})

interface Refused {
  readonly reason?: string
  readonly published: boolean
}

async function refused({ pool }: TestStage): Promise<Refused> {
  const { rows } = await pool.query<Refused>(
    'select reason, published from onceward.refused_messages',
  )
  return rows[0] ?? { published: false }
}
