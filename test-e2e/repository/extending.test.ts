import { expect, it } from 'vitest'
import { missingIn } from './named-in-docs.ts'

/** Names of the adapters' equal roles, which come with the next merge; delete the list then. */
const COMING = [
  'dispatch.ts',
  'refuseProblems',
  'createSettleContext',
  'placeOf',
  'examine',
  'classifyError',
  'BrokerErrorKind',
  'ClassifiedError',
  'kindsByName',
  'Dispatcher',
  'DeliveryBuffer',
  'Receiver',
  'reportFindings',
]

it('docs/extending.md names only files and exported names that exist', () => {
  expect(missingIn('docs/extending.md', { foreign: COMING })).toEqual([])
})
