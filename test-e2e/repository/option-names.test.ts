import { handMadeGuard } from '@onceward/testing/adapter'
import { expect, test } from 'vitest'
import { sharedDocs } from '../../scripts/docs-brokers.ts'
import { BROKER_NAMES, BROKERS } from '../brokers/index.ts'

// Red when an option is documented and refused, because somebody forgot its name in the list of the adapter.
test.each(BROKER_NAMES)('%s takes every option that its page documents', async (name) => {
  const { options } = await BROKERS[name].docs()
  const given: Record<string, unknown> = { undocumented: 1 }
  for (const documented of Object.keys({ ...options, ...sharedDocs({}) })) {
    const [group = '', field] = documented.split('.')
    const former = given[group]
    given[group] = field === undefined ? former : { ...(former as object), [field]: undefined }
  }
  const consume = await BROKERS[name].consume()
  const refusal = await consume(undefined as never, handMadeGuard().guard, given as never).catch(
    (error: Error) => error.message.split('\n'),
  )
  expect(refusal).toEqual([expect.stringContaining('does not know "undocumented"')])
})
