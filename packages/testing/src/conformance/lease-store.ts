import { describe } from 'vitest'
import { leaseBatchTests } from './lease-store-batches.ts'
import { leaseClaimTests } from './lease-store-claims.ts'
import { leaseOperatorTests } from './lease-store-operators.ts'
import { leaseOwnerTests } from './lease-store-owners.ts'
import {
  LeaseSteps,
  type LeaseStoreCapabilities,
  type LeaseStoreUnderTest,
  type OpenLeases,
} from './lease-store-under-test.ts'

/**
 * What every lease store must do without an inbox: the table of design.md §4, cell by cell.
 *
 * @param makeStore - Called once per test; nothing is claimed yet.
 */
export function leaseStoreConformance(
  name: string,
  makeStore: () => Promise<LeaseStoreUnderTest>,
  capabilities: LeaseStoreCapabilities,
): void {
  const open: OpenLeases = async () => {
    const subject = await makeStore()
    return {
      subject,
      steps: new LeaseSteps(subject),
      [Symbol.asyncDispose]: () => subject[Symbol.asyncDispose](),
    }
  }
  describe(`${name} as a lease store`, () => {
    leaseClaimTests(open)
    leaseOwnerTests(open)
    leaseBatchTests(open, capabilities)
    leaseOperatorTests(open)
  })
}
