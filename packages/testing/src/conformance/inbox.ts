import { describe } from 'vitest'
import { attemptTests } from './inbox-attempts.ts'
import { claimTests } from './inbox-claims.ts'
import { envelopeTests } from './inbox-envelopes.ts'
import { letterTests } from './inbox-letters.ts'
import { messageTests } from './inbox-messages.ts'
import { parkingTests } from './inbox-parking.ts'
import { publishingTests } from './inbox-publishing.ts'
import { sealedTests } from './inbox-sealed.ts'
import {
  type InboxCapabilities,
  type InboxUnderTest,
  type Open,
  registration,
  Steps,
} from './inbox-under-test.ts'
import { verdictTests } from './inbox-verdicts.ts'

/**
 * What every inbox must do (design.md §6).
 *
 * @param makeInbox - Called once per test; its tables are empty.
 */
export function inboxConformance<Tx>(
  name: string,
  makeInbox: () => Promise<InboxUnderTest<Tx>>,
  capabilities: InboxCapabilities,
): void {
  const open: Open<Tx> = async () => {
    const subject = await makeInbox()
    const session = await subject.inbox.open(registration(subject.runtime))
    return {
      subject,
      steps: new Steps(session, (ms) => subject.pass(ms)),
      [Symbol.asyncDispose]: () => subject[Symbol.asyncDispose](),
    }
  }
  describe(`${name} as an inbox`, () => {
    claimTests(open, capabilities)
    attemptTests(open)
    verdictTests(open)
    parkingTests(open, capabilities)
    letterTests(open, capabilities)
    publishingTests(open)
    envelopeTests(open)
    sealedTests(open, capabilities)
    if (capabilities.countsMessages) messageTests(open)
  })
}
