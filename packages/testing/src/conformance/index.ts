/** Suites that every implementation of a port must pass, and their steps; to be called from Vitest files. */
export { inboxConformance } from './inbox.ts'
export { type InboxModelSize, inboxModel } from './inbox-model.ts'
export {
  counted,
  fresh,
  type InboxCapabilities,
  type InboxUnderTest,
  MAX_ATTEMPTS,
  NOT_YOUNG_MS,
  newDelivery,
  newEvent,
  RIGHT_MS,
  registration,
  Steps,
  silent,
  strangeToken,
  WINDOW_MS,
} from './inbox-under-test.ts'
export { leaseStoreConformance } from './lease-store.ts'
export { type LeaseModelSize, leaseStoreModel } from './lease-store-model.ts'
export {
  FINGERPRINT,
  LEASE_MS,
  LeaseSteps,
  type LeaseStoreCapabilities,
  type LeaseStoreUnderTest,
  newClaim,
  newId,
  newToken,
  OTHER_PAYLOAD,
  REMEMBER_MS,
} from './lease-store-under-test.ts'
