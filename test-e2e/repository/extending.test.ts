import { expect, it } from 'vitest'
import { missingIn } from './named-in-docs.ts'

/** Names of the adapters' equal roles and of the option table, which come with the next merge. */
const COMING = [
  'dispatch.ts',
  'packages/core/src/model/attempt-rules.ts',
  'refuseProblems',
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
