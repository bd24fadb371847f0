import type { Guard } from '@onceward/core'
import { handMadeGuard } from '@onceward/testing/adapter'
import { expect, test } from 'vitest'
import { consumeAmqp } from '../../packages/amqp/src/consume.ts'
import { consumeKafka } from '../../packages/kafka/src/consume.ts'
import { consumeSqs } from '../../packages/sqs/src/consume.ts'
import { BROKER_NAMES, BROKERS, type BrokerName } from '../brokers/index.ts'

type Consume = (client: never, guard: Guard, options: never) => Promise<unknown>
const CONSUME: Readonly<Record<BrokerName, Consume>> = {
  sqs: consumeSqs,
  kafka: consumeKafka,
  amqp: consumeAmqp,
}

// Red when an option is documented and refused, because somebody forgot its name in the list of the adapter.
test.each(BROKER_NAMES)('%s takes every option that its page documents', async (name) => {
  const { options } = await BROKERS[name].docs()
  const given: Record<string, unknown> = { undocumented: 1 }
  for (const documented of Object.keys(options)) {
    const [group = '', field] = documented.split('.')
    const former = given[group]
    given[group] = field === undefined ? former : { ...(former as object), [field]: undefined }
  }
  const refusal = await CONSUME[name](
    undefined as never,
    handMadeGuard().guard,
    given as never,
  ).catch((error: Error) => error.message.split('\n'))
  expect(refusal).toEqual([expect.stringContaining('does not know "undocumented"')])
})
