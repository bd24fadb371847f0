import { memoryLeases } from '@onceward/core/memory'
import {
  type Claim,
  type ClaimResult,
  type HeldAnswer,
  type LeaseOperators,
  type OwnerToken,
  type Runtime,
  systemRuntime,
} from '@onceward/core/ports'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import {
  FINGERPRINT,
  LEASE_MS,
  type LeaseStoreUnderTest,
  newId,
  OTHER_PAYLOAD,
  OTHER_RULE,
  VERBS,
  type Verb,
} from './lease-store-under-test.ts'

/** The size of the property test. */
export interface LeaseModelSize {
  readonly runs: number
  /** Most steps in a run. A step is a batch of one to six events, or passing time. */
  readonly steps: number
  /** Least number of commands in total, one for each event of a batch; fewer fail the test. */
  readonly commands: number
}

// No sum of steps in time comes nearer to the end of a lease or a wait than the tolerance.
const PASSES_MS = [9_000, 22_500] as const
const TOLERANCE_MS = 1_000
/** Longer than any run, because the machine forgets nothing. */
const FOR_EVER_MS = 31_536_000_000
const EVENTS = 4
const OWNERS = 3
const FINGERPRINTS = [FINGERPRINT, FINGERPRINT, FINGERPRINT, OTHER_PAYLOAD, OTHER_RULE] as const

interface Target {
  readonly event: number
  readonly owner: number
  readonly fingerprint: number
  readonly most: number | undefined
}

/** A command to a store for several events at once. */
type Told = 'claim' | Verb | keyof LeaseOperators

type Step =
  | { readonly kind: 'pass'; readonly ms: number }
  | { readonly kind: Told; readonly targets: readonly Target[] }

const target: fc.Arbitrary<Target> = fc.record({
  event: fc.nat(EVENTS - 1),
  owner: fc.nat(OWNERS - 1),
  fingerprint: fc.nat(FINGERPRINTS.length - 1),
  most: fc.constantFrom(undefined, 1, 2),
})

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constant('pass'), ms: fc.constantFrom(...PASSES_MS) }),
  },
  { weight: 3, arbitrary: stepOf(fc.constant('claim')) },
  { weight: 3, arbitrary: stepOf(fc.constantFrom(...VERBS)) },
  { weight: 1, arbitrary: stepOf(fc.constantFrom('replay', 'forget')) },
)

function stepOf<Kind extends Told>(
  kind: fc.Arbitrary<Kind>,
): fc.Arbitrary<{ readonly kind: Kind; readonly targets: readonly Target[] }> {
  return fc.record({ kind, targets: fc.array(target, { minLength: 1, maxLength: 6 }) })
}

/**
 * Sends random commands to a store and to the state machine itself (`memoryLeases`); both must answer the same.
 * A difference is shrunk to the shortest sequence of commands.
 *
 * @param subject - Is used by all runs, each with events of its own.
 */
export function leaseStoreModel(
  name: string,
  subject: () => LeaseStoreUnderTest,
  { runs, steps, commands }: LeaseModelSize,
): void {
  it(`${name} answers random commands as the state machine does`, async () => {
    const stories = fc.array(step, { minLength: 1, maxLength: steps, size: 'max' })
    let asked = 0
    const property = fc.asyncProperty(stories, async (story) => {
      await tell(subject(), story)
      for (const one of story) asked += one.kind === 'pass' ? 0 : one.targets.length
    })
    await fc.assert(property, { numRuns: runs })
    expect(asked).toBeGreaterThanOrEqual(commands)
  }, 600_000)
}

async function tell(subject: LeaseStoreUnderTest, story: readonly Step[]): Promise<void> {
  let nowMs = 0
  const runtime: Runtime = { ...systemRuntime, monotonic: () => nowMs }
  const model = memoryLeases(runtime)
  const ids = Array.from({ length: EVENTS }, newId)
  const claimOf = ({ event, owner, fingerprint, most }: Target): Claim => ({
    id: ids[event] as Claim['id'],
    // Owner tokens are predictable here: each event has one claim per owner.
    ownerToken: `owner ${owner} of ${ids[event]}` as OwnerToken,
    fingerprint: FINGERPRINTS[fingerprint] as Claim['fingerprint'],
    leaseMs: LEASE_MS,
    maxAttempts: most,
  })
  for (const one of story) {
    if (one.kind === 'pass') {
      nowMs += one.ms
      await subject.pass(one.ms)
      continue
    }
    const claims = one.targets.map(claimOf)
    const answers = await Promise.all(
      [subject.store, model].map((store) => ask(store, one.kind, claims)),
    )
    const [mine, its] = answers.map((some) => some.map(withoutTime))
    expect(mine).toEqual(its)
    for (const [place, answer] of (answers[0] ?? []).entries()) {
      const difference = remainingOf(answer) - remainingOf(answers[1]?.[place])
      expect(Math.abs(difference)).toBeLessThan(TOLERANCE_MS)
    }
  }
}

type Answer = ClaimResult | HeldAnswer | boolean

function ask(
  store: LeaseStoreUnderTest['store'],
  kind: Told,
  claims: readonly Claim[],
): Promise<readonly Answer[]> {
  switch (kind) {
    case 'claim':
      return store.claim(claims)
    case 'renew':
      return store.renew(claims, LEASE_MS)
    case 'complete':
      return store.complete(
        claims.map((claim) => ({ ...claim, result: claim.ownerToken })),
        FOR_EVER_MS,
      )
    case 'fail':
      return store.fail(claims.map((claim) => ({ ...claim, delayMs: LEASE_MS })))
    case 'release':
      return store.release(claims)
    case 'bury':
      return store.bury(
        claims.map((claim) => ({ ...claim, reason: 'fatal' })),
        FOR_EVER_MS,
      )
    case 'replay':
    case 'forget':
      return (
        store[kind]?.(claims.map(({ id }) => id)) ??
        Promise.reject(new Error('the model needs a store with operators'))
      )
    default:
      return kind satisfies never
  }
}

const remainingOf = (answer: Answer | undefined): number =>
  typeof answer === 'object' && 'remainingMs' in answer ? answer.remainingMs : 0

const withoutTime = (answer: Answer): unknown =>
  typeof answer === 'object' && 'remainingMs' in answer ? { ...answer, remainingMs: 0 } : answer
